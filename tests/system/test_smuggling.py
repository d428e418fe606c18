"""What two servers in a row could read in two ways, over raw sockets: each case is followed by a request that must not be answered as if it
had been sent by itself, and by nothing that is behind the key. Over the scripted engine (tests/gateway), with a key; tests/system/test_http_raw.py
has the same rules one by one."""

import os
import sys
import tempfile
import unittest

from api_keys import key_line, write_private
from programs import run_tests
from raw_http import Connection, ask
from test_http_raw import Gateway

KEY = b"Authorization: Bearer key-a\r\n"
HOST = b"Host: localhost\r\n"
POST = b"POST /v1/completions HTTP/1.1\r\n" + HOST + KEY + b"Content-Type: application/json\r\n"
GET = b"GET /v1/models HTTP/1.1\r\n" + HOST + KEY
OPEN = b"GET /livez HTTP/1.1\r\n" + HOST  # needs no key
BODY = b'{"prompt": "@@text=ok", "max_tokens": 4, "temperature": 0}'
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
# What an attacker would like to be answered: a page behind the key, with the key of whoever comes next on the connection.
WANTED = b"GET /version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key-a\r\n\r\n"


def chunk(data, size=None, end=b"\r\n"):
    return (b"%x" % len(data) if size is None else size) + b"\r\n" + data + end


LAST = b"0\r\n\r\n"

# Name, bytes. Refused: one answer, which is an error, and the connection is closed.
REFUSED = [
    ("length, then chunked", POST + LENGTH + CHUNKED + b"\r\n" + chunk(BODY) + LAST),
    ("chunked, then length", POST + CHUNKED + LENGTH + b"\r\n" + chunk(BODY) + LAST),
    ("length of nothing and chunked", POST + b"Content-Length: 0\r\n" + CHUNKED + b"\r\n" + chunk(BODY) + LAST),
    ("two lengths that differ", POST + LENGTH + b"Content-Length: 2\r\n\r\n" + BODY),
    ("two lengths that agree", POST + LENGTH + LENGTH + b"\r\n" + BODY),
    ("lengths in a list", POST + b"Content-Length: 2, 2\r\n\r\n{}"),
    ("a length with a sign", POST + b"Content-Length: +2\r\n\r\n{}"),
    ("a length in hex", POST + b"Content-Length: 0x2\r\n\r\n{}"),
    ("a length of 21 digits", POST + b"Content-Length: 100000000000000000002\r\n\r\n{}"),
    ("a blank before the colon", POST + b"Content-Length : 2\r\n\r\n{}"),
    ("a blank before the colon of chunked", POST + b"Transfer-Encoding : chunked\r\n\r\n" + LAST),
    ("chunked behind a tab and another", POST + b"Transfer-Encoding: gzip,\tchunked\r\n\r\n" + LAST),
    ("chunked twice", POST + CHUNKED + CHUNKED + b"\r\n" + LAST),
    ("chunked, then identity", POST + CHUNKED + b"Transfer-Encoding: identity\r\n\r\n" + LAST),
    ("xchunked", POST + b"Transfer-Encoding: xchunked\r\n\r\n" + LAST),
    ("chunked in quotes", POST + b'Transfer-Encoding: "chunked"\r\n\r\n' + LAST),
    ("chunked on a folded line", POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + LAST),
    ("chunked behind a vertical tab", POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + LAST),
    ("chunked behind a bare line feed", POST + b"X: y\nTransfer-Encoding: chunked\r\n\r\n" + LAST),
    ("chunked behind a bare carriage return", POST + b"X: y\rTransfer-Encoding: chunked\r\n\r\n" + LAST),
    ("chunked behind a NUL", POST + b"X: y\x00Transfer-Encoding: chunked\r\n\r\n" + LAST),
    ("chunked in HTTP/1.0", POST.replace(b"1.1", b"1.0") + CHUNKED + b"\r\n" + LAST),
    ("a chunk's size with a sign", POST + CHUNKED + b"\r\n" + chunk(BODY, b"+%x" % len(BODY)) + LAST),
    ("a chunk's size in 0x", POST + CHUNKED + b"\r\n" + chunk(BODY, b"0x%x" % len(BODY)) + LAST),
    ("a chunk's size over 64 bits", POST + CHUNKED + b"\r\n" + chunk(BODY, b"1" + b"0" * 16 + b"%x" % len(BODY)) + LAST),
    ("a chunk's size that is none", POST + CHUNKED + b"\r\n" + chunk(BODY, b"z") + LAST),
    ("a chunk longer than it says", POST + CHUNKED + b"\r\n" + chunk(BODY, b"2") + LAST),
    ("two hosts", b"GET /v1/models HTTP/1.1\r\n" + HOST + b"Host: other\r\n" + KEY + b"\r\n"),
    ("no host", b"GET /v1/models HTTP/1.1\r\n" + KEY + b"\r\n"),
    ("a path in the host", b"GET /v1/models HTTP/1.1\r\nHost: localhost/health?\r\n\r\n"),
    ("a user in the host", b"GET /v1/models HTTP/1.1\r\nHost: health@localhost\r\n\r\n"),
    ("a whole URL as target", b"GET http://localhost/health HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("an authority as target", b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("a target without a slash", b"GET health HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("a NUL in the target", b"GET /health\x00/../v1/models HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("a fragment in the target", b"GET /v1/models#/health HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("two keys", GET + b"Authorization: Bearer other\r\n\r\n"),
    ("a folded key", OPEN.replace(b"/livez", b"/version") + b"Authorization: Bearer\r\n key-a\r\n\r\n"),
    ("a header without a colon", GET + b"Content-Length 5\r\n\r\n"),
    ("a header without a name", GET + b": 5\r\n\r\n"),
    ("HTTP/2's preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("no version", b"GET /health\r\n\r\n"),
]

# Name, bytes, statuses of the answers before the one to WANTED. There is one way to read these, so what is behind them is a request.
HARMLESS = [
    ("a length", POST + LENGTH + b"\r\n" + BODY, [200]),
    ("a length with zeros before it", POST + b"Content-Length: 00%d\r\n\r\n" % len(BODY) + BODY, [200]),
    ("a body on a GET", GET + b"Content-Length: 5\r\n\r\nhello", [200]),
    ("names with an underscore", GET + b"Content_Length: 50\r\nTransfer_Encoding: chunked\r\n\r\n", [200]),
    ("an upgrade", GET + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n", [200]),
    ("hop-by-hop Authorization", GET + b"Connection: keep-alive, Authorization\r\n\r\n", [200]),
    ("another method in a header", GET + b"X-HTTP-Method-Override: DELETE\r\n\r\n", [200]),
    ("other targets in headers", OPEN + b"X-Original-URL: /version\r\nX-Rewrite-URL: /version\r\nX-Forwarded-Prefix: /version\r\n\r\n", [200]),
    ("another's address in headers", OPEN.replace(b"/livez", b"/version") + b"X-Forwarded-For: 127.0.0.1\r\nForwarded: for=127.0.0.1\r\n\r\n", [401]),
    ("an empty line before", b"\r\n" + GET + b"\r\n", [200]),
]

# As HARMLESS, but that the connection is closed behind a body in chunks, since a proxy may have read those in another way.
CLOSED = [
    ("chunks", POST + CHUNKED + b"\r\n" + chunk(BODY[:9]) + chunk(BODY[9:]) + LAST, 200),
    ("chunks with extensions", POST + CHUNKED + b"\r\n" + chunk(BODY, b"%x;a=b" % len(BODY)) + LAST, 200),
    ("chunks whose lines end without a carriage return", POST + CHUNKED + b"\r\n%x\n%s\n0\n\n" % (len(BODY), BODY), 200),
    ("a chunk whose end lacks the carriage return", POST + CHUNKED + b"\r\n" + chunk(BODY, end=b"\n") + LAST, 200),
    ("a length among the trailers", POST + CHUNKED + b"\r\n" + chunk(BODY) + b"0\r\nContent-Length: 500\r\n\r\n", 200),
    ("a key among the trailers", POST.replace(KEY, b"") + CHUNKED + b"\r\n" + chunk(BODY) + b"0\r\n" + KEY + b"\r\n", 401),
]


class Smuggling(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="longhaul-smuggling-")
        path = write_private(os.path.join(cls.folder.name, "keys"), key_line("a", "key-a", "admin"))
        cls.gateway = Gateway("--api-key-file", path)
        cls.port = cls.gateway.port

    @classmethod
    def tearDownClass(cls):
        cls.gateway.stop()
        cls.folder.cleanup()

    def replies(self, data):
        """The statuses of all answers, and whether the page that was wanted is among them."""
        found = b""
        with Connection(self.port) as connection:
            connection.send(data + WANTED)
            connection.socket.settimeout(0.3)
            try:
                while data := connection.socket.recv(65536):
                    found += data
                is_closed = True
            except TimeoutError:
                is_closed = False
            except ConnectionResetError:
                is_closed = True
        # The library sends the head of some of its own refusals twice.
        statuses = [int(part[:3]) for part in found.split(b"HTTP/1.1 ")[1:]]
        return statuses, b'"version"' in found, is_closed

    def test_ambiguous_ones_are_refused(self):
        answered = 0
        for name, data in REFUSED:
            with self.subTest(name):
                statuses, is_answered, is_closed = self.replies(data)
                self.assertFalse(is_answered)
                self.assertTrue(is_closed)
                self.assertTrue(set(statuses) <= {400, 401, 405, 413, 501, 505} and len(set(statuses)) <= 1, statuses)
                answered += bool(statuses)
        # An answer may be lost to a reset, where the server closes on bytes that it has not read.
        self.assertGreaterEqual(answered, len(REFUSED) - 5)

    def test_plain_ones_are_read_in_one_way(self):
        for name, data, wanted in HARMLESS:
            with self.subTest(name):
                statuses, is_answered, _ = self.replies(data)
                self.assertEqual(statuses, [*wanted, 200])
                self.assertTrue(is_answered)

    def test_nothing_follows_chunks(self):
        for name, data, wanted in CLOSED:
            with self.subTest(name):
                statuses, is_answered, is_closed = self.replies(data)
                self.assertEqual(statuses, [wanted])
                self.assertFalse(is_answered)
                self.assertTrue(is_closed)

    def test_a_request_in_many_pieces_is_one(self):
        data = POST + LENGTH + b"\r\n" + BODY
        for size in (1, 2, 3, 7, 64):
            with Connection(self.port) as connection:
                for at in range(0, len(data), size):
                    connection.send(data[at:at + size])
                self.assertEqual(connection.reply().status, 200)

    def test_the_server_is_well(self):
        self.assertEqual(ask(self.port, "GET", "/livez").status, 200)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
