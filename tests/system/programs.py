"""Starts and stops the programs under test, each with its log in a file."""

import fcntl
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from default_model import default_model
from gguf_keys import layer_count

SKIPPED = 77
# What must come is waited for so long: this bounds what hangs, never what is slow.
PATIENCE_S = 300
# Less of what takes long: more of the same finds more, rarely.
IS_QUICK = bool(os.environ.get("LONGHAUL_TEST_QUICK"))


def build_folder():
    folder = os.environ.get("LONGHAUL_BUILD")
    if not folder:
        print("skipped: LONGHAUL_BUILD is not set")
        sys.exit(SKIPPED)
    return pathlib.Path(folder)


def need_model():
    return need_file(default_model(), "no model: LONGHAUL_TEST_MODEL names no file, and deploy/fetch-model gets none")


def memory_for_some_layers():
    """For --memory-bytes: half of the model has room in it and the whole has not. SmolLM2's embedding takes 30 MB, a layer 2.2."""
    return f"{30 + layer_count(need_model()) * 5 // 3}M"


def lacking(why):
    """What tests/run installs is not there: this test is skipped, and where everything is to be tested it fails. To be raised."""
    return AssertionError(why) if os.environ.get("LONGHAUL_TEST_ALL") else unittest.SkipTest(why)


def need_file(path, why):
    if not path or not pathlib.Path(path).exists():
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    return str(path)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as line:
        user, system = line.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


PORTS_TAKEN = []  # locked files, one for each port, until this process ends


def take_port(port):
    """Whether nobody listens there, and no other test on this machine is given it from now on."""
    folder = pathlib.Path(tempfile.gettempdir()) / f"longhaul-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    lock = open(folder / str(port), "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        lock.close()
        return False
    PORTS_TAKEN.append(lock)
    return True


def free_port(count=1):
    """The first of some ports in a row, all below the kernel's own range, that are this test's alone."""
    while True:
        first = random.randrange(20000, 32000)
        if all(take_port(first + number) for number in range(count)):
            return first


class Program:
    """A process of ours; stopped by its own id, whatever happens."""

    def __init__(self, name, arguments, folder, stdin=subprocess.DEVNULL, stderr=None):
        """stderr: in the place of the file that log_text() reads."""
        self.name = name
        self.log_path = pathlib.Path(folder) / f"{name}.log"
        self.log = open(self.log_path, "ab")
        self.is_asked = False
        self.process = subprocess.Popen([str(a) for a in arguments], stdin=stdin, stdout=subprocess.PIPE, stderr=stderr or self.log)

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

    def wait(self):
        """Its exit status, negative for a signal, when it has ended by itself."""
        return self.process.wait(PATIENCE_S)

    def ask_to_stop(self):
        if self.is_running() and not self.is_asked:
            self.is_asked = True
            self.process.send_signal(signal.SIGTERM)

    def stop(self, timeout=PATIENCE_S):
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


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise TimeoutError(f"not within {PATIENCE_S} s: {what}")


def in_time(seconds, promised):
    """Whether what the programs promise to do after a time was done then: never early, and late by no more than twice as long again, which is
    for a busy machine."""
    return 0.9 * promised <= seconds <= 3 * promised


def _sanitizer():
    """That the programs are built with; "": none."""
    cache = build_folder() / "CMakeCache.txt"
    lines = cache.read_text().splitlines() if cache.exists() else []
    return next((line.partition("=")[2] for line in lines if line.startswith("LONGHAUL_SANITIZE:")), "")


def is_sanitized():
    return bool(_sanitizer())


def slowness():
    """How many times as slow as a release build this one is, about: leases and the like are longer by so much."""
    sanitizer = _sanitizer()
    return 20 if "thread" in sanitizer else 8 if sanitizer else 1


class Seconds(unittest.TextTestResult):
    """Says of each test how long it took."""

    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def stopTest(self, test):
        self.stream.writeln(f"    {time.monotonic() - self.began:.1f} s")
        super().stopTest(test)


def _tests(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _tests(test)
        else:
            yield test


def _parts(suite):
    """What may run in a process of its own: the tests of a class that share something (that is not quickly_set_up anew), or one that shares nothing."""
    parts = {}
    for test in _tests(suite):
        shares = type(test).setUpClass.__func__ is not unittest.TestCase.setUpClass.__func__ and not getattr(test, "quickly_set_up", False)
        parts.setdefault(type(test) if shares else test.id(), []).append(test)
    return [unittest.TestSuite(tests) for tests in parts.values()]


def _run(suite):
    """(passed, failed, skipped)"""
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=Seconds).run(suite)
    sys.stdout.flush()
    failed = len(result.failures) + len(result.errors)
    return result.testsRun - failed - len(result.skipped), failed, len(result.skipped)


class _Apart:
    """The same in a process of its own, and what it said. Begun where no thread but this runs: a process is not forked in the middle of another's work."""

    def __init__(self, suite):
        self.said = tempfile.TemporaryFile()
        self.counts, sender = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.get_context("fork").Process(target=self._work, args=(suite, sender))
        self.process.start()
        sender.close()

    def _work(self, suite, sender):
        os.dup2(self.said.fileno(), 1)
        os.dup2(self.said.fileno(), 2)
        sender.send(_run(suite))

    def end(self):
        """Its counts; prints what it said."""
        try:
            counts = self.counts.recv()
        except EOFError:
            counts = (0, 1, 0)
        self.process.join()
        self.said.seek(0)
        print(self.said.read().decode(errors="replace"), flush=True)
        self.said.close()
        return counts


def _run_side_by_side(parts, at_once):
    waiting, running, counts = list(reversed(parts)), [], []
    while waiting or running:
        while waiting and len(running) < at_once:
            sys.stdout.flush()
            running.append(_Apart(waiting.pop()))
        ended = multiprocessing.connection.wait([apart.counts for apart in running])
        counts += [apart.end() for apart in running if apart.counts in ended]
        running = [apart for apart in running if apart.counts not in ended]
    return counts


def run_tests(module, sanitized=None, at_once=1, quick=None):
    """unittest, ended by a line that says how many passed. sanitized, quick: names of the tests that a sanitizer's build and LONGHAUL_TEST_QUICK
    run; None: all. at_once: so many classes (or tests,
    of those that share nothing) run beside each other, where they wait more than they compute."""
    loader = unittest.defaultTestLoader
    chosen = sanitized if is_sanitized() else quick if IS_QUICK else None
    suite = loader.loadTestsFromNames(chosen, module) if chosen else loader.loadTestsFromModule(module)
    counts = [_run(suite)] if at_once == 1 else _run_side_by_side(_parts(suite), at_once)
    passed, failed, skipped = map(sum, zip(*counts))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or not passed else 0)
