"""Signals that mean nothing to a program do not end it: gateway and worker serve on. The link emulator's are in test_link_emulator."""

import signal
import sys
import unittest

from fleet import Fleet
from programs import run_tests
from stream import Stream

STRAYS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGQUIT, signal.SIGPROF, signal.SIGIO, signal.SIGPIPE, signal.SIGRTMIN, signal.SIGHUP)


class Strays(unittest.TestCase):
    def test_they_end_neither_gateway_nor_worker(self):
        with Fleet(workers=1) as fleet:
            for program in fleet.programs():
                with Stream(fleet.port, "Once upon a time", 60) as stream:
                    stream.read(3)
                    for number in STRAYS:
                        program.process.send_signal(number)
                        stream.read(3)
                    stream.finish()
                self.assertIsNone(stream.error)
                self.assertTrue(program.is_running(), program.log_text()[-2000:])


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
