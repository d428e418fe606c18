"""longhaul-gateway check and longhaul-worker check: what a container engine, a service manager or a person wants to know of a running program."""

import os
import re
import signal
import subprocess
import sys
import unittest

from fleet import Fleet
from programs import build_folder, free_port, run_tests


def check(*flags, program="longhaul-gateway"):
    done = subprocess.run([build_folder() / program, "check", *flags], capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    return done.returncode, done.stdout, done.stderr


class Check(unittest.TestCase):
    def test_alive_and_ready_are_told_apart(self):
        with Fleet(workers=1) as fleet:
            self.assertEqual(check("--url", fleet.url)[:2], (0, '{"status":"ok"}\n'))
            self.assertEqual(check("--url", fleet.url, "--ready")[0], 0)
            fleet.workers[0].kill()
            fleet.wait_not_ready()
            self.assertEqual(check("--url", fleet.url)[0], 0)
            status, _, error = check("--url", fleet.url, "--ready")
            self.assertEqual(status, 1)
            self.assertIn("HTTP 503", error)

    def test_a_worker_that_stands_still_is_not_well(self):
        with Fleet(workers=1) as fleet:
            port = re.search(r"plain=(\S+)", fleet.workers[0].log_text())[1]
            self.assertEqual(check("--listen", port, program="longhaul-worker")[:2], (0, '{"status":"ok"}\n'))
            fleet.workers[0].process.send_signal(signal.SIGSTOP)
            status, _, error = check("--listen", port, program="longhaul-worker")
            fleet.workers[0].process.send_signal(signal.SIGCONT)
            self.assertEqual(status, 1)
            self.assertIn(port, error)

    def test_no_worker_there(self):
        status, _, error = check("--listen", f"127.0.0.1:{free_port()}", program="longhaul-worker")
        self.assertEqual(status, 1)
        self.assertIn("refused", error)
        status, _, error = check("--state-dir", "/nonexistent", program="longhaul-worker")
        self.assertEqual(status, 1)
        self.assertIn("no worker has joined in /nonexistent", error)
        self.assertEqual(check("--loudly", program="longhaul-worker")[0], 2)

    def test_nobody_there(self):
        status, _, error = check("--url", f"http://127.0.0.1:{free_port()}")
        self.assertEqual(status, 1)
        self.assertIn("cannot be asked", error)
        self.assertEqual(check("--url", "ftp://127.0.0.1")[0], 1)
        self.assertEqual(check("--loudly")[0], 2)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
