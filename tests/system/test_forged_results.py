"""The last worker's results are forged on their way: no request fails, all have the right tokens, and the worker is left out, which /fleet,
`status`, `doctor`, the log and the metrics say."""

import json
import re
import subprocess
import sys
import unittest
import urllib.request

from forging import ForgingFleet
from programs import build_folder, run_tests, wait_until

TOKENS = 24


class ForgedResults(unittest.TestCase):
    def complete(self, fleet):
        body = json.dumps({"prompt": "Once upon a time", "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True})
        request = urllib.request.Request(fleet.url + "/v1/completions", body.encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["choices"][0]["text"]

    def said_by(self, command, fleet):
        """doctor ends with 1 where something is to be done."""
        program = subprocess.run([build_folder() / "longhaul-gateway", command, "--url", fleet.url], capture_output=True, text=True)
        self.assertIn(program.returncode, (0, 1), program.stderr)
        return " ".join(program.stdout.split())

    def metrics(self, fleet):
        port = re.search(r"metrics_port=(\d+)", fleet.gateway.log_text())[1]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            return answer.read().decode().splitlines()

    def check_forgeries(self, *forgeries):
        """Each once: the second one is one too many."""
        with ForgingFleet(2, gateway_flags=["--metrics-listen", "127.0.0.1:0"]) as fleet:
            wanted = self.complete(fleet)
            epoch = fleet.fleet_state()["chains"][0]["epoch"]
            forged = fleet.last_worker()
            forger = fleet.forgers[forged]
            for forgery in forgeries:
                forger.forge_once(forgery)
                self.assertEqual(self.complete(fleet), wanted)
                self.assertEqual(forger.forged, forgeries.index(forgery) + 1)
            worker = fleet.worker_state(forged)
            self.assertEqual((worker["role"], worker["misconduct"]["standing"]), ("spare", "suspended"))
            self.assertEqual(sum(worker["misconduct"]["faults"].values()), len(forgeries))
            self.assertEqual(worker["reason"], f"its results were refused: {worker['misconduct']['reason']}; {worker['reason'].partition('; ')[2]}")
            chain = fleet.fleet_state()["chains"][0]
            self.assertEqual([stage["worker"] for stage in chain["stages"]], [f"worker-{2 - forged}"])
            self.assertLess(chain["epoch"], epoch + 60)
            self.assertEqual(fleet.gateway.log_text().count("chain is broken"), len(forgeries))
            self.assertIn(f"a worker is suspended worker=worker-{forged + 1} for_s=30", fleet.gateway.log_text())
            self.assertIn("its results were refused", self.said_by("status", fleet))
            self.assertIn(f"worker-{forged + 1}: its results were refused", self.said_by("doctor", fleet))
            name = f'longhaul_worker_suspended{{worker="worker-{forged + 1}"'
            wait_until(lambda: any(line.startswith(name) and line.endswith(" 1") for line in self.metrics(fleet)), "the metrics say so")

    def test_a_token_that_there_is_not_and_a_number_that_is_none(self):
        self.check_forgeries("token", "nan")

    def test_another_position_and_a_frame_that_cannot_be_read(self):
        self.check_forgeries("position", "garbled")

    def test_the_only_worker_is_used_all_the_same(self):
        with ForgingFleet(1) as fleet:
            wanted = self.complete(fleet)
            for _ in range(3):
                fleet.forgers[0].forge_once("token")
                self.assertEqual(self.complete(fleet), wanted)
            worker = fleet.worker_state(0)
            self.assertEqual((worker["role"], worker["misconduct"]["is_needed"]), ("stage", True))
            self.assertIn("nothing serves without it", self.said_by("doctor", fleet))


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
