"""The matrix of links in GET /fleet: three sites, every direction with a rate of its own. Links that the chain does not use are found out by surveys;
no more is sent for that than was allowed, and the answers stay what they are without. What a busy machine makes slower is compared with what the
probes were in fact carried at, and all directions together with what they are."""

import pathlib
import re
import statistics
import sys
import time
import unittest

from programs import SKIPPED, need_model, build_folder, run_tests

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import bench_fleet  # noqa: E402
import sites as bench_sites  # noqa: E402

# Mbit/s of each direction, and ms one way of each pair.
RATES = {(1, 2): 50, (2, 1): 30, (2, 3): 100, (3, 2): 10, (1, 3): 200, (3, 1): 20}
DELAYS = {(1, 2): 5, (2, 3): 10, (1, 3): 20}
# Of 1500 bytes of a packet that are payload.
PAYLOAD = 1448 / 1500
# One at a time, each a second, and one for the chain to settle.
PATIENCE_S = 180
MIB = 1 << 20


class SurveyedFleet(bench_fleet.BenchFleet):
    def __init__(self, *flags):
        super().__init__(build_folder(), need_model(), 3, ["1"] * 3, gateway_flags=flags, worker_flags=["--log-level", "debug"])

    def _start_gateway(self):
        for (source, target), rate in RATES.items():
            delay = DELAYS[min(source, target), max(source, target)]
            self.sites.set(source - 1, target - 1, rate=rate, delay=delay, queue=100)
        super()._start_gateway()

    def matrix(self):
        """{(from, to): entry}, of the sites' numbers."""
        return {(int(entry["from"][-1]), int(entry["to"][-1])): entry for entry in self.state()["matrix"]}

    def surveys(self):
        """{(from, to): (bytes in all, bytes in a microsecond that the last probe was carried at)}, by the workers' logs."""
        found = {}
        for path in pathlib.Path(self.folder.name).glob("worker-*.log"):
            carried = 0
            for line in path.read_text().splitlines():
                if probe := re.search(r" probed bytes=(\d+) us=(\d+) ", line):
                    probe_bytes, probe_us = map(int, probe.groups())
                elif survey := re.search(r"a link is surveyed to=worker-(\d) .* round_trip_ms=([\d.]+) probe_bytes=(\d+)", line):
                    carried = probe_bytes / max(1, probe_us - 1000 * float(survey[2]))
                    found[int(path.stem[-1]), int(survey[1])] = int(survey[3]), carried
        return found

    def wait_surveyed(self, pairs):
        begin = time.monotonic()
        while not pairs <= set(self.surveys()):
            assert time.monotonic() < begin + PATIENCE_S, f"after {PATIENCE_S} s only {sorted(self.surveys())} are surveyed"
            time.sleep(0.2)
        return time.monotonic() - begin

    def probe_bytes(self):
        return [sent for sent, _ in self.surveys().values()]


class LinkSurvey(unittest.TestCase):
    def fleet(self, *flags):
        return self.enterContext(SurveyedFleet(*flags))

    def assert_known(self, pair, entry, carried):
        self.assertGreater(entry["bytes_per_us"], 0.8 * carried, f"{pair}: {entry}")
        self.assertLess(entry["bytes_per_us"], 1.2 * RATES[pair] / 8 * PAYLOAD, f"{pair}: {entry}")
        self.assertFalse(entry["bytes_per_us_is_bound"])
        round_trip_us = 2000 * DELAYS[min(pair), max(pair)]
        self.assertGreaterEqual(entry["round_trip_us"], round_trip_us)
        self.assertLess(entry["round_trip_us"], round_trip_us + 5000, f"{pair}: {entry}")

    def test_every_direction_is_found_out(self):
        fleet = self.fleet()
        took_s = fleet.wait_surveyed(set(RATES))
        time.sleep(2)  # for the reports
        matrix, surveys = fleet.matrix(), fleet.surveys()
        print(f"    six directions after {took_s:.1f} s, {sum(fleet.probe_bytes()) / MIB:.1f} MiB: "
              + ", ".join(f"{a}>{b} {matrix[a, b]['bytes_per_us'] * 8:.1f} of {RATES[a, b]}" for a, b in RATES))
        for pair in RATES:
            self.assert_known(pair, matrix[pair], surveys[pair][1])
        shares = [matrix[pair]["bytes_per_us"] * 8 / (RATES[pair] * PAYLOAD) for pair in RATES]
        self.assertAlmostEqual(statistics.median(shares), 1, delta=0.2)
        before = dict(surveys)
        time.sleep(3)
        self.assertEqual(fleet.surveys(), before, "what is known is left alone")

    def test_the_budget_holds(self):
        """One of 3 MiB: the direction of 200 Mbit/s would have 4 of its own."""
        fleet = self.fleet("--survey-bytes", 3 * MIB)
        time.sleep(15)
        sent = fleet.probe_bytes()
        print(f"    {len(sent)} surveys, {sum(sent) / MIB:.2f} MiB of 3")
        self.assertGreater(len(sent), 1)
        self.assertLess(sum(sent), 3 * MIB * (1 + 60 / 3600))

    def test_without_a_budget_there_is_none(self):
        fleet = self.fleet("--survey-bytes", 0)
        time.sleep(5)
        self.assertEqual(fleet.surveys(), {})
        self.assertIn((2, 3), fleet.matrix(), "the chain's own hops are known all the same")

    def test_streams_go_on(self):
        """While sequences run, what is unknown is surveyed beside them; the tokens are those of a quiet fleet, and each comes in time."""
        fleet = self.fleet("--survey-bytes", 64 * MIB)
        prompt = fleet.prompt(48)
        beside = fleet.ask(prompt, 60)
        fleet.wait_surveyed({(1, 3), (3, 2)})
        fleet.wait_surveyed(set(RATES))
        quiet = fleet.ask(prompt, 60)
        print(f"    a token each {beside.token_s * 1000:.0f} ms beside surveys, {quiet.token_s * 1000:.0f} ms without")
        self.assertEqual(beside.tokens, quiet.tokens)
        self.assertLess(beside.token_s, 2 * quiet.token_s)
        self.assertEqual(fleet.state()["queue"]["totals"]["replays"], 0)


if __name__ == "__main__":
    why = bench_sites.missing()
    if why:
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    bench_sites.watch_punctually()
    run_tests(sys.modules[__name__])
