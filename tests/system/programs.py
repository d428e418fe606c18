"""Starts and stops the programs under test, each with its log in a file."""

import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time

SKIPPED = 77


def build_folder():
    folder = os.environ.get("LONGHAUL_BUILD")
    if not folder:
        print("skipped: LONGHAUL_BUILD is not set")
        sys.exit(SKIPPED)
    return pathlib.Path(folder)


def need_file(path, why):
    if not path or not pathlib.Path(path).exists():
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    return str(path)


def free_port():
    """Below the range from which outgoing connections take theirs: one of those must not sit on it when a program is to listen."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Program:
    """A process of ours; stopped by its own id, whatever happens."""

    def __init__(self, name, arguments, folder, stdin=subprocess.DEVNULL):
        self.name = name
        self.log_path = pathlib.Path(folder) / f"{name}.log"
        self.log = open(self.log_path, "ab")
        self.is_asked = False
        self.process = subprocess.Popen([str(a) for a in arguments], stdin=stdin, stdout=subprocess.PIPE, stderr=self.log)

    @property
    def pid(self):
        return self.process.pid

    def is_running(self):
        return self.process.poll() is None

    def log_text(self):
        return self.log_path.read_text(errors="replace")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def ask_to_stop(self):
        if self.is_running() and not self.is_asked:
            self.is_asked = True
            self.process.send_signal(signal.SIGTERM)

    def stop(self, timeout=20):
        """Asks it to end, once; returns its exit status, negative for a signal."""
        self.ask_to_stop()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()
        return self.process.returncode


def wait_until(condition, timeout, what):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise TimeoutError(f"not within {timeout} s: {what}")


def is_sanitized():
    """Whether the programs are built with a sanitizer: they then take 5 to 30 times as long."""
    cache = build_folder() / "CMakeCache.txt"
    return cache.exists() and any(line.startswith("LONGHAUL_SANITIZE:") and not line.endswith("=") for line in cache.read_text().splitlines())


def run_tests(module, sanitized=None):
    """unittest, ended by a line that says how many passed. sanitized: names of the tests that a sanitizer's build runs."""
    import unittest

    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(sanitized, module) if sanitized and is_sanitized() else loader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(1 if failed else 0)
