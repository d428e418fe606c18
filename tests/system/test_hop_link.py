"""What a hop's connection learns of its link, how it warms up, and how long an urgent piece waits: over emulated links, whose emulator, programs
and watcher go before whatever else the machine does. What a busy machine makes slower all the same is compared with what was carried in the
same run, never with what a quiet one would carry."""

import json
import pathlib
import statistics
import subprocess
import sys
import unittest

from programs import SKIPPED, build_folder, need_file, run_tests

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import sites as bench_sites  # noqa: E402

PORT = 9000
PIECE_BYTES = 600_000


class OverSites(unittest.TestCase):
    sysctl = {}

    def setUp(self):
        emulator = need_file(build_folder() / "longhaul-link", "longhaul-link is not built")
        self.program = need_file(build_folder() / "tests" / "hop_link", "hop_link is not built")
        self.sites = self.enterContext(bench_sites.Sites(2, emulator, sysctl=self.sysctl))
        server = self.sites.start(1, [self.program, "serve", f"{self.sites.address(1)}:{PORT}"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        server.stdout.readline()

    def run_program(self, *words):
        command = self.sites.command(0, [self.program, words[0], f"{self.sites.address(1)}:{PORT}", *words[1:]])
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def send(self, count, pause_ms=300, probe_percent=0):
        return self.run_program("send", PIECE_BYTES, count, pause_ms, probe_percent)

    def share_of(self, bytes_per_us, mbit):
        # 1448 of 1500 bytes of a packet are payload.
        return bytes_per_us / (mbit / 8 * 0.965)

    def assert_rate(self, piece, mbit):
        """It is not above the link's by a quarter, nor below by more what this piece was in fact carried at."""
        carried = piece["bytes"] / piece["us"]
        self.assertGreater(piece["bytes_per_us"], 0.75 * carried)
        self.assertLess(self.share_of(piece["bytes_per_us"], mbit), 1.25)


class HopLink(OverSites):
    def test_rate_and_round_trip(self):
        for rate, delay in ((2, 10), (10, 0.5), (100, 10), (100, 40)):
            with self.subTest(rate=rate, delay=delay):
                self.sites.set(rate=rate, delay=delay, queue=100)
                pieces = self.send(3)[1:]
                for piece in pieces:
                    self.assert_rate(piece, rate)
                    self.assertGreater(piece["round_trip_us"], delay * 2000)
                # The machine's own pauses make it longer; a queue that was taken for distance would double it.
                self.assertLess(min(piece["round_trip_us"] for piece in pieces), max(2 * delay * 2000, 20000))

    def test_probes_warm_a_connection_up(self):
        self.sites.set(rate=100, delay=40, queue=100)
        cold = self.send(1, 2500)[0]
        warm = self.send(1, 2500, 1)[0]
        hot = self.send(4, 300)[3]
        # Cold it takes six round trips of 80 ms; warm one, and 48 ms for the bytes.
        self.assertGreater(cold["us"], 400_000)
        self.assertLess(warm["us"], (cold["us"] + hot["us"]) / 2)
        self.assertEqual(cold["probe_bytes"], 0)
        # A hundredth of the rate for a minute.
        self.assertLess(warm["probe_bytes"], 0.01 * 12.5e6 * 60)
        self.assertGreater(warm["ready_before"], 700_000)
        self.assert_rate(warm, 100)

    def test_a_slow_link_is_hardly_probed(self):
        self.sites.set(rate=2, delay=10, queue=100)
        self.assertLess(self.send(1, 1500, 1)[0]["probe_bytes"], 0.01 * 0.25e6 * 60)

    def test_a_drop_of_the_rate_shows_in_the_next_transfer(self):
        self.sites.set(rate=100, delay=10, queue=100)
        command = self.sites.command(0, [self.program, "send", f"{self.sites.address(1)}:{PORT}", PIECE_BYTES, 5, 700])
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
            for _ in range(3):
                piece = json.loads(program.stdout.readline())
            self.assert_rate(piece, 100)
            self.sites.set(rate=10)
            program.stdout.readline()  # half a second of transfer
            self.assert_rate(json.loads(program.stdout.readline()), 10)

    def test_a_rise_of_the_rate_shows_though_pieces_are_short(self):
        """Pieces as a chunk of 16 rows makes them are through in a millisecond and a half, which tells next to nothing."""
        self.sites.set(rate=10, delay=10, queue=100)
        command = self.sites.command(0, [self.program, "send", f"{self.sites.address(1)}:{PORT}", 18931, 250, 50, 1])
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
            self.addCleanup(program.kill)
            for _ in range(30):
                piece = json.loads(program.stdout.readline())
            self.assert_rate(piece, 10)
            self.sites.set(rate=100)
            rates = [self.share_of(piece["bytes_per_us"], 100) for piece in map(json.loads, program.stdout)]
            carried = self.share_of(max(piece["bytes"] / piece["us"] for piece in self.send(4)), 100)
            expected = 0.75 * min(carried, 1)
            print(f"    a rise by ten shows after {next((n for n, rate in enumerate(rates) if rate > expected), None)} pieces")
            self.assertGreater(max(rates), expected)

    def test_what_is_urgent_waits_for_little(self):
        # Of 2 Mbit/s the queue holds 50 ms, the kernel 16 ms, a frame is 8 ms; without care it was 300 ms, and of 2.8 s that the bulk takes all.
        self.sites.set(rate=2, delay=10, queue=50)
        waits = [piece["urgent_us"] for piece in self.run_program("overtake", 700_000, 10, 200) if piece["bulk_left"]]
        self.assertGreater(len(waits), 4)
        self.assertLess(statistics.median(waits), 240_000)


class DecayingWindow(OverSites):
    """As the kernel does it where nobody has told it otherwise."""

    sysctl = {"ipv4/tcp_slow_start_after_idle": "1"}

    def test_ready_bytes_tell_of_a_window_that_is_gone(self):
        self.sites.set(rate=100, delay=40, queue=100)
        pieces = self.send(3, 3000)
        self.assertLess(pieces[2]["ready_before"], 30_000)
        self.assertGreater(pieces[2]["ready_bytes"], 300_000)
        self.assertGreater(pieces[2]["us"], 300_000)


if __name__ == "__main__":
    why = bench_sites.missing()
    if why:
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    bench_sites.watch_punctually()
    run_tests(sys.modules[__name__], at_once=3)
