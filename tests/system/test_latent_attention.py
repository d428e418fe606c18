"""Latent attention (deepseek2, in small: tests/truth/small_model.py), served: completions and chats are the same bits with one worker, two and
three, in both layouts of the matrix of keys and values, with every type of the KV cache, and when a worker is killed under a stream. That the
tokens are numpy's, test_small_models.py says."""

import pathlib
import sys
import tempfile
import unittest

from fleet import Fleet
from programs import IS_QUICK, run_tests, wait_until
from raw_http import ask
from stream import Stream

try:
    sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "truth"))
    from small_model import MODELS, Type, Writer
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

# In two parts and whole; both have three layers.
LAYOUTS = {"deepseek2 as V3": Type.Q8_0, "deepseek2 as V2-Lite": Type.F32}
TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
PROMPT = "We the People of the United States, in Order to form a more perfect Union, establish Justice"
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which Union? " + PROMPT}]
SETTINGS = {"temperature": 1, "seed": 7, "ignore_eos": True, "max_tokens": 40}


class LatentAttention(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.template = pathlib.Path(self.temporary.name) / "template.jinja"
        self.template.write_text(TEMPLATE)

    def model(self, title):
        path = pathlib.Path(self.temporary.name) / "small.gguf"
        Writer(path, 7, LAYOUTS[title]).write(*MODELS[title])
        return path

    def fleet(self, model, workers, *gateway_flags, **more):
        return Fleet(workers, ["--logits-digest", "--prefix-cache", "off", "--chat-template", str(self.template), *gateway_flags], model=model, **more)

    def answers(self, model, workers, *gateway_flags):
        """A completion and a chat, each with what was drawn."""
        found = []
        with self.fleet(model, workers, *gateway_flags) as fleet:
            self.assertEqual(len(fleet.fleet_state()["chains"][0]["stages"]), workers)
            overlap = "off" if workers == 1 else "rows=23,columns=3"
            for path, body in (("completions", {"prompt": PROMPT, "logprobs": 3}), ("chat/completions", {"messages": MESSAGES, "logprobs": True})):
                reply = ask(fleet.port, "POST", f"/v1/{path}", {**SETTINGS, **body, "longhaul": {"overlap": overlap}})
                self.assertEqual(reply.status, 200, reply.body)
                drawn = fleet.drawn()
                self.assertEqual(len(drawn), SETTINGS["max_tokens"])
                found.append((reply.json()["choices"][0], drawn))
        return found

    def test_one_answer_with_any_number_of_workers(self):
        for title in LAYOUTS:
            model = self.model(title)
            one = self.answers(model, 1)
            for workers in (2, 3):
                with self.subTest(layout=title, workers=workers):
                    self.assertEqual(self.answers(model, workers), one)

    def test_one_answer_with_each_type_of_the_cache(self):
        model, digests = self.model("deepseek2 as V3"), []
        for kind in ("f32", "f16", "q8"):
            with self.subTest(kind=kind):
                one = self.answers(model, 1, "--kv-type", kind)
                self.assertEqual(self.answers(model, 2, "--kv-type", kind), one)
                digests.append([digest for _, _, digest in one[0][1]])
        for a, b in zip(digests, digests[1:]):
            self.assertNotEqual(a[0], b[0])

    def test_a_killed_worker_does_not_show(self):
        model, settings = self.model("deepseek2 as V2-Lite"), {"temperature": 1, "seed": 3}
        flags = {"worker_flags": ["--slowdown", "30"], "threads": 1}
        with self.fleet(model, 3, "--replay-timeout-ms", "30000", **flags) as fleet:
            expected = Stream(fleet.port, PROMPT, 100, **settings).finish().text
            for victim in (1, 0)[: 1 if IS_QUICK else 2]:
                with self.subTest(victim=victim), Stream(fleet.port, PROMPT, 100, **settings) as stream:
                    stream.read(12)
                    fleet.workers[victim].kill()
                    stream.finish()
                    self.assertEqual(stream.text, expected)
                    self.assertTrue(stream.is_done)
                fleet.start_worker(victim)
                wait_until(lambda: len(fleet.fleet_state()["workers"]) == 3, "it is back")
            totals = fleet.fleet_state()["queue"]["totals"]
            self.assertGreaterEqual(totals["replays"], 1 if IS_QUICK else 2)
            self.assertEqual(totals["failed"], 0)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
