"""Strangers who open connections as fast as they can, at the ports of a fleet that speaks TLS: they cost the loop that carries tokens a share of its time
and no more, and who has a certificate comes in beside them."""

import os
import sys
import time
import unittest

from flood import Flood, client_hello
from programs import is_sanitized, run_tests, wait_until
from secure_fleet import SecureFleet

CONNECTIONS = 64
MEASURED_S = 2
# Turns have 5 %; what is not counted as their time (accepting in the kernel, closing, writing) is about as much, and what a fleet does while nobody asks
# is less.
SHARE_MAX = 0.2
JUNK = b"\x16\x03\x01\x02\x00\x01" + bytes(600)


def busiest_thread_s(program):
    """Seconds on a processor of each thread."""
    seconds = {}
    for thread in os.listdir(f"/proc/{program.pid}/task"):
        with open(f"/proc/{program.pid}/task/{thread}/stat") as file:
            words = file.read().rpartition(")")[2].split()
        seconds[thread] = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def share_of(program):
    """Of a processor's time that the busiest thread takes."""
    before, begin = busiest_thread_s(program), time.monotonic()
    time.sleep(MEASURED_S)
    after = busiest_thread_s(program)
    return max(after[thread] - before.get(thread, 0) for thread in after) / (time.monotonic() - begin)


class Strangers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = SecureFleet(workers=1)
        cls.fleet.__enter__()
        cls.addClassCleanup(cls.fleet.__exit__, None, None, None)

    def test_they_have_a_share_of_the_loop(self):
        worker_port = int(self.fleet.worker_state("worker-1")["addresses"]["tls"].rpartition(":")[2])
        for target, port, program in (("gateway", self.fleet.fleet_port, self.fleet.gateway), ("worker", worker_port, self.fleet.workers[0])):
            for words, greeting in (("handshakes that they begin", client_hello()), ("junk", JUNK)):
                with self.subTest(f"{target}: {words}"), Flood(port, CONNECTIONS, greeting) as flood:
                    time.sleep(1)  # what the port has saved for a fleet that comes back is spent
                    share = share_of(program)
                print(f"{target}, {words}: {flood.connections} connections, {share:.1%} of a processor")
                if not is_sanitized():
                    self.assertLess(share, SHARE_MAX)

    def restart(self):
        """Seconds until a worker that has ended at once serves again."""
        ready = "chain is ready"
        before = self.fleet.gateway.log_text().count(ready)
        self.fleet.workers[0].kill()
        self.fleet.workers[0].log.close()
        begin = time.monotonic()
        self.fleet.start_worker(0)
        wait_until(lambda: self.fleet.gateway.log_text().count(ready) > before, "a chain is ready again")
        return time.monotonic() - begin

    def test_a_member_comes_in_beside_them(self):
        undisturbed = self.restart()
        with Flood(self.fleet.fleet_port, CONNECTIONS, client_hello()):
            time.sleep(1)
            seconds = self.restart()
        print(f"a worker is back in {seconds:.1f} s, {undisturbed:.1f} s without strangers")
        self.assertLess(seconds, 3 * undisturbed + 8)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
