"""The gateway cuts prompts by what its workers have measured, and says so; a request may ask for another cut, and gets the same tokens."""

import json
import statistics
import sys
import time
import unittest
import urllib.error
import urllib.request

from fleet import Fleet
from programs import run_tests, wait_until

ROWS = 128


def complete(url, overlap=None, start=1000, tokens=1):
    """Seconds to the end, and the tokens with their logprobs; or the error's status and body."""
    body = {"prompt": [start + i for i in range(ROWS)], "max_tokens": tokens, "temperature": 0, "logprobs": 2, "ignore_eos": True}
    if overlap is not None:
        body["longhaul"] = {"overlap": overlap}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    begin = time.monotonic()
    try:
        with urllib.request.urlopen(request) as answer:
            choice = json.load(answer)["choices"][0]
            return time.monotonic() - begin, (choice["text"], choice["logprobs"])
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["error"]


class OverlapChoice(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Slower machines, so that what else runs here matters less.
        cls.fleet = Fleet(2, gateway_flags=["--renew-ms", "100"], worker_flags=["--slowdown", "4"])
        cls.fleet.__enter__()
        for start in range(2000, 2500, 100):
            complete(cls.fleet.url, start=start)
        wait_until(lambda: cls.overlap()["lacks"] is None, "stages and hops are measured")

    @classmethod
    def tearDownClass(cls):
        cls.fleet.__exit__(None, None, None)

    @classmethod
    def overlap(cls):
        return cls.fleet.fleet_state()["chains"][0]["overlap"]

    def test_it_shows_its_inputs_and_its_choice(self):
        overlap = self.overlap()
        self.assertEqual(len(overlap["stages"]), 2)
        self.assertEqual(len(overlap["hops"]), 3)
        self.assertGreater(overlap["token_ms"], 0)
        for plan in overlap["plans"]:
            self.assertEqual(sum(plan["chunks"]), plan["prompt"])
            self.assertLessEqual(plan["predicted_ms"], plan["off_ms"] * 1.001)
            self.assertGreaterEqual(plan["depth"], 1)
            for ends in plan["column_ends"]:
                self.assertEqual(ends[-1], 576)

    def test_a_prompt_takes_no_less_than_was_predicted(self):
        """Half of it at least. What it takes more is the machine's other work, or a bad prediction: tests/bench/overlap tells."""
        took_ms = statistics.median(complete(self.fleet.url, start=5000 + 7 * i)[0] for i in range(5)) * 1000
        plan = next(p for p in self.overlap()["plans"] if p["prompt"] == ROWS)
        print(f"    {took_ms:.0f} ms; predicted {plan['predicted_ms']:.0f}, bound {plan['bound_ms']:.0f}, off {plan['off_ms']:.0f}: {plan['plan']}")
        self.assertGreater(took_ms, 0.5 * plan["predicted_ms"])

    def test_every_cut_gives_the_same_tokens(self):
        expected = complete(self.fleet.url, "off", tokens=4)[1]
        for overlap in (None, "auto", "rows=1", "rows=7,columns=3", "rows=8192,columns=16"):
            with self.subTest(overlap=overlap):
                self.assertEqual(complete(self.fleet.url, overlap, tokens=4)[1], expected)

    def test_a_bad_cut_is_refused_by_name(self):
        for overlap in ("fast", "rows=0", "rows=8,columns=99", 7):
            with self.subTest(overlap=overlap):
                status, error = complete(self.fleet.url, overlap)
                self.assertEqual((status, error["param"]), (400, "longhaul.overlap"))


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
