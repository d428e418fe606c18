"""Peers that speak HTTP/2 wrongly on purpose, to the gateway's fleet port and to a worker's port, in the clear and over TLS: what RFC 9113 says must come of
it comes of it, nothing else does, and those who behave are served meanwhile. Then floods, and the silent and the slow by the hundred."""

import json
import resource
import socket
import struct
import sys
import threading
import time
import unittest
import urllib.request

from crc32c import crc32c
from fleet import Fleet
from programs import PATIENCE_S, is_sanitized, run_tests, wait_until
from raw_http2 import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    NO_TABLE,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    WITH_PRIORITY,
    Connection,
    amplifying_requests,
    block,
    field,
    frame,
    get,
    post,
    setting,
    u32,
)
from secure_fleet import SecureFleet

GROWTH_MAX = 48 << 20
OPEN = END_HEADERS
WHOLE = END_HEADERS | END_STREAM

PROTOCOL, SIZE, FLOW, CLOSED = "PROTOCOL_ERROR", "FRAME_SIZE_ERROR", "FLOW_CONTROL_ERROR", "STREAM_CLOSED"


def connection(error):
    return {f"GOAWAY {error}"}


def stream(error):
    """A connection error is always allowed in its place (5.4.2)."""
    return {f"RST_STREAM {error}", f"GOAWAY {error}"}


ALIVE = {"alive"}


def headers(fields, flags=WHOLE, number=1):
    return frame(HEADERS, flags, number, fields)


# (section of RFC 9113, what the peer does, bytes behind the greeting, what must come of it)
CASES = [
    ("4.1", "a frame of an unknown type", frame(0xBB, 0x7F, 0, b"x" * 99), ALIVE),
    ("4.1", "unknown flags", frame(PING, 0xFE, 0, b"12345678"), ALIVE),
    ("4.1", "the reserved bit of a stream's number", frame(PING, 0, 1 << 31, b"12345678"), ALIVE),
    ("4.2", "DATA over the frame size", post(1) + frame(DATA, 0, 1, b"x" * 16385), stream(SIZE)),
    ("4.2", "HEADERS over the frame size", frame(HEADERS, WHOLE, 1, b"x" * 16385), connection(SIZE)),
    ("4.2", "SETTINGS over the frame size", frame(SETTINGS, 0, 0, setting(0x99, 0) * 2731), connection(SIZE)),
    ("4.3", "a field by an index that there is not", headers(b"\xff\xff\x7f"), connection("COMPRESSION_ERROR")),
    ("4.3", "a field by index 0", headers(b"\x80"), connection("COMPRESSION_ERROR")),
    ("4.3", "a field cut short", headers(b"\0\x7fx"), connection("COMPRESSION_ERROR")),
    ("4.3", "a number without an end", headers(b"\xff" + b"\xff" * 12), connection("COMPRESSION_ERROR")),
    ("4.3", "a table larger than allowed", headers(b"\x3f\xe1\xff\x03" + block()), connection("COMPRESSION_ERROR")),
    ("4.3", "a table's size behind fields", headers(block() + b"\x20"), connection("COMPRESSION_ERROR")),
    ("4.3", "a text in Huffman code with its end in it", headers(b"\0\x84\xff\xff\xff\xff\x01x"), connection("COMPRESSION_ERROR")),
    ("4.3", "another frame amid a header block", headers(block(), END_STREAM) + frame(PRIORITY, 0, 1, b"\0\0\0\0\0"), connection(PROTOCOL)),
    ("4.3", "another stream's HEADERS amid a header block", headers(block(), END_STREAM) + get(3), connection(PROTOCOL)),
    ("4.3", "an unknown frame amid a header block", headers(block(), END_STREAM) + frame(0xBB), connection(PROTOCOL)),
    ("5.1", "DATA on an idle stream", frame(DATA, 0, 1, b"x"), connection(PROTOCOL) | connection(CLOSED)),
    ("5.1", "RST_STREAM on an idle stream", frame(RST_STREAM, 0, 1, u32(8)), connection(PROTOCOL)),
    ("5.1", "WINDOW_UPDATE on an idle stream", frame(WINDOW_UPDATE, 0, 1, u32(1)), connection(PROTOCOL)),
    ("5.1", "DATA behind the end of a request", post(1) + frame(DATA, END_STREAM, 1) + frame(DATA, 0, 1, b"x"), stream(CLOSED) | ALIVE),
    ("5.1", "HEADERS behind the end of a request", get(1) + get(1), stream(CLOSED) | connection(PROTOCOL) | ALIVE),
    ("5.1", "DATA behind a reset", post(1) + frame(RST_STREAM, 0, 1, u32(8)) + frame(DATA, 0, 1, b"x"), stream(CLOSED) | ALIVE),
    ("5.1", "HEADERS behind a reset", post(1) + frame(RST_STREAM, 0, 1, u32(8)) + get(1), stream(CLOSED) | connection(PROTOCOL) | ALIVE),
    ("5.1.1", "a stream with an even number", get(2), connection(PROTOCOL)),
    ("5.1.1", "a stream with a lower number", get(5) + get(3), connection(PROTOCOL) | connection(CLOSED) | ALIVE),  # it may count as closed
    ("5.1.2", "more streams than allowed", b"".join(post(2 * n + 1) for n in range(270)), stream("REFUSED_STREAM")),
    ("5.3.1", "a stream that depends on itself", frame(HEADERS, WHOLE | WITH_PRIORITY, 1, u32(1) + b"\0" + block()), stream(PROTOCOL) | ALIVE),
    ("6.1", "DATA on no stream", frame(DATA, 0, 0, b"x"), connection(PROTOCOL)),
    ("6.1", "DATA with more padding than bytes", post(1) + frame(DATA, PADDED, 1, b"\x09x"), connection(PROTOCOL)),
    ("6.1", "DATA with padding and without its length", post(1) + frame(DATA, PADDED, 1), connection(SIZE) | connection(PROTOCOL)),
    ("6.2", "HEADERS on no stream", headers(block(), WHOLE, 0), connection(PROTOCOL)),
    ("6.2", "HEADERS with more padding than bytes", headers(b"\xff" + block(), WHOLE | PADDED), connection(PROTOCOL)),
    ("6.3", "PRIORITY on no stream", frame(PRIORITY, 0, 0, b"\0\0\0\0\0"), connection(PROTOCOL)),
    ("6.3", "PRIORITY of 4 bytes", post(1) + frame(PRIORITY, 0, 1, b"\0\0\0\0"), stream(SIZE)),
    ("6.4", "RST_STREAM on no stream", frame(RST_STREAM, 0, 0, u32(8)), connection(PROTOCOL)),
    ("6.4", "RST_STREAM of 3 bytes", post(1) + frame(RST_STREAM, 0, 1, b"\0\0\0"), connection(SIZE)),
    ("6.5", "SETTINGS on a stream", frame(SETTINGS, 0, 1), connection(PROTOCOL)),
    ("6.5", "an acknowledgement with settings", frame(SETTINGS, ACK, 0, setting(1, 1)), connection(SIZE)),
    ("6.5", "SETTINGS of 5 bytes", frame(SETTINGS, 0, 0, b"12345"), connection(SIZE)),
    ("6.5.2", "ENABLE_PUSH of 2", frame(SETTINGS, 0, 0, setting(2, 2)), connection(PROTOCOL)),
    ("6.5.2", "a first window over 2^31-1", frame(SETTINGS, 0, 0, setting(4, 1 << 31)), connection(FLOW)),
    ("6.5.2", "a frame size below 16384", frame(SETTINGS, 0, 0, setting(5, 16383)), connection(PROTOCOL)),
    ("6.5.2", "a frame size over 2^24-1", frame(SETTINGS, 0, 0, setting(5, 1 << 24)), connection(PROTOCOL)),
    ("6.5.2", "an unknown setting", frame(SETTINGS, 0, 0, setting(0x99, 7)), ALIVE),
    ("6.6", "PUSH_PROMISE of a client", get(1) + frame(PUSH_PROMISE, END_HEADERS, 1, u32(2) + block()), connection(PROTOCOL)),
    ("6.7", "PING on a stream", frame(PING, 0, 1, b"12345678"), connection(PROTOCOL)),
    ("6.7", "PING of 7 bytes", frame(PING, 0, 0, b"1234567"), connection(SIZE)),
    ("6.7", "an answer to no PING", frame(PING, ACK, 0, b"nothing!"), ALIVE),
    ("6.8", "GOAWAY on a stream", frame(GOAWAY, 0, 1, u32(0) * 2), connection(PROTOCOL)),
    ("6.9", "WINDOW_UPDATE by 0", frame(WINDOW_UPDATE, 0, 0, u32(0)), connection(PROTOCOL)),
    ("6.9", "WINDOW_UPDATE of a stream by 0", post(1) + frame(WINDOW_UPDATE, 0, 1, u32(0)), stream(PROTOCOL)),
    ("6.9", "WINDOW_UPDATE of 3 bytes", frame(WINDOW_UPDATE, 0, 0, b"\0\0\1"), connection(SIZE)),
    ("6.9.1", "a window over 2^31-1", frame(WINDOW_UPDATE, 0, 0, u32((1 << 31) - 1)), connection(FLOW)),
    ("6.9.1", "a stream's window over 2^31-1", post(1) + frame(WINDOW_UPDATE, 0, 1, u32((1 << 31) - 1)), stream(FLOW)),
    ("6.9.2", "a first window that overflows a stream's", post(1) + frame(WINDOW_UPDATE, 0, 1, u32(99)) + frame(SETTINGS, 0, 0, setting(4, (1 << 31) - 1)),
     stream(FLOW)),
    ("6.10", "CONTINUATION of nothing", frame(CONTINUATION, END_HEADERS, 1, block()), connection(PROTOCOL)),
    ("6.10", "CONTINUATION behind whole HEADERS", get(1) + frame(CONTINUATION, END_HEADERS, 1, block()), connection(PROTOCOL)),
    ("6.10", "CONTINUATION on no stream", headers(block(), END_STREAM) + frame(CONTINUATION, END_HEADERS, 0), connection(PROTOCOL)),
    ("6.10", "CONTINUATION of another stream", headers(block(), END_STREAM) + frame(CONTINUATION, END_HEADERS, 3), connection(PROTOCOL)),
    ("8.1", "trailers that do not end the request", post(1) + headers(field("x", "y"), OPEN), stream(PROTOCOL)),
    ("8.1.1", "less body than its length says", post(1, field("content-length", "9")) + frame(DATA, END_STREAM, 1, b"x"), stream(PROTOCOL)),
    ("8.1.1", "more body than its length says", post(1, field("content-length", "1")) + frame(DATA, END_STREAM, 1, b"xyz"), stream(PROTOCOL)),
    ("8.2.1", "a name with capitals", get(1, field("X-Test", "y")), stream(PROTOCOL)),
    ("8.2.1", "a value with a line feed", get(1, field("x", "a\nb")), stream(PROTOCOL)),
    ("8.2.1", "an empty name", get(1, field("", "y")), stream(PROTOCOL)),
    ("8.2.2", "a field of HTTP/1.1's connections", get(1, field("connection", "close")), stream(PROTOCOL)),
    ("8.2.2", "TE with anything but trailers", get(1, field("te", "gzip")), stream(PROTOCOL)),
    ("8.3", "a pseudo header behind others", headers(block(path=None) + field("x", "y") + field(":path", "/")), stream(PROTOCOL)),
    ("8.3", "an unknown pseudo header", get(1, field(":test", "y")), stream(PROTOCOL)),
    ("8.3", "a response's pseudo header", get(1, field(":status", "200")), stream(PROTOCOL)),
    ("8.3", "a pseudo header in trailers", post(1) + headers(field(":path", "/")), stream(PROTOCOL)),
    ("8.3.1", "no method", headers(block(method=None)), stream(PROTOCOL)),
    ("8.3.1", "no scheme", headers(block(scheme=None)), stream(PROTOCOL)),
    ("8.3.1", "no path", headers(block(path=None)), stream(PROTOCOL)),
    ("8.3.1", "an empty path", headers(block(path="")), stream(PROTOCOL)),
    ("8.3.1", "two methods", get(1, field(":method", "GET")), stream(PROTOCOL)),
]

# The same for the first bytes of a connection.
GREETINGS = [
    ("3.4", "another preface", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n" + frame(SETTINGS), connection(PROTOCOL) | {"closed"}),
    ("3.4", "HTTP/1.1", b"GET / HTTP/1.1\r\nHost: peer\r\n\r\n", connection(PROTOCOL) | {"closed"}),
    ("3.4", "no SETTINGS at first", PREFACE + frame(PING, 0, 0, b"12345678"), connection(PROTOCOL)),
]

CALM = connection("ENHANCE_YOUR_CALM")
MANY = 20000
FLOODS = [
    ("rapid reset (CVE-2023-44487)", lambda n: post(2 * n + 1) + frame(RST_STREAM, 0, 2 * n + 1, u32(8)), CALM),
    ("windows that make us reset (CVE-2025-8671)", lambda n: post(2 * n + 1) + frame(WINDOW_UPDATE, 0, 2 * n + 1, u32((1 << 31) - 1)), CALM),
    ("bodies that make us reset (CVE-2025-8671)", lambda n: post(2 * n + 1, field("content-length", "1")) + frame(DATA, END_STREAM, 2 * n + 1, b"xy"), CALM),
    ("streams over the limit", lambda n: post(2 * n + 1), CALM),
    ("SETTINGS (CVE-2019-9515)", lambda n: frame(SETTINGS), CALM),
    ("PING (CVE-2019-9512)", lambda n: frame(PING, 0, 0, b"flooding"), CALM),
    ("PRIORITY (CVE-2019-9513)", lambda n: frame(PRIORITY, 0, 1, b"\0\0\0\0\x10"), CALM),
    ("WINDOW_UPDATE", lambda n: frame(WINDOW_UPDATE, 0, 0, u32(1)), CALM),
    ("empty DATA (CVE-2019-9518)", lambda n: (b"" if n else post(1)) + frame(DATA, 0, 1), CALM),
    ("DATA of padding alone", lambda n: (b"" if n else post(1)) + frame(DATA, PADDED, 1, b"\xff" + bytes(255)), CALM),
    ("unknown frames", lambda n: frame(0xBB, 0, 0, b"x" * 9), CALM),
    ("resets of closed streams", lambda n: (b"" if n else post(1)) + frame(RST_STREAM, 0, 1, u32(8)), CALM),
    ("answers to no PING", lambda n: frame(PING, ACK, 0, b"flooding"), CALM),
    ("CONTINUATION (CVE-2024-28182)", lambda n: frame(CONTINUATION, 0, 1, field("x", "y")) if n else headers(block(), 0), CALM | connection(PROTOCOL)),
    ("headers that a table amplifies", lambda n: b"" if n else amplifying_requests(40), CALM),
    ("fields without names or values (CVE-2019-9516)", lambda n: headers(block() + b"\0\0\0" * 4000, WHOLE, 2 * n + 1) if n < 300 else b"", CALM),
    ("windows of one byte (CVE-2019-9511)",
     lambda n: frame(WINDOW_UPDATE, 0, 1, u32(1)) if n else frame(SETTINGS, 0, 0, setting(4, 0)) + get(1), CALM),
]


def rss(program):
    with open(f"/proc/{program.pid}/status") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))


def complete(fleet, tokens=8):
    body = json.dumps({"prompt": "Once upon a time", "max_tokens": tokens, "temperature": 0, "ignore_eos": True})
    request = urllib.request.Request(fleet.url + "/v1/completions", body.encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return json.loads(answer.read())["choices"][0]["text"]


class Honest(threading.Thread):
    """A client that asks again and again, and must be given the same each time."""

    def __init__(self, fleet):
        super().__init__(daemon=True)
        self.fleet, self.wanted, self.answers, self.failure = fleet, complete(fleet), 0, None
        self.is_over = threading.Event()

    def __enter__(self):
        self.start()
        return self

    def run(self):
        try:
            while not self.is_over.is_set():
                assert complete(self.fleet) == self.wanted
                self.answers += 1
        except Exception as error:  # it is the test's to say
            self.failure = error

    def __exit__(self, kind, *_):
        self.is_over.set()
        self.join()
        if not kind and self.failure:
            raise self.failure


class Wrong:
    """What is wrong by RFC 9113, against both ports of a fleet."""

    @classmethod
    def setUpClass(cls):
        cls.fleet = cls.kind(workers=1)
        cls.fleet.__enter__()
        cls.addClassCleanup(cls.fleet.__exit__, None, None, None)
        addresses = cls.fleet.fleet_state()["workers"][0]["addresses"]
        worker_port = int(next(address for address in addresses.values() if address).rpartition(":")[2])
        cls.ports = {"gateway": (cls.fleet.fleet_port, cls.fleet.gateway, cls.tls("worker-1")),
                     "worker": (worker_port, cls.fleet.workers[0], cls.tls("gateway"))}

    @classmethod
    def tls(cls, name):
        return cls.fleet.client_context(name) if cls.kind is SecureFleet else None

    def check(self, cases, connect):
        """Each case on a connection of its own, at both ports."""
        with Honest(self.fleet) as honest:
            for target, (port, program, tls) in self.ports.items():
                before = rss(program)
                for section, words, data, wanted in cases:
                    with self.subTest(f"{target}: {section} {words}"), connect(port, tls, data) as peer:
                        self.assertIn(peer.outcome(), wanted)
                growth = rss(program) - before
                print(f"{target}: {len(cases)} cases, {growth >> 10} KiB")
                if not is_sanitized():
                    self.assertLess(growth, GROWTH_MAX)
            wait_until(lambda: honest.answers or honest.failure, "an honest client is served beside them")

    def test_cases(self):
        self.check(CASES, lambda port, tls, data: Connection(port, tls, greeting=PREFACE + frame(SETTINGS) + data))

    def test_greetings(self):
        self.check(GREETINGS, lambda port, tls, data: Connection(port, tls, greeting=data))

    def test_settings_are_acknowledged(self):
        for target, (port, _, tls) in self.ports.items():
            with self.subTest(target), Connection(port, tls) as peer:
                self.assertEqual(peer.outcome(), "alive")
                self.assertIn((SETTINGS, ACK, 0, b""), peer.frames)
                peer.send(frame(PING, ACK, 0, b"unasked!") + frame(PING, 0, 0, b"answered"))
                peer.run(lambda: (PING, ACK, 0, b"answered") in peer.frames)
                self.assertNotIn((PING, ACK, 0, b"unasked!"), peer.frames)

    def test_floods(self):
        cases = [("flood", words, b"".join(map(make, range(MANY))), wanted) for words, make, wanted in FLOODS]
        self.check(cases, lambda port, tls, data: Connection(port, tls, greeting=PREFACE + frame(SETTINGS) + data))


class WrongInTheClear(Wrong, unittest.TestCase):
    kind = Fleet


class WrongOverTls(Wrong, unittest.TestCase):
    kind = SecureFleet


# ---- Steps that never come -------------------------------------------------------------------------------------------------------


def manifest_head(length):
    """Of a manifest's frame in PROTOCOL.md's step format."""
    head = struct.pack("<III", 1, length, 0)
    return head + struct.pack("<I", crc32c(head))


class StepsThatNeverCome(unittest.TestCase):
    STEPS = 192  # a worker's places for steps

    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(workers=1)
        cls.fleet.__enter__()
        cls.addClassCleanup(cls.fleet.__exit__, None, None, None)
        state = cls.fleet.fleet_state()
        cls.chain = state["chains"][0]["name"]
        addresses = state["workers"][0]["addresses"]
        port = int(next(address for address in addresses.values() if address).rpartition(":")[2])
        cls.ports = {"gateway": (cls.fleet.fleet_port, cls.fleet.gateway), "worker": (port, cls.fleet.workers[0])}

    def open(self, port, begin=b""):
        """As many steps as there are places, whose bodies never end."""
        peer = Connection(port)
        self.assertEqual(peer.outcome(), "alive")  # and the windows are as wide as they get
        for number in range(self.STEPS):
            stream = 2 * number + 1
            fields = block("POST", f"/chains/{self.chain}/steps/{10 ** 6 + number}")
            peer.send(headers(fields if number else NO_TABLE + fields, OPEN, stream))
            for at in range(0, len(begin), 16384):
                peer.send(frame(DATA, 0, stream, begin[at:at + 16384]))
        return peer

    def test_others_are_served(self):
        for target, (port, _) in self.ports.items():
            with self.subTest(target), Honest(self.fleet) as honest, self.open(port) as peer:
                self.assertEqual(peer.outcome(), "alive")
                before = honest.answers
                wait_until(lambda: honest.answers > before + 1 or honest.failure, "an honest client is served beside them")

    def test_parts_of_manifests_take_little_memory(self):
        for target, (port, program) in self.ports.items():
            before = rss(program)
            with self.subTest(target), Honest(self.fleet) as honest, self.open(port, manifest_head(4 << 20) + bytes(512 << 10)) as peer:
                peer.run(lambda: not peer.left)
                growth = rss(program) - before
                print(f"{target}: {self.STEPS} manifests of which 512 KiB have come, {growth >> 10} KiB")
                if not is_sanitized():
                    self.assertLess(growth, GROWTH_MAX)
                answers = honest.answers
                wait_until(lambda: honest.answers > answers + 1 or honest.failure, "an honest client is served beside them")


# ---- The silent and the slow -----------------------------------------------------------------------------------------------------


class Crowd(threading.Thread):
    """Connections that say these bytes and then nothing, each from another address or all from one; who is cut comes again at once."""

    def __init__(self, port, count, words, from_many):
        super().__init__(daemon=True)
        self.port, self.count, self.words, self.from_many = port, count, words, from_many
        self.sockets, self.opened, self.is_over = {}, 0, threading.Event()

    def open(self, number):
        peer = socket.socket()
        self.sockets[number] = peer
        peer.bind((f"127.0.{1 + number // 200}.{1 + number % 200}" if self.from_many else "127.0.1.1", 0))
        peer.connect(("127.0.0.1", self.port))
        peer.sendall(self.words)
        peer.setblocking(False)
        self.opened += 1

    def is_cut(self, peer):
        try:
            while peer.recv(4096):
                pass
            return True
        except BlockingIOError:
            return False
        except OSError:
            return True

    def run(self):
        while not self.is_over.is_set():
            for number in range(self.count):
                try:
                    if number in self.sockets and self.is_cut(self.sockets[number]):
                        self.sockets.pop(number).close()
                    if number not in self.sockets:
                        self.open(number)
                except OSError:
                    self.sockets.pop(number).close()
            self.is_over.wait(0.05)

    def __enter__(self):
        self.start()
        wait_until(lambda: self.opened >= self.count, "all have connected")
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.join()
        for peer in self.sockets.values():
            peer.close()


class Crowds(unittest.TestCase):
    # (what they do, how many, what they say, whether each has an address of its own)
    CROWDS = [("silent, from one address", 300, b"", False), ("silent, from many", 1000, b"", True), ("half a preface, from many", 300, PREFACE[:9], True)]

    def restart(self, fleet):
        """Seconds until a worker that ends at once and starts again serves."""
        before = fleet.gateway.log_text().count("chain is ready")
        fleet.workers[0].kill()
        fleet.workers[0].log.close()
        began = time.monotonic()
        fleet.start_worker(0)
        wait_until(lambda: fleet.gateway.log_text().count("chain is ready") > before, "a chain is ready again")
        complete(fleet)
        return time.monotonic() - began

    def test_a_worker_that_restarts_is_back_as_fast(self):
        with Fleet(workers=1, fetches=True) as fleet:
            undisturbed = self.restart(fleet)
            for words, count, greeting, from_many in self.CROWDS:
                memory = rss(fleet.gateway)
                with self.subTest(words), Crowd(fleet.fleet_port, count, greeting, from_many) as crowd:
                    seconds = self.restart(fleet)
                    growth = rss(fleet.gateway) - memory
                    print(f"{words}: {crowd.opened} connections, back in {seconds:.1f} s, {undisturbed:.1f} s without; {growth >> 10} KiB")
                    self.assertLess(seconds, 3 * undisturbed + 5)
                    if not is_sanitized():
                        self.assertLess(growth, GROWTH_MAX)
            lines = fleet.gateway.log_text().count("another connection has got its place")
            self.assertLess(lines, 100)
            self.assertNotIn("cannot hold its stage", fleet.gateway.log_text())


if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    run_tests(sys.modules[__name__])
