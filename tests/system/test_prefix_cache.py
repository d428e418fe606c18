"""The workers' KV caches with the real programs: a prompt that begins like an earlier one is answered with the same bits and says how much of it was
there, gateway and workers agree to the page, sequences that do not fit together make room for each other, and no API key sees another one's."""

import concurrent.futures
import itertools
import json
import os
import pathlib
import random
import sys
import tempfile
import time
import unittest
import urllib.request

from api_keys import key_line, write_private
from fleet import Fleet
from programs import run_tests, wait_until

TRUNK = "The sites are joined by ordinary links, so the whole design serves one aim: nothing waits. " * 9
PAGE = 64
LONG = bool(os.environ.get("LONGHAUL_TEST_LONG"))


def complete(fleet, prompt, key=None, **more):
    request = urllib.request.Request(fleet.url + "/v1/completions", json.dumps({"prompt": prompt, "max_tokens": 8, "temperature": 0, **more}).encode())
    request.add_header("Content-Type", "application/json")
    if key:
        request.add_header("Authorization", "Bearer " + key)
    with urllib.request.urlopen(request) as answer:
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
        wait_until(self.is_settled, "gateway and workers agree on the pages")

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


def distinguishable(some, others):
    """How well a threshold tells two samples apart: 0.5 not at all, 1 always (the area under the curve of hits and false alarms)."""
    before = sum((a < b) + (a == b) / 2 for a in some for b in others) / (len(some) * len(others))
    return max(before, 1 - before)


class TenantsTest(unittest.TestCase):
    def test_nobody_can_time_what_another_one_has_asked(self):
        """Alice asks; then Bob asks the same, or something new, and looks at the clock and at what he is told of cached tokens. A few times here;
        LONGHAUL_TEST_LONG=1 goes on for 80 seconds and asks for what is promised."""
        with tempfile.TemporaryDirectory() as folder:
            keys = str(pathlib.Path(folder) / "keys")
            write_private(keys, key_line("alice", "key-a") + key_line("bob", "key-b"))
            with Fleet(1, ["--api-key-file", keys]) as fleet:
                for who, at_most, at_least in (("key-b", 0.55 if LONG else 1, 0), ("key-a", 1, 0.95 if LONG else 0)):
                    times, cached = self.probe(fleet, who, (80 if at_least == 0 else 5) if LONG else 0)
                    told = distinguishable(times[True], times[False])
                    print(f"    {who} after key-a: {len(times[True])} the same, {len(times[False])} something new: told apart by time {told:.3f}, "
                          f"cached tokens {sorted(cached[True])} and {sorted(cached[False])}")
                    self.assertEqual(cached[False], {0})
                    self.assertEqual(cached[True], {PAGE if who == "key-a" else 0})
                    self.assertLessEqual(told, at_most)
                    self.assertGreaterEqual(told, at_least)

    @staticmethod
    def probe(fleet, who, seconds):
        """Seconds to the answer, and cached tokens: of what key-a has asked before, and of what nobody has."""
        dice, times, cached, until = random.Random(5), {True: [], False: []}, {True: set(), False: set()}, time.monotonic() + seconds
        for round_ in itertools.count():
            if round_ >= 4 and time.monotonic() > until:
                return times, cached
            new = [f"{dice.randrange(10**9)} {TRUNK[:330]}" for _ in range(2)]
            is_same = round_ % 2 == 0 if round_ < 2 else dice.random() < 0.5
            answer_of(fleet, new[0], key="key-a", max_tokens=1)
            begun = time.monotonic()
            tokens = answer_of(fleet, new[0 if is_same else 1], key=who, max_tokens=1)[1]
            times[is_same].append(time.monotonic() - begun)
            cached[is_same].add(tokens)


if __name__ == "__main__":
    run_tests(sys.modules[__name__], sanitized=["ShortPagesTest"])
