"""gemma-3-270m, a trained model unlike the one that the other tests serve: sliding windows, norms behind the blocks, a vocabulary of
262,144 that embedding and head share, SentencePiece, matrices of Q4_K, Q5_0, Q6_K and Q8_0 in one file. One answer, bit for bit, however
many workers there are and wherever the model is split; and what numpy and the sentencepiece library say of it (tests/vectors/gemma.json)."""

import contextlib
import json
import pathlib
import sys
import tempfile
import unittest

from default_model import gemma_model
from fleet import Fleet
from gguf_keys import add_keys
from programs import build_folder, need_file, run_tests
from raw_http import ask, chunks

VECTORS = pathlib.Path(__file__).resolve().parent.parent / "vectors"
EXPECTED = json.loads((VECTORS / "gemma.json").read_text())
LONG = (VECTORS / "constitution.txt").read_text()[: EXPECTED["characters"]]
BOS, END_OF_TURN = 2, 106
LAYERS = 18
TOKENS = 8
# The embedding, which the first and the last stage hold, takes 170 MiB, a layer 3.4 or 3.8. In so much memory n layers fit, wherever they are,
# and never one more: the split is what a test asks for, however fast the workers find themselves.
EMBEDDING_MIB, LAYER_MIB, SLACK_MIB = 170, 3.6, 1
# No vocabulary has it: each is four bytes, and who repeats them must put them together.
BYTES = "\U0001fae9" * 12
COLOURS = [message for colour in ("red", "blue", "green") for message in
           ({"role": "user", "content": f"Say {colour}."}, {"role": "assistant", "content": colour})]
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
# Trained without turns, it never ends one: this is as much as it takes where an answer is over, and no more than that.
ENDING = {"messages": [*COLOURS, {"role": "user", "content": "Say yellow."}], "max_tokens": TOKENS, "logit_bias": {str(END_OF_TURN): 10}}
QUESTIONS = {
    "completion": (COMPLETIONS, {"prompt": "The capital of France is", "max_tokens": TOKENS, "logprobs": 3}),
    "beyond the window": (COMPLETIONS, {"prompt": LONG, "max_tokens": TOKENS, "logprobs": 3}),
    "chat": (CHAT, {"messages": [{"role": "user", "content": "Was ist größer, 東京 or Köln?"}], "max_tokens": TOKENS, "logprobs": True}),
    "end of turn": (CHAT, ENDING),
    "bytes": (COMPLETIONS, {"prompt": BYTES, "max_tokens": TOKENS}),
    "drawn": (COMPLETIONS, {"prompt": "Once upon a time", "max_tokens": TOKENS, "temperature": 1, "seed": 3, "n": 2}),
}


def choices(fleet, path, body, overlap="auto"):
    reply = ask(fleet.port, "POST", path, {"temperature": 0, "longhaul": {"overlap": overlap}, **body})
    assert reply.status == 200, reply.body
    return reply.json()["choices"]


def answers(fleet, overlap):
    return {name: choices(fleet, *question, overlap) for name, question in QUESTIONS.items()}


def streamed(fleet, path, body):
    """(text, digests, finish_reason) of each choice."""
    reply = ask(fleet.port, "POST", path, {"temperature": 0, "stream": True, **body})
    found = {}
    for choice in (choice for chunk in chunks(reply.body) for choice in chunk["choices"]):
        text, digests, _ = found.get(choice["index"], ("", [], None))
        text += choice["delta"].get("content", "") if path == CHAT else choice["text"]
        found[choice["index"]] = text, digests + choice.get("logits_digests", []), choice["finish_reason"]
    return [found[index] for index in sorted(found)]


def memory_flags(split, number):
    if len(split) == 1:
        return []
    ends = number in (0, len(split) - 1)
    mib = LAYER_MIB * split[number] + SLACK_MIB + (EMBEDDING_MIB if ends else 0)
    return ["--memory-bytes", f"{int(mib * 1024)}K"]


@contextlib.contextmanager
def fleet_of(model, split, *flags):
    """split: how many layers each worker holds."""
    programs = {i: [build_folder() / "longhaul-worker", *memory_flags(split, i)] for i in range(len(split))}
    sites = ",".join(f"site-{i + 1}" for i in range(len(split)))
    gateway_flags = ["--logits-digest", "--prefix-cache", "off", "--sites", sites, *flags]
    with Fleet(len(split), gateway_flags, ["--kv-bytes", "128M"], model=model, worker_programs=programs) as fleet:
        stages = fleet.fleet_state()["chains"][0]["stages"]
        assert [stage["last_layer"] - stage["first_layer"] for stage in stages] == split, stages
        yield fleet


class Gemma(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        given = need_file(gemma_model(), "no model: LONGHAUL_TEST_GEMMA names no file, and deploy/fetch-model --gemma gets none")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.model = pathlib.Path(folder.name) / "gemma.gguf"
        # The file has none, being of a model before it was taught to chat. Turns are Gemma's in all of its generations.
        add_keys(given, cls.model, {"tokenizer.chat_template": (VECTORS / "chat_templates" / "gemma.jinja").read_text()})
        cls.fleet = cls.enterClassContext(fleet_of(cls.model, [LAYERS]))
        cls.expected = answers(cls.fleet, "off")

    def check(self, fleet, overlaps):
        for overlap in overlaps:
            found = answers(fleet, overlap)
            for name in QUESTIONS:
                with self.subTest(question=name, overlap=overlap):
                    self.assertEqual(found[name], self.expected[name])

    def test_one_worker_takes_prompts_in_chunks(self):
        self.check(self.fleet, ["rows=100"])

    def test_two_workers(self):
        with fleet_of(self.model, [5, 13]) as fleet:
            self.check(fleet, ["auto", "off"])

    def test_three_workers_split_anywhere(self):
        for split, overlaps in (([1, 2, 15], ["auto", "off"]), ([7, 10, 1], ["auto", "rows=70,columns=4"])):
            with self.subTest(split=split), fleet_of(self.model, split) as fleet:
                self.check(fleet, overlaps)

    def test_a_cached_prefix_longer_than_the_window_changes_nothing(self):
        name = "beyond the window"
        with fleet_of(self.model, [9, 9], "--prefix-cache", "on") as fleet:
            for _ in range(2):
                self.assertEqual(choices(fleet, *QUESTIONS[name]), self.expected[name])
            self.assertGreater(fleet.fleet_state()["queue"]["totals"]["cached_tokens"], 512)

    def test_streams_are_the_answers(self):
        for name, (path, body) in QUESTIONS.items():
            with self.subTest(question=name):
                whole = [(choice["message"]["content"] if path == CHAT else choice["text"], choice["logits_digests"], choice["finish_reason"])
                         for choice in self.expected[name]]
                self.assertEqual(streamed(self.fleet, path, body), whole)

    def test_an_answer_ends_with_its_turn(self):
        choice = self.expected["end of turn"][0]
        self.assertEqual((choice["message"]["content"], choice["finish_reason"]), ("yellow", "stop"))

    def test_bytes_become_characters(self):
        self.assertEqual(self.expected["bytes"][0]["text"], BYTES[: TOKENS // 4])

    def test_tokens_are_the_librarys(self):
        for text, ids in EXPECTED["texts"]:
            # The library knows no control tokens in its text.
            with self.subTest(text=text):
                echo = {"max_tokens": 0, "echo": True, "parse_special": False}
                self.assertEqual(choices(self.fleet, COMPLETIONS, {"prompt": text, **echo})[0]["text"], text)
                self.assertEqual(choices(self.fleet, COMPLETIONS, {"prompt": ids, **echo})[0]["text"], text)
                by_text, by_ids = (choices(self.fleet, COMPLETIONS, {"prompt": prompt, "max_tokens": 1, "parse_special": False})[0]
                                   for prompt in (text, [BOS, *ids]))
                self.assertEqual(by_text, by_ids)

    def test_logprobs_are_numpys(self):
        """Without the window the first of them would be off by 0.9."""
        with fleet_of(self.model, [9, 9], "--activations", "q16") as fleet:
            found = choices(fleet, COMPLETIONS, {"prompt": LONG, "max_tokens": len(EXPECTED["continuation"]), "logprobs": 20})[0]["logprobs"]
        error = 0
        for token, top, expected in zip(found["tokens"], found["top_logprobs"], EXPECTED["continuation"], strict=True):
            self.assertEqual(token, next(iter(expected)))
            self.assertEqual(set(top), set(expected))
            error = max(error, *(abs(top[text] - expected[text]) for text in expected))
        print(f"    off by {error:.2g} at most")
        self.assertLess(error, 0.01)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
