"""A worker that was stopped for a second within a prompt, and one beside which something else ran, is believed to be what it was: its meter
and the cuts of the next prompts are as before."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest
import urllib.request

from fleet import Fleet
from programs import run_tests, wait_until

# A worker that neither moves nor reports counts as gone after two and a half of them, and after a second at least.
RENEW_MS = 800
ROWS = 160
TOKENS = 8
# One point may be off by what the machine's other work makes of it; a stop of a second makes a hundred of it.
FACTOR = 2.0
BUSY_S = 3


class BadSamples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Slower machines, so that what else runs here matters less.
        cls.fleet = Fleet(2, gateway_flags=["--renew-ms", str(RENEW_MS), "--lease-ms", "10000"], worker_flags=["--slowdown", "4"])
        cls.fleet.__enter__()
        cls.prompts = 0
        for _ in range(6):
            cls.complete()
        wait_until(lambda: cls.overlap()["lacks"] is None, "stages and hops are measured")

    @classmethod
    def tearDownClass(cls):
        cls.fleet.__exit__(None, None, None)

    @classmethod
    def complete(cls):
        cls.prompts += 1
        body = {"prompt": [1000 + 3 * cls.prompts + i for i in range(ROWS)], "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
        request = urllib.request.Request(cls.fleet.url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    @classmethod
    def overlap(cls):
        return cls.fleet.fleet_state()["chains"][0]["overlap"]

    def points(self):
        """name -> rows -> us, after the reports that are on their way."""
        time.sleep(3 * RENEW_MS / 1000)
        return {worker["name"]: {point["rows"]: point["us"] for point in worker["compute"]["points"]}
                for worker in self.fleet.fleet_state()["workers"]}

    def settled_points(self):
        for _ in range(4):
            self.complete()
        return self.points()

    def assert_as_before(self, before, after):
        for name, points in before.items():
            for rows, us in points.items():
                self.assertLess(after[name][rows], FACTOR * us, f"{name}: {rows} rows")
                self.assertGreater(after[name][rows], us / FACTOR, f"{name}: {rows} rows")

    def stop_within_a_prompt(self, worker, delay_s):
        """A prompt meanwhile, which takes a second longer."""
        child = subprocess.Popen([sys.executable, "-c",
                                  "import os, signal, sys, time\n"
                                  "pid, delay = int(sys.argv[1]), float(sys.argv[2])\n"
                                  "time.sleep(delay)\n"
                                  "os.kill(pid, signal.SIGSTOP)\n"
                                  "time.sleep(1)\n"
                                  "os.kill(pid, signal.SIGCONT)\n", str(worker.pid), str(delay_s)])
        try:
            self.complete()
        finally:
            child.wait()
            os.kill(worker.pid, signal.SIGCONT)

    def test_a_second_of_standing_still_is_forgotten(self):
        before = self.settled_points()
        plan = {p["prompt"]: p["predicted_ms"] for p in self.overlap()["plans"]}
        for number, delay_s in enumerate((0.05, 0.15, 0.25, 0.1)):
            self.stop_within_a_prompt(self.fleet.workers[number % 2], delay_s)
            after = self.points()
            worst = max(max(after[n][r] / before[n][r], before[n][r] / after[n][r]) for n in before for r in before[n])
            print(f"    stopped {worker_name(number)}: no point is off by more than {worst:.2f} times")
            self.assert_as_before(before, after)
            for shown in self.overlap()["plans"]:
                self.assertLess(shown["predicted_ms"], FACTOR * plan[shown["prompt"]])
            self.complete()

    def test_other_work_is_followed_and_forgotten(self):
        """While it lasts the meter may follow it: that is how fast the machine is then."""
        before = self.settled_points()
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
        try:
            end = time.monotonic() + BUSY_S
            while time.monotonic() < end:
                self.complete()
        finally:
            for process in busy:
                process.kill()
                process.wait()
        for _ in range(6):
            self.complete()
        self.assert_as_before(before, self.points())


def worker_name(number):
    return f"worker-{number % 2 + 1}"


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
