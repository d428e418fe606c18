"""The last worker of one of three chains gives another token now and then, one that there is: with --spot-check that is found, the worker is left
out, which /fleet, `status`, `doctor`, the log and the metrics say, the others are not blamed, and requests go on."""

import concurrent.futures
import json
import re
import subprocess
import sys
import time
import unittest
import urllib.request

from forging import ForgingFleet
from programs import build_folder, run_tests, slowness, wait_until

TOKENS = 40
PROMPTS = ["Once upon a time", "The lighthouse keeper said", "A list of rivers:", "In the year 1815 there was", "def add(a, b):", "Dear Sir,"]
FLAGS = ["--renew-ms", "200", "--lease-ms", str(3000 * slowness()), "--plan-delay-ms", "300", "--metrics-listen", "127.0.0.1:0"]


class SpotChecks(unittest.TestCase):
    def complete(self, fleet, number):
        body = {"prompt": PROMPTS[number % len(PROMPTS)], "max_tokens": TOKENS, "temperature": number % 2, "seed": number, "ignore_eos": True, "logprobs": 2}
        request = urllib.request.Request(fleet.url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            choice = json.load(answer)["choices"][0]
            self.assertEqual(choice["finish_reason"], "length")
            return choice["text"], choice["logprobs"]["token_logprobs"]

    def complete_all(self, fleet, count=len(PROMPTS)):
        """At once, so that each chain has some."""
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            return list(pool.map(lambda number: self.complete(fleet, number), range(count)))

    def start(self, workers, chains, rate):
        fleet = ForgingFleet(workers, gateway_flags=["--replicas", str(chains), "--spot-check", rate, *FLAGS])
        self.enterContext(fleet)
        wait_until(lambda: [chain["state"] for chain in fleet.fleet_state()["chains"]] == ["ready"] * chains, "all chains are ready")
        return fleet

    def checks(self, fleet):
        return fleet.fleet_state()["spot_checks"]

    def said_by(self, command, fleet):
        program = subprocess.run([build_folder() / "longhaul-gateway", command, "--url", fleet.url], capture_output=True, text=True)
        self.assertIn(program.returncode, (0, 1), program.stderr)
        return " ".join(program.stdout.split())

    def metrics(self, fleet):
        port = re.search(r"metrics_port=(\d+)", fleet.gateway.log_text())[1]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            return answer.read().decode().splitlines()

    def test_who_forges_is_found_and_left_out(self):
        fleet = self.start(3, 3, "0.5")
        wanted = self.complete_all(fleet)
        forged = fleet.last_worker()
        name = f"worker-{forged + 1}"
        fleet.forgers[forged].forge_every("another", 10)
        began = time.monotonic()

        def is_found():
            self.complete_all(fleet)
            wait_until(lambda: self.checks(fleet)["waiting"] == 0, "what was chosen is checked")
            standing = fleet.worker_state(forged)["misconduct"]
            return standing and standing["standing"] == "suspended"

        wait_until(is_found, "the worker that forges is suspended")
        found = self.checks(fleet)
        print(f"    found after {time.monotonic() - began:.1f} s and {fleet.forgers[forged].forged} forged results: {found}")
        self.assertGreaterEqual(found["wrong"], 2)
        worker = fleet.worker_state(forged)
        self.assertEqual(worker["misconduct"]["fault"], "wrong_answer")
        self.assertEqual(worker["misconduct"]["faults"]["wrong_answer"], found["wrong"])
        for number in range(3):
            if number != forged:
                self.assertIsNone(fleet.worker_state(number)["misconduct"])
        self.assertEqual(self.complete_all(fleet), wanted)
        self.assertIn(f'a spot check has found a wrong answer chain=main workers="{name}"', fleet.gateway.log_text())
        self.assertIn(f"a worker is suspended worker={name} for_s=30", fleet.gateway.log_text())
        self.assertIn(f"{name}: its chain gave a wrong answer", self.said_by("doctor", fleet))
        wait_until(lambda: f'longhaul_spot_checks_total{{result="wrong"}} {found["wrong"]}' in self.metrics(fleet), "the metrics say so")
        self.assertEqual(fleet.fleet_state()["queue"]["totals"]["failed"], 0)

    def test_sound_chains_agree_and_are_not_blamed(self):
        fleet = self.start(2, 2, "1")
        expected = self.complete_all(fleet)
        self.assertEqual(self.complete_all(fleet), expected)
        wait_until(lambda: self.checks(fleet)["waiting"] == 0, "all is checked")
        checks = self.checks(fleet)
        print(f"    {checks}")
        self.assertTrue(checks["is_possible"])
        self.assertEqual((checks["wrong"], checks["undecided"]), (0, 0))
        self.assertEqual(checks["agreed"] + checks["dropped"], 2 * len(PROMPTS))
        self.assertGreaterEqual(checks["agreed"], len(PROMPTS))
        self.assertEqual([fleet.worker_state(number)["misconduct"] for number in range(2)], [None, None])

    def test_one_chain_alone_checks_nothing(self):
        program = subprocess.run([build_folder() / "longhaul-gateway", "--spot-check", "0.1", "--model", "x.gguf"], capture_output=True, text=True)
        self.assertEqual(program.returncode, 2)
        self.assertIn("--spot-check goes with --replicas 2 or more", program.stderr)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
