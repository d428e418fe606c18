"""Replicas of one service: workers with the same flags on one state folder, which join by a token in a file, find their places again, and check
themselves."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

from joining import LOOPBACK, OwnFleet
from programs import PATIENCE_S, Program, build_folder, free_port, run_tests, wait_until


class Replicas(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="longhaul-slots-")))
        self.fleet = OwnFleet(self.folder)
        self.addCleanup(self.fleet.stop)
        self.tokens = self.folder / "tokens"
        self.token("--site", "home,office", "--uses", "3", "--ttl", "1d")
        self.count = 0

    def token(self, *words):
        done = self.fleet.command("token", "--output-dir", self.tokens, "--address", f"{LOOPBACK}:{self.fleet.port}", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def start(self, port, name="home", token=None):
        self.count += 1
        worker = Program(f"worker-{self.count}", [build_folder() / "longhaul-worker", "--name", name,
                                                  "--join-file", token or self.tokens / "home", "--state-dir", self.folder / "state-of-home", "--state-slots", "2",
                                                  "--listen-tls", f"{LOOPBACK}:{port}", "--threads", "1", "--cache-dir", self.folder / "cache"], self.folder)
        self.addCleanup(worker.stop)
        wait_until(lambda: "registered with the gateway" in worker.log_text() or not worker.is_running(), "the worker has joined")
        return worker

    def check(self, port, *words):
        done = subprocess.run([build_folder() / "longhaul-worker", "check", "--state-dir", self.folder / "state-of-home", *words, "--listen-tls",
                               f"{LOOPBACK}:{port}"], capture_output=True, text=True, timeout=PATIENCE_S)
        return done.returncode, done.stdout or done.stderr

    def test_each_has_a_place_and_finds_it_again(self):
        ports = free_port(3)
        first, second = self.start(ports), self.start(ports + 1)
        self.assertIn("name=home-1 site=home", first.log_text())
        self.assertIn("name=home-2 site=home", second.log_text())
        for port in (ports, ports + 1):
            self.assertEqual(self.check(port, "--state-slots", "2"), (0, '{"status":"ok"}\n'))
        self.assertEqual(self.check(ports, "--state-slots", "0")[0], 1)
        third = self.start(ports + 2)
        self.assertEqual(third.wait(), 1)
        self.assertIn("--state-slots 2: other workers use all of them", third.log_text())
        # Whoever comes in its place needs no token any more.
        first.kill()
        self.assertEqual(self.check(ports, "--state-slots", "2")[0], 1)
        again = self.start(ports, token=self.tokens / "gone")
        self.assertIn("started version=0.1.0 name=home-1 site=home", again.log_text())
        self.assertNotIn("joined", again.log_text())
        # Nor does it mind another one.
        again.kill()
        self.token("--site", "home", "--ttl", "3d")
        again = self.start(ports)
        self.assertIn("the new token stays unused name=home-1", again.log_text())
        self.assertIn("started version=0.1.0 name=home-1 site=home", again.log_text())

    def test_tokens_stay_while_they_are_good(self):
        before = (self.tokens / "home").read_bytes(), (self.tokens / "office").read_bytes()
        self.assertEqual(self.token("--site", "home,office", "--uses", "3", "--ttl", "1d").count("still good"), 2)
        self.assertEqual(((self.tokens / "home").read_bytes(), (self.tokens / "office").read_bytes()), before)
        self.fleet.run("revoke", "token", before[0].decode().split(".")[-2])
        (self.tokens / "office").write_text("lh1.what")
        self.assertEqual(self.token("--site", "home,office,attic", "--ttl", "1d").count("a new token"), 3)
        self.assertNotEqual((self.tokens / "home").read_bytes(), before[0])
        # For twice as long it is not good any more.
        self.assertEqual(self.token("--site", "home,office,attic", "--ttl", "4d").count("a new token"), 3)
        self.assertEqual({path.stat().st_mode & 0o777 for path in self.tokens.iterdir()}, {0o600})

    def test_what_cannot_be_is_said(self):
        for site in ("home,../x", "home,", ".", "a" * 64):
            done = self.fleet.command("token", "--output-dir", self.tokens, "--site", site)
            self.assertEqual((done.returncode, "longhaul-gateway token: --site" in done.stderr), (2, True), done.stderr)
        worker = self.start(free_port(), token=self.tokens / "gone")
        self.assertNotEqual(worker.wait(), 0)
        self.assertIn("no worker that has joined", worker.log_text())
        (self.tokens / "home").chmod(0o644)
        worker = self.start(free_port())
        self.assertNotEqual(worker.wait(), 0)
        self.assertIn("chmod", worker.log_text())


if __name__ == "__main__":
    run_tests(sys.modules[__name__], at_once=3)
