"""longhaul-link uplink: two machines of one network meet as those of two sites do, whatever runs on them; nothing is left when it ends."""

import os
import pathlib
import sys
import unittest

from programs import PATIENCE_S, SKIPPED, build_folder, need_file, run_tests, wait_until
from test_link_emulator import LATE_MS, Ping, payload_mbit

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import sites as bench_sites  # noqa: E402

LINK = need_file(build_folder() / "longhaul-link", "longhaul-link is not built")
# What carries no packet of its own may take so long for one.
UNSHAPED_MS = 3


class Machines(bench_sites.Sites):
    """Two network namespaces on a cable, each with the other as its default gateway."""

    numbers = (1, 2)

    def __init__(self):
        super().__init__(2, LINK)
        self.devices = [f"lh{os.getpid()}{end}" for end in "ab"]

    def address(self, site):
        return f"10.202.0.{self.numbers[site]}"

    def __enter__(self):
        try:
            for name in self.names:
                bench_sites._ip("netns", "add", name)
                self.made.append(name)
            first, second = self.devices
            bench_sites._ip("link", "add", first, "netns", self.names[0], "type", "veth", "peer", "name", second, "netns", self.names[1])
            for site in range(2):
                self.connect(site)
        except BaseException:
            self.close()
            raise
        return self

    def connect(self, site):
        name, device = self.names[site], self.devices[site]
        bench_sites._ip("-n", name, "addr", "replace", f"{self.address(site)}/24", "dev", device)
        bench_sites._ip("-n", name, "link", "set", "dev", device, "up")
        bench_sites._ip("-n", name, "route", "replace", "default", "via", self.address(1 - site), "dev", device)

    def disconnect(self, site):
        bench_sites._ip("-n", self.names[site], "link", "set", "dev", self.devices[site], "down")

    def uplink(self, site, *flags):
        log = open(f"/tmp/{self.names[site]}.log", "w+")
        process = self.start(site, [LINK, "uplink", *flags], stderr=log)
        os.unlink(log.name)
        wait_until(lambda: "goes through the uplink" in self.log(log) or process.poll() is not None, "the uplink is there")
        return process, log

    @staticmethod
    def log(file):
        file.seek(0)
        return file.read()


class Uplink(unittest.TestCase):
    def setUp(self):
        self.machines = self.enterContext(Machines())

    def ping(self):
        ping = Ping(self.machines, 0, 1)
        self.addCleanup(ping.socket.close)
        return min(ping.milliseconds() for _ in range(15))

    def assert_round_trip(self, told_ms):
        found_ms = self.ping()
        self.assertTrue(told_ms - 0.5 < found_ms < told_ms + LATE_MS, (found_ms, told_ms))

    def test_each_end_shapes_what_it_sends(self):
        self.machines.uplink(0, "--link-rate", "20", "--link-delay", "15", "--link-interface", self.machines.devices[0])
        self.assert_round_trip(15)
        self.machines.uplink(1, "--link-delay", "10", "--link-to", "10.202.0.0/16")
        self.assert_round_trip(25)
        carried = payload_mbit(self.machines, 0, 1, 1)
        print(f"    {carried:.1f} of 20 Mbit/s")
        self.assertTrue(20 * 0.8 * 0.965 < carried < 20 * 1.05, carried)

    def test_nothing_is_left_when_it_ends(self):
        process, log = self.machines.uplink(0, "--link-delay", "15")
        self.assert_round_trip(15)
        self.assertEqual(bench_sites.end_process(process), 0)
        self.assertIn("stopped packets=", self.machines.log(log))
        self.assertLess(self.ping(), UNSHAPED_MS)

    def test_a_network_that_comes_back_is_shaped_again(self):
        _, log = self.machines.uplink(0, "--link-delay", "15", "--link-interface", self.machines.devices[0])
        self.machines.disconnect(0)
        self.machines.connect(0)
        wait_until(lambda: "routes that have come" in self.machines.log(log), "the new routes are found")
        self.assert_round_trip(15)

    def test_it_ends_with_its_interface(self):
        """As a container's goes when its network is disconnected: whoever supervises the uplink starts it anew."""
        process, log = self.machines.uplink(0, "--link-delay", "15", "--link-interface", self.machines.devices[0])
        bench_sites._ip("-n", self.machines.names[0], "link", "del", "dev", self.machines.devices[0])
        self.assertEqual(process.wait(PATIENCE_S), 1)
        self.assertIn(f"interface {self.machines.devices[0]} is gone", self.machines.log(log))

    def test_what_goes_elsewhere_is_not_touched(self):
        self.machines.uplink(0, "--link-delay", "50", "--link-to", "10.99.0.0/16", "--link-interface", self.machines.devices[0])
        self.assertLess(self.ping(), UNSHAPED_MS)

    def test_what_cannot_be_is_said(self):
        for flags, words in ((["--link-to", "10.99.0.0/16"], "no route leads to the network of --link-to"), (["--link-to", "office"], "is no IPv4 network"),
                             (["--link-interface", "nowhere"], "interface nowhere"), (["--link-rate", "fast"], "--link-rate fast is no number")):
            process, log = self.machines.uplink(0, *flags)
            self.assertEqual(process.wait(), 2 if "--link-rate" in flags else 1)
            self.assertIn(words, self.machines.log(log))


if __name__ == "__main__":
    why = bench_sites.missing()
    if why:
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    bench_sites.watch_punctually()
    run_tests(sys.modules[__name__])
