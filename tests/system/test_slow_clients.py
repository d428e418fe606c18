"""Clients that take their time on purpose: headers, bodies and answers a byte at a time, from many connections that come back as soon as
they are cut. A legitimate client beside them is served as long as they last: it never waits until they are cut. Over the scripted engine (tests/gateway).

Short by default; LONGHAUL_TEST_SLOW_CLIENTS=60 is the whole: 1,000 attackers of each kind for so many seconds, at the real deadlines."""

import multiprocessing
import os
import random
import resource
import selectors
import socket
import sys
import time
import unittest

from programs import PATIENCE_S, is_sanitized, run_tests
from raw_http import Connection, ask, elapsed, request
from test_http_raw import Gateway, completion_body

WHOLE_S = float(os.environ.get("LONGHAUL_TEST_SLOW_CLIENTS", "0"))
ATTACKERS = 1000 if WHOLE_S else 60 if is_sanitized() else 300
SECONDS = WHOLE_S or 3
FLAGS = () if WHOLE_S else ("--header-ms", "1000", "--body-ms", "1500", "--stall-ms", "2000")
# Who had to wait for an attacker would wait for the first of these deadlines.
DEADLINE_S = 10 if WHOLE_S else 1

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
LONG = request("POST", "/v1/completions", completion_body("@@interval_ms=30 text=" + "x" * 200, stream=True, max_tokens=3600, ignore_eos=True))


class Attacker:
    """One connection that is always busy: what it has to send goes a byte at a time, then nothing of the answer is read."""

    def __init__(self, port, kind):
        self.port, self.kind = port, kind
        self.cut = -1
        self.open()

    def open(self):
        self.cut += 1
        self.socket = socket.socket()
        self.socket.setblocking(False)
        if self.kind == "read":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self.socket.connect_ex(("127.0.0.1", self.port))
        self.sent = 0

    def bytes(self):
        if self.kind == "header":
            return HEAD + b"X: " + b"a" * 100000
        return HEAD + b"Content-Length: 100000\r\n\r\n" + b" " * 99999 if self.kind == "body" else LONG

    def step(self):
        quick = {"header": 0, "body": len(HEAD) + 26, "read": len(LONG)}[self.kind]
        data = self.bytes()
        try:
            if self.sent < len(data):
                self.sent += self.socket.send(data[self.sent:max(quick, self.sent + 1)])
        except BlockingIOError:
            pass
        except OSError:
            self.reopen()

    def reopen(self):
        self.socket.close()
        self.open()


def attack(port, kind, count, ready, stop, cuts):
    """Each attacker takes a step twice a second; who is cut comes back at once."""
    selector = selectors.DefaultSelector()
    attackers = []
    for _ in range(count):
        attackers.append(Attacker(port, kind))
        time.sleep(0.0005)
    if kind != "read":
        for attacker in attackers:
            selector.register(attacker.socket, selectors.EVENT_READ, attacker)
    ready.set()
    turn = 0
    while not stop.is_set():
        for _ in range(max(1, count // 50)):
            attackers[turn % count].step()
            turn += 1
        for key, _ in selector.select(0.01):
            attacker = key.data
            try:
                gone = not attacker.socket.recv(65536)
            except BlockingIOError:
                continue
            except OSError:
                gone = True
            if gone:
                selector.unregister(key.fileobj)
                attacker.reopen()
                selector.register(attacker.socket, selectors.EVENT_READ, attacker)
    cuts.value = sum(attacker.cut for attacker in attackers)


def times(port, seconds):
    """A legitimate client's: half of its requests on a connection of their own."""
    found, start = [], time.monotonic()
    with Connection(port) as kept:
        while elapsed(start) < seconds:
            begun = time.monotonic()
            if random.random() < 0.5:
                reply = ask(port, "POST", "/v1/completions", completion_body("@@text=ok"))
            else:
                kept.send(request("POST", "/v1/completions", completion_body("@@text=ok")))
                reply = kept.reply()
            found.append(elapsed(begun))
            assert reply.status == 200, reply.body
            time.sleep(0.005)
    return sorted(found)


def p99(sorted_times):
    return sorted_times[len(sorted_times) * 99 // 100]


class SlowClients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, limit[1]), limit[1]))
        cls.gateway = Gateway(*FLAGS)
        cls.base = times(cls.gateway.port, max(2, SECONDS / 4))

    @classmethod
    def tearDownClass(cls):
        cls.gateway.stop()

    def under_attack(self, kind, count=ATTACKERS):
        context = multiprocessing.get_context("fork")
        ready, stop, cuts = context.Event(), context.Event(), context.Value("i", 0)
        attackers = context.Process(target=attack, args=(self.gateway.port, kind, count, ready, stop, cuts))
        attackers.start()
        try:
            self.assertTrue(ready.wait(PATIENCE_S))
            found = times(self.gateway.port, SECONDS)
        finally:
            stop.set()
            attackers.join()
        print(f"    {count} slow {kind}: p50 {found[len(found) // 2] * 1000:.2f} ms, p99 {p99(found) * 1000:.2f} ms; without p50 "
              f"{self.base[len(self.base) // 2] * 1000:.2f}, p99 {p99(self.base) * 1000:.2f}; {cuts.value} were cut")
        if WHOLE_S:
            self.assertLessEqual(p99(found), 2 * p99(self.base))
        self.assertLess(found[len(found) * 9 // 10], DEADLINE_S / 2)
        return cuts.value

    def test_headers(self):
        self.assertGreaterEqual(self.under_attack("header"), ATTACKERS)

    def test_bodies(self):
        self.assertGreaterEqual(self.under_attack("body"), ATTACKERS)

    def test_answers_that_nobody_reads(self):
        self.under_attack("read", ATTACKERS // 5)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
