"""Strangers who open connections as fast as they can, at the ports of a fleet: they cost the loop that carries tokens a share of its time and no more, and
who has a certificate comes in beside them."""

import os
import sys
import time
import unittest

from fleet import Fleet
from flood import Flood, client_hello
from programs import is_sanitized, run_tests, wait_until
from raw_http2 import PREFACE, SETTINGS, amplifying_requests, frame, get
from secure_fleet import SecureFleet

CONNECTIONS = 64
SETTLED_S, MEASURED_S = 1.2, 1.2
# Turns have 5 %; what is not counted as their time (accepting in the kernel, closing, writing) is half as much, and so is what a fleet does while nobody
# asks. In the clear turns have 20 %.
SHARE_MAX, SHARE_MAX_IN_THE_CLEAR = 0.2, 0.3
JUNK = b"\x16\x03\x01\x02\x00\x01" + bytes(600)
GREETING = PREFACE + frame(SETTINGS)


def thread_seconds(program):
    """On a processor, of each thread."""
    seconds = {}
    for thread in os.listdir(f"/proc/{program.pid}/task"):
        with open(f"/proc/{program.pid}/task/{thread}/stat", encoding="ascii") as file:
            words = file.read().rpartition(")")[2].split()
        seconds[thread] = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def busiest_share(program):
    """Of a processor's time, that the busiest thread takes."""
    before, begin = thread_seconds(program), time.monotonic()
    time.sleep(MEASURED_S)
    after = thread_seconds(program)
    return max(after[thread] - before.get(thread, 0) for thread in after) / (time.monotonic() - begin)


class Strangers(unittest.TestCase):
    def check_share(self, words, program, flood, most=SHARE_MAX):
        with self.subTest(words), flood:
            time.sleep(SETTLED_S)  # what the port has saved for a fleet that comes back is spent
            share = busiest_share(program)
        print(f"{words}: {flood.connections} connections, {share:.1%} of a processor")
        if not is_sanitized():
            self.assertLess(share, most)

    def restart(self, fleet):
        """Seconds until a worker that has ended at once serves again."""
        ready = "chain is ready"
        before = fleet.gateway.log_text().count(ready)
        fleet.workers[0].kill()
        fleet.workers[0].log.close()
        begin = time.monotonic()
        fleet.start_worker(0)
        wait_until(lambda: fleet.gateway.log_text().count(ready) > before, "a chain is ready again")
        return time.monotonic() - begin

    def test_over_tls(self):
        with SecureFleet(workers=1) as fleet:
            port = int(fleet.worker_state("worker-1")["addresses"]["tls"].rpartition(":")[2])
            self.check_share("handshakes with the gateway", fleet.gateway, Flood(fleet.fleet_port, CONNECTIONS, client_hello()))
            self.check_share("junk for a worker", fleet.workers[0], Flood(port, CONNECTIONS, JUNK))
            undisturbed = self.restart(fleet)
            with Flood(fleet.fleet_port, CONNECTIONS, client_hello()):
                time.sleep(SETTLED_S)
                seconds = self.restart(fleet)
            print(f"a worker is back in {seconds:.1f} s, {undisturbed:.1f} s without strangers")
            self.assertLess(seconds, 3 * undisturbed + 8)

    def test_in_the_clear(self):
        with Fleet(workers=1) as fleet:
            for words, requests in (("headers that a table amplifies", amplifying_requests(200)),
                                    ("requests for nothing", b"".join(get(2 * number + 1) for number in range(20000)))):
                self.check_share(words, fleet.gateway, Flood(fleet.fleet_port, 4, GREETING + requests, drains=True), SHARE_MAX_IN_THE_CLEAR)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
