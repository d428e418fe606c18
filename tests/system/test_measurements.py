"""What workers measure of themselves, as GET /fleet shows it: there from the start, in order, near to what tokens really take, following a
machine that turns slower, and kept when the chain is re-formed around the stage."""

import pathlib
import signal
import sys
import time
import unittest

from fleet import Fleet
from programs import run_tests, wait_until
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
        cls.fleet = Fleet(2, gateway_flags=["--renew-ms", str(RENEW_MS), "--lease-ms", "10000"], worker_flags=["--slowdown", "1,4"])
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
        """Within a factor of two of the processors' time, which does not count what others take."""
        complete(self.fleet, 50)
        before = self.processors_us()
        took_us = complete(self.fleet, 200) * 1e6
        used_us = (self.processors_us() - before) / 200
        said_us = sum(decode_us(compute) for compute in self.look().values())
        print(f"    a token takes {took_us:.0f} us, {used_us:.0f} of the processors, the workers say {said_us:.0f} us")
        self.assertLess(said_us, 2 * used_us)
        self.assertGreater(said_us, used_us / 2)

    def processors_us(self):
        """What the workers have used so far."""
        total = 0
        for worker in self.fleet.workers:
            for task in pathlib.Path(f"/proc/{worker.pid}/task").iterdir():
                total += int((task / "schedstat").read_text().split()[0])
        return total / 1000

    def row_ratio(self):
        """What a row takes on the first worker, in times of what it takes on the other, after some more of them: what else the machine does
        slows both."""
        complete(self.fleet, 20)
        compute = self.look(3 * RENEW_MS / 1000)
        first, other = (compute[worker.name]["points"][0]["us"] for worker in self.fleet.workers)
        return first / other

    def test_a_slower_machine_shows_and_recovers(self):
        """It turns four times as slow, which must show at least as two and a half, and be gone again."""
        complete(self.fleet, 50)
        before = self.row_ratio()
        for turn, is_seen in ((1, lambda ratio: ratio > 2.5 * before), (2, lambda ratio: ratio < 1.5 * before)):
            self.fleet.workers[0].process.send_signal(signal.SIGUSR1)
            began = time.monotonic()
            ratio = wait_until(lambda: next(iter(ratio for ratio in [self.row_ratio()] if is_seen(ratio)), None), "its rows show it")
            print(f"    turn {turn}: 1 row {ratio / before:.2f} times as long, after {time.monotonic() - began:.1f} s")

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
    run_tests(sys.modules[__name__])
