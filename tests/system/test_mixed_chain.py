"""A chain of unlike machines gives one answer: a worker built for aarch64, run under qemu, serves a stage beside a worker of this machine's
own kind. The answer's text, logprobs and the digests of its logits are those of a chain without it. The emulated one is some hundred
times slower, which is what the planner sees of it, and no deadline may take it for dead. LONGHAUL_TEST_LONG=1 has it hold half of the
layers, as the last stage and as the first."""

import json
import os
import sys
import unittest
import urllib.request

from aarch64 import aarch64_program
from fleet import Fleet
from programs import build_folder, run_tests

PROMPT = "We the People of the United States"
TOKENS = 3
LONG = bool(os.environ.get("LONGHAUL_TEST_LONG"))
# The planner would leave one layer to the slow one, but for the other's memory.
MEMORY = "64M" if LONG else "86M"
LAYERS_MIN = 10 if LONG else 3
PLACES = (1, 0) if LONG else (1,)


def ask(fleet):
    """The answer and the digests of its logits."""
    body = {"prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0, "logprobs": 3, "ignore_eos": True,
            "longhaul": {"overlap": "rows=64,columns=4"}}
    request = urllib.request.Request(fleet.url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        choice = json.load(answer)["choices"][0]
    return choice["text"], choice["logprobs"], fleet.drawn()


def fleet_of(workers, **extra):
    flags = ["--logits-digest", "--wire", "f32", "--workers", str(workers), "--sites", "site-1,site-2"]
    return Fleet(workers, gateway_flags=flags, worker_flags=["--kv-bytes", "32M"], **extra)


class MixedChain(unittest.TestCase):
    def test_an_emulated_worker_changes_nothing(self):
        with fleet_of(1) as fleet:
            expected = ask(fleet)
        self.assertEqual(len(expected[2]), TOKENS)
        for place in PLACES:
            programs = {place: aarch64_program("longhaul-worker"), 1 - place: [build_folder() / "longhaul-worker", "--memory-bytes", MEMORY]}
            with self.subTest(place=place), fleet_of(2, worker_programs=programs) as fleet:
                state = fleet.fleet_state()
                stages = [(worker["isa"], stage["first_layer"], stage["last_layer"])
                          for worker, stage in zip(state["workers"], state["chains"][0]["stages"], strict=True)]
                print(f"stages: {stages}")
                self.assertEqual([isa == "dotprod" for isa, _, _ in stages], [place == 0, place == 1])
                self.assertGreaterEqual(stages[place][2] - stages[place][1], LAYERS_MIN)
                self.assertEqual(ask(fleet), expected)


if __name__ == "__main__":
    aarch64_program("longhaul-worker")
    run_tests(sys.modules[__name__])
