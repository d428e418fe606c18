"""The short form of tests/system/chaos: what breaks costs streams a pause, never a token; and where nothing can take over, a clean error in time."""

import pathlib
import subprocess
import sys
import unittest

from chaos_fleet import bench_sites
from programs import SKIPPED, build_folder, is_sanitized, need_file, need_model, run_tests, slowness

CHAOS = pathlib.Path(__file__).resolve().parent / "chaos"
# Always the same trials here; other seeds are for the program itself.
SEED = 5


class Chaos(unittest.TestCase):
    def chaos(self, *runs):
        """Words for the program, for each of several that run beside each other: most of a trial is waiting."""
        need_file(build_folder() / "longhaul-link", "longhaul-link is not built")
        # The workers have the file: what they fetch, and when, is test_fleet_life's. And a spare joins soon.
        command = [sys.executable, CHAOS, "--slowness", str(slowness()), "--model", need_model(), "--worker-flags", f"--model {need_model()}",
                   "--gateway-flags", "--rebalance-delay-ms 4000"]
        started = [subprocess.Popen([*command, *run], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for run in runs]
        said = [process.communicate()[0] for process in started]
        print("\n".join(said))
        self.assertEqual([process.returncode for process in started], [0] * len(runs))

    def test_forty_trials(self):
        self.chaos(*(["--trials", "10", "--tokens", "24", "--seed", str(seed)] for seed in range(SEED, SEED + 4)))

    def test_worse(self):
        """Two faults in the same streams; nothing can take over; the gateway itself restarts; and all of it encrypted."""
        self.chaos(*(["--trials", "2", "--seed", str(SEED), *words] for words in (
            ["--double", "--faults", "kill,flip"], ["--no-spare", "--faults", "kill,freeze"], ["--faults", "gateway"], ["--tls", "--faults", "kill,flip,cut-hop"])))

    def test_a_few(self):
        """For a build with a sanitizer, beside whose other tests a fleet of five slow programs would be taken for silent."""
        self.chaos(["--trials", "3", "--seed", str(SEED), "--seconds", "30", "--faults", "kill,flip", "--goes-first"])


if __name__ == "__main__":
    why = bench_sites.missing()
    if why:
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    if not is_sanitized():
        del Chaos.test_a_few
    run_tests(sys.modules[__name__], sanitized=["Chaos.test_a_few"])
