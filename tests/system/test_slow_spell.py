"""Other work takes nine tenths of the core on which two workers run, by real-time priority, and ends: the fleet says who is slowed meanwhile, and
the next prompts take what they do with the cut of a quiet machine."""

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import time
import unittest

from fleet import Fleet
from programs import build_folder, need_file, run_tests, wait_until
from raw_http import ask

ROWS = 200
PROMPTS = 5
SPELL_S = 20 if os.environ.get("LONGHAUL_TEST_QUICK") else 60
# Slower machines: two of them leave half of their core, so that only the other work slows them.
SLOWDOWN = "4"
BUSY = """
import time
while True:
    end = time.monotonic() + 0.09
    while time.monotonic() < end:
        pass
    time.sleep(0.01)
"""


def core():
    return str(max(os.sched_getaffinity(0)))


def may_be_real_time():
    return shutil.which("chrt") and subprocess.run(["chrt", "-f", "10", "true"], stderr=subprocess.DEVNULL).returncode == 0


@contextlib.contextmanager
def other_work():
    """On the workers' core: nine tenths of it, before anything else there."""
    process = subprocess.Popen(["taskset", "-c", core(), "chrt", "-f", "10", sys.executable, "-c", BUSY])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@unittest.skipUnless(may_be_real_time(), "no real-time priority here")
class SlowSpell(unittest.TestCase):
    def setUp(self):
        worker = ["taskset", "-c", core(), need_file(build_folder() / "longhaul-worker", "not built"), "--slowdown", SLOWDOWN]
        self.fleet = Fleet(2, gateway_flags=["--lease-ms", "10000"], worker_programs={0: worker, 1: worker})
        self.fleet.__enter__()
        self.start = 1000

    def tearDown(self):
        self.fleet.__exit__(None, None, None)

    def complete(self, rows=ROWS, tokens=1, overlap="auto"):
        """Of a prompt that begins as no other does: what its first token took, in ms, and what was predicted."""
        self.start += 1
        prompt = [self.start, *range(2000, 2000 + rows - 1)]
        answer = ask(self.fleet.port, "POST", "/v1/completions",
                     {"prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "longhaul": {"timing": True, "overlap": overlap}})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()["longhaul"]["timing"]

    def stages(self):
        return self.fleet.fleet_state()["chains"][0]["overlap"]["stages"]

    def doctor(self):
        return subprocess.run([build_folder() / "longhaul-gateway", "doctor", "--url", self.fleet.url], capture_output=True, text=True).stdout

    def times(self, *overlaps):
        """Medians, in turns, so that what else this machine does concerns all of them."""
        rounds = [[self.complete(overlap=overlap)["time_to_first_token_ms"] for overlap in overlaps] for _ in range(PROMPTS)]
        return [statistics.median(times) for times in zip(*rounds)]

    def suffer(self):
        """Prompts and tokens meanwhile; returns how far the stages were from their calibrations at most."""
        most = 0
        with other_work():
            end = time.monotonic() + SPELL_S
            while time.monotonic() < end:
                self.complete(rows=ROWS // 4, tokens=8)
                most = max(most, *(stage["calibrated_times"] for stage in self.stages()))
                if most > 2 and "TO DO   stage speed" not in self.said:
                    self.said = self.doctor()
        return most

    def is_less_slowed_than(self, times):
        """After steps: only they tell."""
        self.complete(rows=2, tokens=4)
        return max(stage["calibrated_times"] for stage in self.stages()) < times

    def test_what_slowed_machines_is_forgotten(self):
        self.said = ""
        for _ in range(PROMPTS):
            self.complete(tokens=8)
        (before,) = self.times("auto")
        length = max(self.complete()["chunks"])
        quiet = f"rows={length}"
        most = self.suffer()
        wait_until(lambda: self.is_less_slowed_than(most / 2), "the stages are far quicker again")
        first = self.complete()
        after, by_hand, off = self.times("auto", quiet, "off")
        print(f"    before {before:.0f} ms, in chunks of {quiet}; up to {most:.1f} times as slow; after that {first['time_to_first_token_ms']:.0f} ms, "
              f"{first['plan']}; then {after:.0f}, as before by hand {by_hand:.0f}, without overlap {off:.0f}")
        self.assertGreater(most, 2)
        self.assertRegex(self.said, r"TO DO +stage speed +worker-")
        # On one core, which both workers share, overlap need not gain anything: so what it takes without is only told.
        self.assertTrue(length / 2 <= max(first["chunks"]) <= 2 * length, first["chunks"])
        self.assertLess(after, 1.1 * by_hand)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
