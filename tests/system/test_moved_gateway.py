"""The gateway's name leads to another address from now on: workers ask for the name again and are back in seconds; and while nothing moves, a worker's
reports share one connection."""

import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from fleet import Fleet
from programs import free_port, lacking, run_tests, slowness, wait_until

OLD, NEW = "127.0.0.2", "127.0.0.3"
NAME = "gateway.test"
REPORTS_MS = 100
MOUNT = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'


class NamedFleet(Fleet):
    """Its only worker finds the gateway by a name of the file `hosts`, which the worker alone sees as /etc/hosts."""

    fleet_host, gateway_host = OLD, NAME

    def start_gateway(self):
        self.hosts = pathlib.Path(self.folder) / "hosts"
        self.lead_to(self.fleet_host)
        self.worker_programs = {0: ["unshare", "--mount", "--map-root-user", "sh", "-c", MOUNT, "sh", self.hosts, self.worker_program]}
        super().start_gateway()

    def lead_to(self, address):
        # In place: what is mounted is this file.
        with open(self.hosts, "r+" if self.hosts.exists() else "w", encoding="ascii") as file:
            file.write(f"{address} {NAME}\n127.0.0.1 localhost\n")

    def seconds_until_back(self):
        """From when the gateway listens at its new address."""
        wait_until(lambda: self.get("/livez")[0] == 200, "the gateway is there again")
        begin = time.monotonic()
        wait_until(lambda: "the gateway answers again" in self.workers[0].log_text(), "the worker has found it")
        seconds = time.monotonic() - begin
        self.wait_ready()
        return seconds


def connections_to(port, address):
    """Local ports of the connections to it, those that have ended and wait for late packets included."""
    remote = f"{int.from_bytes(bytes(map(int, address.split('.'))), sys.byteorder):08X}:{port:04X}"
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return {row[1] for row in rows if row[2] == remote}


class MovedGateway(unittest.TestCase):
    def setUp(self):
        probe = ["unshare", "--mount", "--map-root-user", "sh", "-c", MOUNT, "sh", "/dev/null", "true"]
        if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
            raise lacking("no file systems of one's own here")

    def move(self, fleet):
        fleet.fleet_host = NEW
        fleet.port = free_port()
        fleet.url = f"http://127.0.0.1:{fleet.port}"
        fleet.start_gateway()

    def test_back_in_seconds_after_the_old_gateway_has_ended(self):
        with NamedFleet(workers=1, worker_flags=["--insecure-plaintext"]) as fleet:
            fleet.gateway.stop()
            self.move(fleet)
            self.assertLess(fleet.seconds_until_back(), 5 * slowness())

    def test_back_after_the_old_gateway_has_frozen(self):
        with NamedFleet(workers=1, worker_flags=["--insecure-plaintext"]) as fleet:
            frozen = fleet.gateway
            os.kill(frozen.pid, signal.SIGSTOP)
            try:
                self.move(fleet)
                # A report waits five seconds for its answer.
                self.assertLess(fleet.seconds_until_back(), 10 * slowness())
            finally:
                os.kill(frozen.pid, signal.SIGCONT)
                frozen.stop()

    def test_reports_share_a_connection(self):
        with NamedFleet(workers=1, worker_flags=["--insecure-plaintext"]) as fleet:
            seen = set()
            for _ in range(20):
                time.sleep(REPORTS_MS / 1000)
                seen |= connections_to(fleet.fleet_port, OLD)
            # One for reports; results, tries of the link and weights have theirs.
            self.assertLess(len(seen), 10)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
