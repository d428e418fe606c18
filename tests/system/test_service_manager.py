"""What gateway and worker tell a service manager, heard by a real datagram socket while both are in their sandbox; and what units build on: a worker
that joins with the line in a file, and root, who runs the gateway's commands beside a gateway of another user."""

import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import unittest

from fleet import Fleet
from joining import LOOPBACK, OwnFleet
from notify_socket import NotifySocket
from programs import Program, build_folder, free_port, run_tests, wait_until

NOBODY = 65534


class NotifyingFleet(Fleet):
    """Gateway and workers have a socket each."""

    def __init__(self, manager_of_gateway, manager_of_workers, **more):
        super().__init__(**more)
        self.of_gateway, self.of_workers = manager_of_gateway, manager_of_workers

    def start_gateway(self):
        with self.of_gateway.told_to_programs():
            super().start_gateway()

    def start_worker(self, number):
        with self.of_workers.told_to_programs():
            return super().start_worker(number)


class Told(unittest.TestCase):
    def setUp(self):
        self.gateway = NotifySocket(watchdog_us=900000)
        self.worker = NotifySocket(watchdog_us=900000, is_abstract=True)
        self.addCleanup(self.gateway.close)
        self.addCleanup(self.worker.close)

    def test_a_life_from_start_to_end(self):
        with NotifyingFleet(self.gateway, self.worker, workers=1) as fleet:
            for manager, program in ((self.gateway, fleet.gateway), (self.worker, fleet.workers[0])):
                manager.wait_for("READY=1")
                before = manager.count("WATCHDOG=1")
                wait_until(lambda: manager.count("WATCHDOG=1") >= before + 3, "it goes on telling that it lives")
                self.assertEqual(manager.senders, {program.pid})
            self.gateway.wait_for(f"STATUS=Serves {pathlib.Path(fleet.model).name.removesuffix('.gguf')} at 127.0.0.1:{fleet.port}: ")
            self.assertRegex(self.worker.wait_for("STATUS=Serves layers "), r"layers 0-\d+ of \S+ in chain main$")
            for manager, program in ((self.gateway, fleet.gateway), (self.worker, fleet.workers[0])):
                self.assertEqual(manager.count("READY=1"), 1)
                program.process.send_signal(signal.SIGHUP)
                wait_until(lambda: manager.count("READY=1") == 2, "it has read its files again")
                self.assertLess(manager.lines.index("RELOADING=1"), len(manager.lines) - 1 - manager.lines[::-1].index("READY=1"))
                self.assertRegex(manager.wait_for("MONOTONIC_USEC="), r"=\d{6,}$")
            fleet.workers[0].kill()
            self.gateway.wait_for("STATUS=Serves nobody: ")
            self.assertEqual(self.gateway.count("STOPPING=1"), 0)
        self.assertEqual(self.gateway.count("STOPPING=1"), 1)

    def test_what_stands_still_gives_no_sign_of_life(self):
        with NotifyingFleet(self.gateway, self.worker, workers=1) as fleet:
            self.worker.wait_for("READY=1")
            os.kill(fleet.workers[0].pid, signal.SIGSTOP)
            self.addCleanup(lambda: fleet.workers and os.kill(fleet.workers[0].pid, signal.SIGCONT))
            count = self.worker.count("WATCHDOG=1")
            beats = self.gateway.count("WATCHDOG=1")
            wait_until(lambda: self.gateway.count("WATCHDOG=1") >= beats + 4, "others go on")
            self.assertLessEqual(self.worker.count("WATCHDOG=1"), count + 1)
            os.kill(fleet.workers[0].pid, signal.SIGCONT)
            wait_until(lambda: self.worker.count("WATCHDOG=1") > count + 1, "it goes on, too")
        self.assertEqual(self.worker.count("STOPPING=1"), 1)

    def test_who_waits_says_for_whom(self):
        port = free_port()
        with tempfile.TemporaryDirectory(prefix="longhaul-waiting-") as folder, self.worker.told_to_programs():
            worker = Program("alone", [build_folder() / "longhaul-worker", "--gateway", f"http://{LOOPBACK}:{port}", "--listen", f"{LOOPBACK}:0", "--threads",
                                       "1", "--cache-dir", folder, "--drain-timeout", "0"], folder)
            try:
                self.worker.wait_for("READY=1")
                self.worker.wait_for(f"STATUS=Asks http://{LOOPBACK}:{port}, which has not answered")
            finally:
                self.assertEqual(worker.stop(), 0)


class Joined(unittest.TestCase):
    """A fleet with a CA of its own."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="longhaul-units-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def test_by_the_line_in_a_file(self):
        fleet = OwnFleet(self.folder)
        self.addCleanup(fleet.stop)
        line = self.folder / "join"
        line.touch(0o600)
        line.write_text(fleet.run("token", "--site", "office", "--name", "office-1"))
        words = [build_folder() / "longhaul-worker", "--join-file", line, "--state-dir", self.folder / "worker", "--listen-tls", f"{LOOPBACK}:0", "--threads",
                 "1", "--kv-bytes", "64M", "--cache-dir", self.folder / "cache", "--drain-timeout", "0"]
        for begun in ("joined: ", "has joined by this token before", None):
            if begun is None:
                line.write_text("\n")
            worker = Program(f"worker-{begun}", words, self.folder)
            wait_until(lambda: "started " in worker.log_text() or not worker.is_running(), "it serves")
            log = worker.log_text()
            self.assertEqual(worker.stop(), 0, log)
            self.assertIn(" name=office-1 site=office ", log)
            self.assertEqual(begun or "", (re.search("joined: |has joined by this token before", log) or [""])[0])

    def test_a_file_that_others_may_read_is_refused(self):
        line = self.folder / "join"
        line.write_text("https://127.0.0.1:1 lh1.x")
        line.chmod(0o644)
        worker = Program("worker", [build_folder() / "longhaul-worker", "--join-file", line, "--state-dir", self.folder / "worker"], self.folder)
        self.assertEqual(worker.wait(), 2)
        self.assertIn("chmod 600", worker.log_text())
        worker.stop()

    @unittest.skipUnless(os.geteuid() == 0, "not root")
    def test_root_acts_as_the_owner_of_the_folder(self):
        """As beside a gateway of systemd's DynamicUser, whose folder is in one that only root enters."""
        closed = self.folder / "private"
        state = closed / "gateway"
        state.mkdir(parents=True, mode=0o700)
        closed.chmod(0o700)
        os.chown(state, NOBODY, NOBODY)
        fleet = OwnFleet.__new__(OwnFleet)
        fleet.program, fleet.state, fleet.environment = build_folder() / "longhaul-gateway", state, []
        # With a folder for its files no gateway need serve yet.
        fleet.run("token", "--site", "office", "--output-dir", "pasted")
        [token] = json.loads(fleet.run("tokens", "--json"))["tokens"]
        fleet.run("revoke", "token", token["id"])
        self.assertIn("revoked", fleet.run("tokens"))
        files = list(state.rglob("*"))
        self.assertTrue(files)
        self.assertEqual({(path.lstat().st_uid, path.lstat().st_gid) for path in files}, {(NOBODY, NOBODY)})


if __name__ == "__main__":
    run_tests(sys.modules[__name__], at_once=2)
