"""The workers' KV caches with the real programs: a prompt that begins like an earlier one is answered with the same bits and says how much of it was
there, gateway and workers agree to the page, sequences that do not fit together make room for each other, and no API key sees another one's."""

import concurrent.futures
import json
import pathlib
import sys
import tempfile
import unittest
import urllib.request

from api_keys import key_line, write_private
from fleet import Fleet
from programs import run_tests, wait_until

TRUNK = "The sites are joined by ordinary links, so the whole design serves one aim: nothing waits. " * 9
PAGE = 64


def complete(fleet, prompt, key=None, **more):
    request = urllib.request.Request(fleet.url + "/v1/completions", json.dumps({"prompt": prompt, "max_tokens": 8, "temperature": 0, **more}).encode())
    request.add_header("Content-Type", "application/json")
    if key:
        request.add_header("Authorization", "Bearer " + key)
    with urllib.request.urlopen(request, timeout=300) as answer:
        return answer.read().decode()


def answer_of(fleet, prompt, **more):
    answer = json.loads(complete(fleet, prompt, **more))
    return answer, answer["usage"]["prompt_tokens_details"]["cached_tokens"]


class PrefixTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(2, ["--logits-digest", "--renew-ms", "100"], worker_flags=["--kv-bytes", "192M"]).__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.fleet.__exit__(None, None, None)

    def is_settled(self):
        state = self.fleet.fleet_state()
        stages = zip(state["chains"][0]["stages"], state["queue"]["kv"])
        held = {stage["worker"]: kv["pages_cached"] for stage, kv in stages}
        return all(kv["pages_used"] + kv["pages_returning"] == 0 for kv in state["queue"]["kv"]) and all(
            worker["kv"]["pages_total"] - worker["kv"]["pages_free"] == held[worker["name"]]
            and worker["kv"]["sequences"] == state["queue"]["prefixes"] for worker in state["workers"])

    def tearDown(self):
        wait_until(self.is_settled, 10, "gateway and workers agree on the pages")

    def test_the_same_bits_with_and_without(self):
        prompt = TRUNK + "What waits?"
        cold, nothing = answer_of(self.fleet, prompt, logprobs=2)
        warm, cached = answer_of(self.fleet, prompt, logprobs=2, longhaul={"timing": True})
        tokens = cold["usage"]["prompt_tokens"]
        self.assertEqual((nothing, cached), (0, (tokens - 1) // PAGE * PAGE))
        self.assertEqual(cold["choices"], warm["choices"]) # texts, logprobs and digests of the logits
        timing = warm["longhaul"]["timing"]
        self.assertTrue(timing["complete"])
        self.assertEqual((timing["cached_tokens"], sum(timing["chunks"])), (cached, tokens - cached))
        other, shared = answer_of(self.fleet, TRUNK + "Something else, then.", logprobs=2)
        self.assertEqual(shared, cached)
        self.assertNotEqual(other["choices"], warm["choices"])

    def test_a_stream_tells_it(self):
        prompt = "Streams. " + TRUNK
        _, nothing = answer_of(self.fleet, prompt)
        events = complete(self.fleet, prompt, stream=True, stream_options={"include_usage": True}).split("\n\n")
        usage = json.loads(events[-3].removeprefix("data: "))["usage"]
        self.assertEqual(nothing, 0)
        self.assertEqual(usage["prompt_tokens_details"]["cached_tokens"], (usage["prompt_tokens"] - 1) // PAGE * PAGE)

    def test_choices_share_a_prompt(self):
        before = self.fleet.fleet_state()["queue"]["totals"]
        answer, cached = answer_of(self.fleet, "Choices. " + TRUNK, n=3, temperature=1, seed=7)
        after = self.fleet.fleet_state()["queue"]["totals"]
        whole = (answer["usage"]["prompt_tokens"] - 1) // PAGE * PAGE
        self.assertEqual(cached, 0)
        self.assertEqual(after["cached_tokens"] - before["cached_tokens"], 2 * whole)
        self.assertEqual(len({choice["text"] for choice in answer["choices"]}), 3)


class ShortPagesTest(unittest.TestCase):
    """Eight pages or so on each worker for three sequences that come to four each."""

    def test_sequences_make_room(self):
        prompts = [f"Number {i}. " + TRUNK[:350] for i in range(3)]
        more = {"max_tokens": 140, "ignore_eos": True, "seed": 3, "temperature": 0.7}
        with Fleet(2, worker_flags=["--kv-bytes", "14500K"]) as fleet:
            alone = [answer_of(fleet, prompt, **more)[0]["choices"] for prompt in prompts]
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                together = list(pool.map(lambda prompt: answer_of(fleet, prompt, **more)[0]["choices"], prompts))
            state = fleet.fleet_state()["queue"]
        self.assertLess(min(stage["pages_total"] for stage in state["kv"]), 12)
        self.assertEqual(together, alone)
        self.assertGreater(state["totals"]["preemptions"], 0)
        self.assertEqual((state["totals"]["replays"], state["totals"]["failed"]), (0, 0))


class TenantsTest(unittest.TestCase):
    def test_a_key_does_not_see_what_another_one_left(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = str(pathlib.Path(folder) / "keys")
            write_private(keys, key_line("alice", "key-a") + key_line("bob", "key-b"))
            with Fleet(1, ["--api-key-file", keys]) as fleet:
                found = [answer_of(fleet, TRUNK, key=key, max_tokens=1)[1] for key in ("key-a", "key-b", "key-b", "key-a")]
        self.assertEqual(found[:2], [0, 0])
        self.assertTrue(found[2] == found[3] > 0)


if __name__ == "__main__":
    run_tests(sys.modules[__name__], sanitized=["ShortPagesTest"])
