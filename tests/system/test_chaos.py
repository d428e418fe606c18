"""The short form of tests/system/chaos: what breaks costs streams a pause, never a token; and where nothing can take over, a clean error in time."""

import os
import pathlib
import subprocess
import sys
import unittest

from chaos_fleet import bench_sites
from programs import SKIPPED, build_folder, is_sanitized, need_file, run_tests

CHAOS = pathlib.Path(__file__).resolve().parent / "chaos"
# Always the same trials here; other seeds are for the program itself.
SEED = "5"
SLOWNESS = "6" if is_sanitized() else "1"


class Chaos(unittest.TestCase):
    def chaos(self, *words):
        build = build_folder()
        need_file(build / "tests" / "link_emulator", "link_emulator is not built")
        need_file(os.environ.get("LONGHAUL_TEST_MODEL"), "LONGHAUL_TEST_MODEL names no file")
        done = subprocess.run([sys.executable, CHAOS, "--seed", SEED, "--slowness", SLOWNESS, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(done.stdout)
        self.assertEqual(done.returncode, 0)

    def test_with_a_spare(self):
        self.chaos("--trials", "40", "--seconds", "25")

    def test_two_faults_in_one_stream(self):
        self.chaos("--trials", "2", "--seconds", "8", "--double", "--faults", "kill,flip")

    def test_nothing_can_take_over(self):
        self.chaos("--trials", "2", "--seconds", "6", "--no-spare", "--faults", "kill,freeze")

    def test_the_gateway_restarts_under_load(self):
        self.chaos("--trials", "2", "--seconds", "6", "--faults", "gateway")

    def test_a_few(self):
        """For a build with a sanitizer."""
        self.chaos("--trials", "3", "--seconds", "30", "--faults", "kill,flip")


if __name__ == "__main__":
    why = bench_sites.missing()
    if why:
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    if not is_sanitized():
        del Chaos.test_a_few
    run_tests(sys.modules[__name__], sanitized=["Chaos.test_a_few"])
