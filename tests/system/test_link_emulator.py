"""The bench's link emulator: what it carries is what it was told to. Never more and never sooner; less, and later, by no more than the tolerances
say, for the emulator and this process go before whatever else the machine does."""

import os
import pathlib
import signal
import socket
import struct
import sys
import threading
import time
import unittest

from programs import IS_QUICK, SKIPPED, build_folder, need_file, run_tests

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import sites as bench_sites  # noqa: E402

SO_RCVBUFFORCE = 33
# What a packet may come later on a busy machine, at the best of some tries.
LATE_MS = 5


class Ping:
    """ICMP echo from one site to another."""

    def __init__(self, sites, source, target):
        self.address = sites.address(target)
        self.socket = sites.socket(source, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self.socket.settimeout(2)
        self.number = 0

    def milliseconds(self):
        self.number += 1
        head = struct.pack("!BBHHH", 8, 0, 0, os.getpid() & 0xFFFF, self.number)
        total = sum(struct.unpack("!4H", head))
        total = (total & 0xFFFF) + (total >> 16)
        begin = time.perf_counter()
        self.socket.sendto(head[:2] + struct.pack("!H", ~total & 0xFFFF) + head[4:], (self.address, 0))
        while True:
            answer = self.socket.recv(1500)
            answer = answer[(answer[0] & 15) * 4 :]
            if answer[0] == 0 and struct.unpack("!HH", answer[4:8]) == (os.getpid() & 0xFFFF, self.number):
                return (time.perf_counter() - begin) * 1000


def payload_mbit(sites, source, target, seconds):
    """What one TCP connection carries, after its window has opened."""
    taken = [0]
    with sites.socket(target) as listener, sites.socket(source) as sender:
        listener.bind((sites.address(target), 0))
        listener.listen()
        sender.connect(listener.getsockname())
        receiver, _ = listener.accept()
        stop = threading.Event()

        def send():
            block = bytes(1 << 16)
            while not stop.is_set():
                try:
                    sender.sendall(block)
                except OSError:
                    return

        def receive():
            block = bytearray(1 << 20)
            while count := receiver.recv_into(block):
                taken[0] += count

        threads = [threading.Thread(target=send), threading.Thread(target=receive)]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        begin, before = time.perf_counter(), taken[0]
        time.sleep(seconds)
        rate = (taken[0] - before) * 8e-6 / (time.perf_counter() - begin)
        stop.set()
        sender.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        receiver.close()
    return rate


class LinkEmulator(unittest.TestCase):
    def setUp(self):
        emulator = need_file(build_folder() / "longhaul-link", "longhaul-link is not built")
        self.sites = self.enterContext(bench_sites.Sites(2, emulator))

    def ping(self, count=15):
        ping = Ping(self.sites, 0, 1)
        self.addCleanup(ping.socket.close)
        return min(ping.milliseconds() for _ in range(count))

    def test_rate(self):
        """At the highest, any machine that is slower than the link carries more than a tenth of it."""
        for rate, least in ((10, 0.8), (100, 0.8)) if IS_QUICK else ((2, 0.8), (10, 0.8), (100, 0.8), (1000, 0.1)):
            with self.subTest(rate=rate):
                self.sites.set(rate=rate, delay=2, queue=50)
                carried = payload_mbit(self.sites, 0, 1, 1.5 if rate < 10 else 0.8)
                print(f"    {carried:.1f} of {rate} Mbit/s")
                # 1448 of 1500 bytes of a packet are payload.
                self.assertGreater(carried, rate * least * 0.965, "TCP payload, Mbit/s")
                self.assertLess(carried, rate * 1.05)

    def assert_round_trip(self, found_ms, told_ms):
        self.assertTrue(told_ms - 0.5 < found_ms < told_ms + LATE_MS, (found_ms, told_ms))

    def test_round_trip(self):
        for delay in (0.5, 10, 40):
            self.sites.set(rate=100, delay=delay, queue=50)
            self.assert_round_trip(self.ping(), 2 * delay)

    def test_each_direction_is_its_own(self):
        self.sites.set(0, 1, rate=10, delay=1)
        self.sites.set(1, 0, rate=40, delay=8)
        self.assert_round_trip(self.ping(), 9)
        self.assertLess(payload_mbit(self.sites, 0, 1, 1), 10)
        self.assertGreater(payload_mbit(self.sites, 1, 0, 1), 20)

    def test_settings_hold_at_once(self):
        self.sites.set(rate=10, delay=30)
        self.assert_round_trip(self.ping(3), 60)
        self.sites.set(delay=5)
        self.assert_round_trip(self.ping(3), 10)

    def test_jitter_wanders_within_its_bounds(self):
        self.sites.set(delay=20)
        self.sites.set(0, 1, jitter=15)
        ping = Ping(self.sites, 0, 1)
        self.addCleanup(ping.socket.close)
        seen = [ping.milliseconds() for _ in range(40)]
        self.assertGreater(max(seen) - min(seen), 5)
        self.assertGreater(min(seen), 40 - 15 - 1)
        self.assertLess(sorted(seen)[len(seen) * 9 // 10], 40 + 15 + LATE_MS)

    def test_loss(self):
        self.sites.set(0, 1, loss=20)
        with self.sites.socket(1, socket.SOCK_DGRAM) as receiver, self.sites.socket(0, socket.SOCK_DGRAM) as sender:
            receiver.bind((self.sites.address(1), 0))
            receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 22)
            receiver.settimeout(1)
            for _ in range(1000):
                sender.sendto(b"x", receiver.getsockname())
                time.sleep(0.0002)
            came = 0
            try:
                while receiver.recv(10):
                    came += 1
            except TimeoutError:
                pass
        self.assertLess(abs(came - 800), 60)
        line = next(l for l in self.sites.stats()["lines"] if (l["from"], l["to"]) == (0, 1))
        self.assertEqual(line["lost"], 1000 - came)

    def test_the_queue_is_bounded_and_a_stall_holds_all(self):
        # 1 Mbit/s for 100 ms is 12,500 bytes: of 100 packets of 1000 bytes about 12 get in while the line stands still.
        self.sites.set(rate=1, delay=1, queue=100)
        with self.sites.socket(1, socket.SOCK_DGRAM) as receiver, self.sites.socket(0, socket.SOCK_DGRAM) as sender:
            receiver.bind((self.sites.address(1), 0))
            receiver.settimeout(3)
            self.sites.stall(0, 1, 1000)
            begin = time.perf_counter()
            for _ in range(100):
                sender.sendto(bytes(972), receiver.getsockname())
            receiver.recv(1000)
            self.assertGreater(time.perf_counter() - begin, 1)
            came = 1
            try:
                while receiver.recv(1000):
                    came += 1
            except TimeoutError:
                pass
        self.assertIn(came, (12, 13))

    def test_a_bit_is_flipped_and_tcp_does_not_notice(self):
        with self.sites.socket(1) as listener, self.sites.socket(0) as sender:
            listener.bind((self.sites.address(1), 0))
            listener.listen()
            sender.connect(listener.getsockname())
            receiver, _ = listener.accept()
            receiver.settimeout(5)
            for length, dice in ((1, 3), (2, 9), (1000, 12345), (1000, 8 * 1000 + 6)):
                self.sites.flip(0, 1, dice)
                sent = os.urandom(length)
                sender.sendall(sent)
                expected = bytearray(sent)
                expected[dice // 8 % length] ^= 1 << dice % 8
                came = b""
                while len(came) < length:
                    came += receiver.recv(length)
                self.assertEqual(came, bytes(expected))
            sender.sendall(b"whole")
            self.assertEqual(receiver.recv(10), b"whole")
            receiver.close()
        self.assertEqual(self.sites.stats()["flipped"], 4)

    def test_what_it_cannot_do_is_refused(self):
        for words in ("flip 0 1 x", "set 0 9 rate=1", "set 0 1 rate=-1", "set 0 1 speed=3", "set 0 1 rate", "stall 0 1 x", "dance", "set"):
            with self.assertRaises(ValueError):
                self.sites._ask(words)

    def test_stray_signals_do_not_end_it(self):
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGQUIT, signal.SIGRTMIN):
            self.sites.emulator.send_signal(number)
        self.ping()
        self.assertIsNone(self.sites.emulator.poll())


class Cleanliness(unittest.TestCase):
    def test_nothing_is_left(self):
        emulator = need_file(build_folder() / "longhaul-link", "longhaul-link is not built")
        with self.assertRaises(KeyboardInterrupt):
            with bench_sites.Sites(2, emulator) as sites:
                process = sites.start(1, ["sleep", "1000"])
                names = list(sites.names)
                raise KeyboardInterrupt
        self.assertIsNotNone(process.returncode)
        self.assertFalse(any(os.path.exists(f"/run/netns/{name}") for name in names))


if __name__ == "__main__":
    why = bench_sites.missing()
    if why:
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    bench_sites.watch_punctually()
    run_tests(sys.modules[__name__], at_once=3)
