"""What workers measure of themselves, as GET /fleet shows it: there from the start, in order, near to what tokens really take, following a
machine that turns slower, and kept when the chain is re-formed around the stage."""

import signal
import sys
import time
import unittest

from fleet import Fleet
from programs import run_tests
from stream import Stream

PROMPT = "Once upon a time there was a lighthouse keeper who"
RENEW_MS = 100
POSITION = 40  # about where the tokens below stand


def computes(fleet):
    return {worker["name"]: worker["compute"] for worker in fleet.fleet_state()["workers"]}


def decode_us(compute):
    """One row at POSITION, drawn where the stage draws."""
    assert compute["points"][0]["rows"] == 1
    return (compute["points"][0]["us"] + compute["us_per_row_position"] * POSITION + compute["draw_us"] + compute["step_us"])


def complete(fleet, tokens):
    """Seconds from the first token to the last, for each."""
    with Stream(fleet.port, PROMPT, tokens) as stream:
        stream.step()
        begin = time.monotonic()
        while stream.step():
            pass
        assert stream.is_done and not stream.error, stream.error
        return (time.monotonic() - begin) / (tokens - 1)


class Measurements(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(2, gateway_flags=["--renew-ms", str(RENEW_MS), "--lease-ms", "3000"], worker_flags=["--slowdown", "1,4"])
        cls.fleet.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.fleet.__exit__(None, None, None)

    def look(self, seconds=0.5):
        """After the reports that are on their way."""
        time.sleep(seconds)
        return computes(self.fleet)

    def test_sound_from_the_start(self):
        for name, compute in computes(self.fleet).items():
            rows = [point["rows"] for point in compute["points"]]
            times = [point["us"] for point in compute["points"]]
            print(f"    {name}: " + ", ".join(f"{r} rows {t:.0f} us" for r, t in zip(rows, times)))
            self.assertGreaterEqual(len(rows), 2)
            self.assertLessEqual(len(rows), 12)
            self.assertEqual(rows, sorted(set(rows)))
            self.assertEqual(times, sorted(times))
            self.assertGreater(times[0], 0)
            for share in ("take_share", "give_share"):
                self.assertGreaterEqual(compute[share], 0)
                self.assertLessEqual(compute[share], 0.5)
            self.assertGreaterEqual(compute["age_us"], 0)
        draws = [compute["draw_us"] > 0 for compute in computes(self.fleet).values()]
        self.assertEqual(sorted(draws), [False, True])  # the last stage alone
        links = self.fleet.fleet_state()["chains"][0]["links"]
        self.assertEqual([links[0]["from"], links[-1]["to"], len(links)], ["gateway", "gateway", 3])
        for link in links:
            self.assertTrue(link["connected"])
            self.assertIn("bytes_per_us", link)

    def test_tokens_take_what_is_said(self):
        complete(self.fleet, 50)
        measured_us = complete(self.fleet, 100) * 1e6
        said_us = sum(decode_us(compute) for compute in self.look().values())
        print(f"    a token takes {measured_us:.0f} us, the workers say {said_us:.0f} us")
        self.assertLess(said_us, 2 * measured_us)
        self.assertGreater(said_us, measured_us / 2)
        for compute in computes(self.fleet).values():
            self.assertLess(compute["age_us"], 5e6)

    def test_a_slower_machine_shows_within_two_seconds_and_recovers(self):
        complete(self.fleet, 50)
        before = self.look()
        worker = self.fleet.workers[0]
        for turn, low, high in ((1, 2, 8), (2, 0.4, 1.7)):
            worker.process.send_signal(signal.SIGUSR1)
            begin = time.monotonic()
            while time.monotonic() - begin < 2:
                complete(self.fleet, 20)
            after = self.look(3 * RENEW_MS / 1000)
            factor = after[worker.name]["points"][0]["us"] / before[worker.name]["points"][0]["us"]
            last = after[worker.name]["points"][-1]["us"] / before[worker.name]["points"][-1]["us"]
            print(f"    turn {turn}: 1 row {factor:.2f} times as long, the longest step {last:.2f} times")
            self.assertTrue(low < factor < high, factor)

    def test_a_kept_stage_keeps_its_profile(self):
        """A new epoch finds the weights loaded: no calibration, and the figures as they were."""
        complete(self.fleet, 20)
        epoch = self.fleet.fleet_state()["chains"][0]["epoch"]
        calibrations = [worker.log_text().count("calibrated") for worker in self.fleet.workers]
        self.fleet.gateway.kill()
        self.fleet.start_gateway()
        self.fleet.wait_ready()
        self.assertNotEqual(self.fleet.fleet_state()["chains"][0]["epoch"], epoch)
        self.assertEqual([worker.log_text().count("calibrated") for worker in self.fleet.workers], calibrations)
        self.assertTrue(all(len(compute["points"]) >= 2 for compute in computes(self.fleet).values()))


if __name__ == "__main__":
    run_tests(sys.modules[__name__], ["Measurements.test_sound_from_the_start"])
