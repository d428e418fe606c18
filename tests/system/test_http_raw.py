"""The public port on the wire: framing, deadlines, hang-ups, streams, errors. Over the scripted engine (tests/gateway), so
that what the model says, and when, and how it fails, stands in the request."""

import json
import pathlib
import re
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from certificates import issue_server, make_ca
from programs import PATIENCE_S, Program, build_folder, in_time, need_file, run_tests, wait_until
from raw_http import Connection, ask, chunks, elapsed, events, request

MODEL = "tests/tiny-llama"


class Gateway:
    def __init__(self, *flags):
        self.folder = tempfile.TemporaryDirectory(prefix="longhaul-raw-")
        program = need_file(build_folder() / "tests" / "scripted_gateway", "scripted_gateway is not built")
        self.program = Program("scripted", [program, *flags], self.folder.name, stdin=subprocess.PIPE)
        self.port = int(self.program.process.stdout.readline())

    def counts(self):
        return ask(self.port, "GET", "/fleet").json()

    def stop(self):
        """Ends it in its own way; a leak or a race would show in its exit status."""
        self.program.process.stdin.close()
        try:
            self.program.wait()
        finally:
            status = self.program.stop()
        text = self.program.log_text()
        self.folder.cleanup()
        assert status == 0, f"the gateway ended with {status}:\n{text[-4000:]}"


class GatewayTest(unittest.TestCase):
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.gateway = Gateway(*cls.flags)
        cls.port = cls.gateway.port

    @classmethod
    def tearDownClass(cls):
        cls.gateway.stop()

    def ask(self, method, path, body=None, headers=()):
        return ask(self.port, method, path, body, headers)

    def chat(self, text="hi", **more):
        return self.ask("POST", "/v1/chat/completions", chat_body(text, **more))


class SecureConnection(Connection):
    """The same over TLS, to whoever the CA in `folder` has vouched for."""

    def __init__(self, port, folder, version=None):
        super().__init__(port)
        context = ssl.create_default_context(cafile=str(pathlib.Path(folder) / "ca.crt"))
        if version:
            context.maximum_version = version
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost")


class Secure(unittest.TestCase):
    """The port with a certificate of its own: whole answers, streams, hang-ups, and those who speak no TLS."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="longhaul-tls-")
        make_ca(cls.folder.name)
        issue_server(cls.folder.name, "api")
        files = [str(pathlib.Path(cls.folder.name) / f"api.{ending}") for ending in ("crt", "key")]
        cls.gateway = Gateway("--api-tls-cert", files[0], "--api-tls-key", files[1], "--header-ms", "500", "--threads", "2")

    @classmethod
    def tearDownClass(cls):
        cls.gateway.stop()
        cls.folder.cleanup()

    def open(self, **more):
        return SecureConnection(self.gateway.port, self.folder.name, **more)

    def running(self):
        with self.open() as connection:
            connection.send(request("GET", "/fleet"))
            return json.loads(connection.reply().body)["running"]

    def test_answers(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.open(version=version) as connection:
                for _ in range(3):
                    connection.send(request("POST", "/v1/completions", completion_body("@@text=abc")))
                    reply = connection.reply()
                    self.assertEqual((reply.status, json.loads(reply.body)["choices"][0]["text"]), (200, "abc"))
                connection.send(request("POST", "/v1/completions", completion_body("@@interval_ms=20 text=abc", stream=True)))
                reply = connection.reply()
                self.assertIn(b"[DONE]", reply.body)
        long = "x" * 3000
        with self.open() as connection:
            connection.send(request("POST", "/v1/completions", completion_body(f"@@text={long}", max_tokens=1000)))
            self.assertEqual(json.loads(connection.reply().body)["choices"][0]["text"], long[:1000])

    def test_hang_up(self):
        for stream in (False, True):
            connection = self.open()
            connection.send(request("POST", "/v1/completions", completion_body("@@first_ms=20000 text=a", stream=stream)))
            wait_until(lambda: self.running() == 1, "it runs")
            connection.close()
            wait_until(lambda: self.running() == 0, "it runs no more")

    def test_strangers(self):
        with Connection(self.gateway.port) as plain:
            plain.send(request("GET", "/livez"))
            while plain.more():
                pass
            self.assertNotIn(b"HTTP/1.1 200", plain.pending)
        with self.open() as silent:  # its deadline passes: the connection closes, and nothing is sent beside the session
            self.assertTrue(silent.is_closed())
        with Connection(self.gateway.port) as silent:
            self.assertTrue(silent.is_closed())
        with self.assertRaises(ssl.SSLError):
            self.open(version=ssl.TLSVersion.TLSv1_1)


def chat_body(text="hi", **more):
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, **more}


def completion_body(prompt="hi", **more):
    return {"prompt": prompt, "temperature": 0, "max_tokens": 64, **more}


GET = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n"
SMUGGLED = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


class Framing(GatewayTest):
    """Requests that two implementations could read in two ways are refused, and nothing behind them is served."""

    flags = ("--allowed-hosts", "*")

    def refused(self, data, status=400, is_json=True):
        with Connection(self.port) as connection:
            connection.send(data + SMUGGLED)
            reply = connection.reply()
            self.assertIsNotNone(reply, "no answer at all")
            self.assertEqual(reply.status, status, reply.body)
            if is_json:
                reply.error()
            self.assertTrue(connection.is_closed(), "the connection stays open")

    def test_length_and_chunked_together(self):
        self.refused(POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        self.refused(POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n")

    def test_two_lengths(self):
        self.refused(POST + b"Content-Length: 2\r\nContent-Length: 20\r\n\r\n{}")
        self.refused(POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}")

    def test_odd_lengths(self):
        for value in (b"+2", b"-2", b"0x2", b"2,2", b"2 2", b"", b"99999999999999999999"):
            with Connection(self.port) as connection:
                connection.send(POST + b"Content-Length: " + value + b"\r\n\r\n{}" + SMUGGLED)
                reply = connection.reply()  # most of these are the library's own refusals, in HTML, their head sent twice
                self.assertIn(reply.status, (400, 413), value)
                while connection.more():
                    pass
                self.assertNotIn(b"version", reply.body + connection.pending)

    def test_odd_encodings(self):
        for value in (b"chunked, identity", b"identity", b"xchunked", b"chunked;x", b"gzip, chunked", b"\x0bchunked"):
            with Connection(self.port) as connection:
                connection.send(POST + b"Transfer-Encoding: " + value + b"\r\n\r\n0\r\n\r\n" + SMUGGLED)
                reply = connection.reply()
                self.assertIn(reply.status, (400, 501), value)
                self.assertTrue(connection.is_closed(), value)
        self.refused(POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        self.refused(POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")

    def test_hosts(self):
        for host in (b"a/?b", b"a b", b"a#b", b"a@b", b"a:b", b"a:1:2", b"[::1", b"[::1]x", b"\xff", b"a\\b", b"a:123456"):
            self.refused(b"GET /v1/models HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
        self.refused(b"GET /v1/models HTTP/1.1\r\n\r\n")
        self.refused(b"GET /v1/models HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n")
        for host in ("a", "a:8080", "[::1]:8080", "127.0.0.1", "a-b.c_d", "a:", ""):
            with Connection(self.port) as connection:
                connection.send(request("GET", "/v1/models", host=host))
                self.assertEqual(connection.reply().status, 200, host)

    def test_targets(self):
        for target in (b"http://localhost/v1/models", b"v1/models", b"/v1/mod\x01els", b"/v1/models#x", b"*", b"/v1/mod\xc3\xa9ls"):
            self.refused(b"GET " + target + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        self.refused(b"GET /v1/models\x00/../fleet HTTP/1.1\r\nHost: a\r\n\r\n")
        self.refused(b"GET /v1/mod els HTTP/1.1\r\nHost: a\r\n\r\n")
        self.refused(b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414)

    def test_bare_line_feeds(self):
        self.refused(b"GET /v1/models HTTP/1.1\nHost: a\r\n\r\n")
        self.refused(b"GET /v1/models HTTP/1.1\r\nHost: a\nX: b\r\n\r\n")
        self.refused(b"GET /v1/models HTTP/1.1\r\nX: b\r\nHost: a\n\r\n")
        self.refused(b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\n")
        self.refused(b"GET /v1/models HTTP/1.1\nHost: a\n\n")

    def test_nul_and_control_characters(self):
        self.refused(GET + b"X: a\x00b\r\n\r\n")
        self.refused(GET + b"X\x00Y: a\r\n\r\n", is_json=False)
        self.refused(GET + b"X: a\rb\r\n\r\n")
        self.refused(GET + b"X: a\x7fb\r\n\r\n")

    def test_header_names(self):
        self.refused(GET + b"Content-Length : 5\r\n\r\n")
        self.refused(GET + b"X Y: 5\r\n\r\n")
        self.refused(GET + b": 5\r\n\r\n")
        self.refused(GET + b"X(: 5\r\n\r\n")
        self.refused(GET + b"no colon\r\n\r\n", is_json=False)

    def test_folded_lines(self):
        self.refused(GET + b"X: a\r\n b\r\n\r\n")
        self.refused(POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n")

    def test_doubled_headers(self):
        self.refused(GET + b"Authorization: a\r\nAuthorization: b\r\n\r\n")
        self.refused(POST + b"Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}")

    def test_too_many_or_too_long_headers(self):
        self.refused(GET + b"".join(b"X-%d: a\r\n" % i for i in range(120)) + b"\r\n", 431)
        self.refused(GET + b"X: " + b"a" * 40000 + b"\r\n\r\n", 431)
        with Connection(self.port) as connection:
            connection.send(GET + b"X: " + b"a" * 200000 + b"\r\n\r\n")
            reply = connection.reply()
            self.assertTrue(reply is None or reply.status == 431)

    def test_versions(self):
        for version in (b"HTTP/2.0", b"HTTP/1.2", b"HTTP/0.9", b"http/1.1", b"HTTP/1.10", b"ICY/1.1"):
            with Connection(self.port) as connection:
                connection.send(b"GET /v1/models " + version + b"\r\nHost: a\r\n\r\n" + SMUGGLED)
                reply = connection.reply()
                self.assertIn(reply.status, (400, 505), version)
                self.assertTrue(connection.is_closed(), version)

    def test_http_1_0_is_served(self):
        with Connection(self.port) as connection:
            connection.send(b"GET /v1/models HTTP/1.0\r\n\r\n")
            reply = connection.reply()
            self.assertEqual(reply.status, 200)
            self.assertTrue(connection.is_closed())

    def test_pipelining_in_order(self):
        with Connection(self.port) as connection:
            connection.send(request("GET", "/v1/models") + request("POST", "/v1/completions", completion_body("@@first_ms=100 text=a"))
                            + request("GET", "/version"))
            self.assertIn("data", connection.reply().json())
            self.assertEqual(connection.reply().json()["choices"][0]["text"], "a")
            self.assertIn("version", connection.reply().json())

    def test_chunked_body_is_served_and_the_connection_closed(self):
        body = json.dumps(completion_body("@@text=a")).encode()
        with Connection(self.port) as connection:
            connection.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
            for byte in body:
                connection.send(b"1\r\n" + bytes([byte]) + b"\r\n")
            connection.send(b"0\r\n\r\n" + SMUGGLED)
            self.assertEqual(connection.reply().json()["choices"][0]["text"], "a")
            self.assertTrue(connection.is_closed())

    def test_random_bytes(self):
        import random

        source = random.Random(7)
        for _ in range(200):
            with Connection(self.port) as connection:
                data = bytearray(request("POST", "/v1/completions", completion_body("@@text=a")))
                for _ in range(source.randrange(1, 6)):
                    data[source.randrange(len(data))] = source.randrange(256)
                try:
                    connection.send(bytes(data))
                    connection.socket.shutdown(1)
                    reply = connection.reply()
                except (ConnectionError, AssertionError):
                    continue
                self.assertTrue(reply is None or reply.status < 500 or reply.status in (501, 505), reply and reply.body)
        self.assertEqual(self.ask("GET", "/livez").status, 200)


class Bodies(GatewayTest):
    flags = ("--body-bytes", "100000")

    def test_too_large_is_refused_before_it_is_read(self):
        with Connection(self.port) as connection:
            connection.send(POST + b"Content-Length: 100001\r\n\r\n")
            reply = connection.reply()
            self.assertEqual(reply.status, 413)
            self.assertEqual(reply.error()["type"], "request_too_large")
            self.assertTrue(connection.is_closed())

    def test_too_large_with_expectation(self):
        with Connection(self.port) as connection:
            connection.send(POST + b"Expect: 100-continue\r\nContent-Length: 100001\r\n\r\n")
            self.assertEqual(connection.head()[0], 413)

    def test_chunked_and_too_large(self):
        with Connection(self.port) as connection:
            connection.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
            try:
                for _ in range(30):
                    connection.send(b"2000\r\n" + b"x" * 0x2000 + b"\r\n")
            except OSError:
                pass
            reply = connection.reply()
            self.assertEqual(reply.status, 413)
            reply.error()
            self.assertTrue(connection.is_closed())

    def test_the_largest_body_is_read(self):
        body = json.dumps(completion_body("x")).encode()
        body += b" " * (100000 - len(body))
        self.assertEqual(self.ask("POST", "/v1/completions", body).status, 200)

    def test_not_json(self):
        for body in (b"", b"{", b"[]", b"1", b'"x"', b"{}{}", b'{"prompt":"\xff"}', b'{"prompt":NaN}',
                     b"[" * 50000, b'{"a":' * 9000 + b"1" + b"}" * 9000, b"\xef\xbb\xbf", b'{"prompt":"a",}', b"null"):
            reply = self.ask("POST", "/v1/completions", body)
            self.assertEqual(reply.status, 400, body[:40])
            self.assertEqual(reply.error()["code"], "invalid_json")

    def test_values_that_do_not_fit(self):
        for body, param in ((b'{"prompt":"a","seed":9223372036854775808}', "seed"), (b'{"prompt":"a","temperature":1e999}', "temperature")):
            reply = self.ask("POST", "/v1/completions", body)
            self.assertEqual((reply.status, reply.error()["code"], reply.error()["param"]), (400, "invalid_value", param), body)

    def test_what_is_clear_is_read(self):
        for body in (b'{"prompt":"a\\u0000"}', b'{"prompt":"\\ud800"}', b'{"prompt":"\xed\xa0\x80"}', b'{"prompt":5,"prompt":"b"}', b'\xef\xbb\xbf{"prompt":"a"}',
                     b'{"prompt":"a","unheard_of":[1e999,123456789012345678901234567890]}'):
            reply = self.ask("POST", "/v1/completions", body)
            self.assertEqual(reply.status, 200, (body, reply.body))

    def test_depth(self):
        for depth, status in ((510, 200), (520, 400)):
            body = b'{"prompt":"a","x":' + b"[" * depth + b"]" * depth + b"}"
            self.assertEqual(self.ask("POST", "/v1/completions", body).status, status, depth)


class Deadlines(GatewayTest):
    quickly_set_up = True
    flags = ("--header-ms", "1000", "--body-ms", "1500", "--idle-ms", "2000", "--stall-ms", "2000")

    def drip(self, connection, data):
        """One byte each 50 ms until the other side closes; returns when that was."""
        start = time.monotonic()
        for byte in data:
            try:
                connection.send(bytes([byte]))
            except OSError:
                break
            connection.socket.settimeout(0.05)
            try:
                if not connection.more() or b"\r\n\r\n" in connection.pending:
                    break
            except TimeoutError:
                pass
        connection.socket.settimeout(PATIENCE_S)
        return elapsed(start)

    def test_slow_headers(self):
        with Connection(self.port) as connection:
            seconds = self.drip(connection, GET + b"X: " + b"a" * 1000)
            self.assertTrue(in_time(seconds, 1), seconds)
            reply = connection.reply()
            self.assertEqual(reply.status, 408)
            self.assertEqual(reply.error()["type"], "request_timeout")
            self.assertTrue(connection.is_closed())

    def test_no_request(self):
        with Connection(self.port) as connection:
            start = time.monotonic()
            self.assertEqual(connection.reply().status, 408)
            self.assertTrue(in_time(elapsed(start), 1))

    def test_slow_body(self):
        with Connection(self.port) as connection:
            connection.send(POST + b"Content-Length: 1000\r\n\r\n")
            seconds = self.drip(connection, b"{" + b" " * 500)
            self.assertTrue(in_time(seconds, 1.5), seconds)
            reply = connection.reply()
            self.assertEqual(reply.status, 408)
            reply.error()

    def test_idle_connection(self):
        with Connection(self.port) as connection:
            connection.send(request("GET", "/livez"))
            self.assertEqual(connection.reply().status, 200)
            start = time.monotonic()
            self.assertTrue(connection.is_closed())
            self.assertTrue(in_time(elapsed(start), 2), elapsed(start))

    def test_slow_headers_behind_a_first_request(self):
        with Connection(self.port) as connection:
            connection.send(request("GET", "/livez"))
            self.assertEqual(connection.reply().status, 200)
            seconds = self.drip(connection, GET + b"X: " + b"a" * 1000)
            self.assertTrue(in_time(seconds, 2), seconds)

    def test_a_long_answer_is_no_idling(self):
        reply = self.chat("@@first_ms=4000 text=late")
        self.assertEqual(reply.json()["choices"][0]["message"]["content"], "late")

    def test_a_client_that_takes_nothing(self):
        with Connection(self.port) as connection:
            connection.socket.setsockopt(1, 8, 4096)  # SO_RCVBUF
            before = self.gateway.counts()["running"]
            body = completion_body("@@text=" + "x" * 200, stream=True, max_tokens=3600, ignore_eos=True, n=16)
            connection.send(request("POST", "/v1/completions", body))
            # The stall begins when the kernel's buffers are full, which is for the engine to fill.
            wait_until(lambda: "status=499" in self.gateway.program.log_text(), "the stalled stream is cut")
            wait_until(lambda: self.gateway.counts()["running"] <= before, "its sequences have ended")


class HangUps(GatewayTest):
    """A client that has gone is noticed in every phase, long before its answer is over, and its sequences stop."""

    lasts_s = 18  # each of the answers below, at least

    def gone_after(self, body, path="/v1/completions", sleep=0.2, reset=False):
        before = self.gateway.counts()
        connection = Connection(self.port)
        connection.send(request("POST", path, body))
        wait_until(lambda: self.gateway.counts()["submitted"] > before["submitted"], "submitted")
        time.sleep(sleep)
        if reset:
            connection.socket.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SO_LINGER: close with RST
        start = time.monotonic()
        connection.close()
        wait_until(lambda: self.gateway.counts()["running"] <= before["running"], "the sequences end")
        return elapsed(start)

    def test_while_waiting_for_the_first_token(self):
        for stream in (False, True):
            for reset in (False, True):
                self.assertLess(self.gone_after(completion_body("@@first_ms=20000 text=a", stream=stream), reset=reset), self.lasts_s / 4)

    def test_while_tokens_come(self):
        for stream in (False, True):
            for reset in (False, True):
                body = completion_body("@@interval_ms=300 text=" + "a" * 60, stream=stream)
                self.assertLess(self.gone_after(body, reset=reset), self.lasts_s / 4)

    def test_several_choices(self):
        self.assertLess(self.gone_after(completion_body("@@first_ms=20000 text=a", n=16)), self.lasts_s / 4)

    def test_in_a_flood_of_tokens(self):
        body = completion_body("@@text=abc", stream=True, max_tokens=3900, ignore_eos=True)
        self.gone_after(body, sleep=0.0)
        wait_until(lambda: "status=499" in self.gateway.program.log_text(), "logged")

    def test_the_sending_half_alone(self):
        for stream in (False, True):
            with Connection(self.port) as connection:
                before = self.gateway.counts()["submitted"]
                connection.send(request("POST", "/v1/completions", completion_body("@@first_ms=20000 text=a", stream=stream)))
                wait_until(lambda: self.gateway.counts()["submitted"] > before, "submitted")
                connection.socket.shutdown(1)
                reply = connection.reply()
                self.assertIn(reply and reply.status, (None, 499))

    def test_logged_as_499(self):
        self.gone_after(completion_body("@@first_ms=20000 text=a"))
        wait_until(lambda: "status=499" in self.gateway.program.log_text(), "logged")

    def test_many_at_once(self):
        before = self.gateway.counts()
        connections = [Connection(self.port) for _ in range(200)]
        for number, connection in enumerate(connections):
            connection.send(request("POST", "/v1/completions",
                                    completion_body("@@interval_ms=50 text=abc", max_tokens=2000, ignore_eos=True, stream=number % 2 == 0)))
        wait_until(lambda: self.gateway.counts()["submitted"] - before["submitted"] == 200, "all submitted")
        start = time.monotonic()
        for connection in connections:
            connection.close()
        wait_until(lambda: self.gateway.counts()["running"] == 0, "all gone")
        self.assertLess(elapsed(start), 2000 * 0.05 / 4)
        self.assertEqual(self.chat("@@text=ok").json()["choices"][0]["message"]["content"], "ok")

    def test_descriptors_used_again(self):
        """A descriptor's number goes to a new connection at once; the old one's end must not touch it."""
        for _ in range(50):
            first = Connection(self.port)
            first.send(request("POST", "/v1/completions", completion_body("@@first_ms=20000 text=a")))
            first.close()
            self.assertEqual(self.chat("@@first_ms=5 text=ok").json()["choices"][0]["message"]["content"], "ok")


class Streams(GatewayTest):
    flags = ("--keep-alive-ms", "400")

    def test_headers_and_end(self):
        with Connection(self.port) as connection:
            connection.send(request("POST", "/v1/chat/completions", chat_body("@@text=hello", stream=True)))
            reply = connection.reply()
            self.assertEqual(reply.status, 200)
            self.assertTrue(reply.headers["content-type"].startswith("text/event-stream"))
            self.assertEqual(reply.headers["cache-control"], "no-cache")
            self.assertEqual(reply.headers["x-accel-buffering"], "no")
            self.assertTrue(reply.body.endswith(b"data: [DONE]\n\n"))
            connection.send(request("GET", "/livez"))  # the connection is good for another request
            self.assertEqual(connection.reply().status, 200)

    def check_choices(self, found, count, chat=True):
        for number in range(count):
            mine = [c["choices"][0] for c in found if c["choices"] and c["choices"][0]["index"] == number]
            finishes = [c["finish_reason"] for c in mine]
            self.assertTrue(all(f is None for f in finishes[:-1]) and finishes[-1] in ("stop", "length"), finishes)
            if chat:
                self.assertEqual(mine[0]["delta"], {"role": "assistant", "content": ""})
                self.assertTrue(all("role" not in c["delta"] for c in mine[1:]))

    def test_first_chunks_and_last(self):
        for n in (1, 2, 4):
            found = chunks(self.chat("@@text=hello", stream=True, n=n).body)
            for key in ("id", "created", "model", "object", "system_fingerprint"):
                self.assertEqual(len({c[key] for c in found}), 1, key)
            self.assertEqual(found[0]["object"], "chat.completion.chunk")
            self.check_choices(found, n)

    def test_batch_prompts(self):
        body = completion_body(["@@text=one", "@@text=two"], stream=True, n=2)
        found = chunks(self.ask("POST", "/v1/completions", body).body)
        self.check_choices(found, 4, chat=False)
        text = ["".join(c["choices"][0]["text"] for c in found if c["choices"][0]["index"] == i) for i in range(4)]
        self.assertEqual(text, ["one", "one", "two", "two"])

    def test_usage(self):
        for path, make in (("/v1/chat/completions", chat_body), ("/v1/completions", completion_body)):
            for include in (None, False, True):
                for continuous in (None, False, True):
                    options = {k: v for k, v in (("include_usage", include), ("continuous_usage_stats", continuous)) if v is not None}
                    found = chunks(self.ask("POST", path, make("@@text=hello", stream=True, stream_options=options)).body)
                    if include:
                        self.assertEqual(found[-1]["choices"], [])
                        self.assertEqual(found[-1]["usage"]["completion_tokens"], 5)
                        self.assertEqual(found[-1]["usage"]["total_tokens"], found[-1]["usage"]["prompt_tokens"] + 5)
                    for chunk in found[:-1] if include else found:
                        self.assertTrue(chunk["choices"])
                        self.assertEqual(bool(chunk.get("usage")), bool(include and continuous))
            whole = self.ask("POST", path, make("@@text=hello")).json()
            self.assertEqual(whole["usage"]["completion_tokens"], 5)

    def test_keep_alive(self):
        with Connection(self.port) as connection:
            connection.send(request("POST", "/v1/chat/completions", chat_body("@@first_ms=3000 text=late", stream=True)))
            start = time.monotonic()
            self.assertEqual(connection.head()[0], 200)
            self.assertTrue(0.35 < elapsed(start) < 2.5, "the first sign of life, long before the text")
            body = b""
            while (data := connection.chunk()):
                body += data
            self.assertTrue(2 <= body.count(b": keep-alive\n\n") <= 8, body)
            self.assertEqual("".join(c["choices"][0]["delta"].get("content", "") for c in chunks(body)), "late")

    def test_keep_alive_between_tokens(self):
        body = self.chat("@@interval_ms=1000 text=ab", stream=True).body
        self.assertGreaterEqual(body.count(b": keep-alive\n\n"), 2)

    def test_failure_before_the_first_token_is_an_error_status(self):
        for stream in (False, True):
            reply = self.chat("@@fail_after=0 text=abc", stream=stream)
            self.assertEqual(reply.status, 503)
            self.assertEqual(reply.error()["type"], "unavailable_error")
            self.assertTrue(1 <= int(reply.headers["retry-after"]) <= 120)
            reply = self.chat("@@fail_after=0 internal=1 text=abc", stream=stream)
            self.assertEqual(reply.status, 500)
            self.assertNotIn("10.1.2.3", reply.body.decode())
            self.assertEqual(reply.headers["x-should-retry"], "false")

    def test_a_form_that_is_too_much_to_follow(self):
        reply = self.chat("@@fail_after=0 limit=1 text=abc", guided_regex="(a|b)*")
        self.assertEqual((reply.status, reply.error()["param"]), (400, "guided_regex"))

    def test_failure_in_the_stream(self):
        with Connection(self.port) as connection:
            connection.send(request("POST", "/v1/chat/completions", chat_body("@@fail_after=3 interval_ms=50 text=abcdef", stream=True)))
            reply = connection.reply()
            found = events(reply.body)
            self.assertEqual(found[-1], "[DONE]")
            self.assertEqual(json.loads(found[-2])["error"]["code"], "model_unavailable")
            self.assertTrue(all("error" not in json.loads(text) for text in found[:-2]))
            self.assertTrue(connection.is_closed())

    def test_failure_without_stream(self):
        self.assertEqual(self.chat("@@fail_after=3 text=abcdef").status, 503)

    def test_whole_characters(self):
        """Every chunk of the body is UTF-8 by itself, and the stream's text is the whole answer's."""
        text = "é漢🎉\\xff\\xe6\\xbcz\\xf0\\x9f\\x8e"
        wanted = "é漢🎉\ufffd\ufffdz\ufffd"
        whole = self.chat(f"@@text={text}").json()["choices"][0]["message"]["content"]
        self.assertEqual(whole, wanted)
        found = chunks(self.chat(f"@@interval_ms=2 text={text}", stream=True).body)
        self.assertEqual("".join(c["choices"][0]["delta"].get("content") or "" for c in found), wanted)

    def test_stop_strings(self):
        text = "one STOPPER two"
        for stop, wanted in (("STOP", "one "), (["x", "PER"], "one STOP"), ("one", ""), ("nowhere", text), (["TOPP", "STOP"], "one ")):
            reply = self.chat(f"@@text={text}", stop=stop).json()["choices"][0]
            self.assertEqual((reply["message"]["content"], reply["finish_reason"]), (wanted, "stop"), stop)
            found = chunks(self.chat(f"@@text={text}", stop=stop, stream=True).body)
            self.assertEqual("".join(c["choices"][0]["delta"].get("content") or "" for c in found), wanted)
        wait_until(lambda: self.gateway.counts()["running"] == 0, "stopped sequences end in the engine too")

    def test_held_back_prefix_comes_at_the_end(self):
        for stream in (False, True):
            reply = self.chat("@@text=abcST", stop="STOP", stream=stream)
            text = ("".join(c["choices"][0]["delta"].get("content") or "" for c in chunks(reply.body)) if stream
                    else reply.json()["choices"][0]["message"]["content"])
            self.assertEqual(text, "abcST")

    def test_length(self):
        for stream in (False, True):
            reply = self.chat("@@text=abcdef", max_tokens=3, stream=stream)
            choice = chunks(reply.body)[-1]["choices"][0] if stream else reply.json()["choices"][0]
            self.assertEqual(choice["finish_reason"], "length")

    def test_many_streams_side_by_side(self):
        results = []

        def one(number):
            body = self.chat(f"@@interval_ms=3 text=stream {number} says hello", stream=True).body
            results.append("".join(c["choices"][0]["delta"].get("content") or "" for c in chunks(body)) == f"stream {number} says hello")

        threads = [threading.Thread(target=one, args=(n,)) for n in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [True] * 60)


class Errors(GatewayTest):
    def test_statuses(self):
        json_type = ("Content-Type", "application/json")
        table = (
            ("GET", "/nope", None, (), 404, "invalid_request_error", "unknown_url"),
            ("GET", "/v1/nope", None, (), 404, "invalid_request_error", "unknown_url"),
            ("GET", "/v1/models/", None, (), 404, "invalid_request_error", "model_not_found"),
            ("GET", "/v1/models/x%zz", None, (), 404, "invalid_request_error", "model_not_found"),
            ("GET", "/v1/%6dodels", None, (), 404, "invalid_request_error", "unknown_url"),
            ("POST", "/v1/models", b"{}", (), 405, "invalid_request_error", "method_not_allowed"),
            ("GET", "/v1/chat/completions", None, (), 405, "invalid_request_error", "method_not_allowed"),
            ("DELETE", "/v1/completions", None, (), 405, "invalid_request_error", "method_not_allowed"),
            ("POST", "/v1/chat/completions", None, (), 415, "invalid_request_error", "unsupported_media_type"),
            ("POST", "/v1/chat/completions", b"{}", (), 400, "invalid_request_error", "missing_required_parameter"),
            ("POST", "/v1/completions", b"{}", (), 400, "invalid_request_error", "missing_required_parameter"),
        )
        for method, path, body, headers, status, kind, code in table:
            reply = self.ask(method, path, body, headers)
            self.assertEqual(reply.status, status, (method, path))
            error = reply.error()
            self.assertEqual((error["type"], error["code"]), (kind, code), (method, path))
            self.assertEqual(reply.headers["content-type"], "application/json")
            if status == 405:
                self.assertIn("OPTIONS", reply.headers["allow"])
        reply = self.ask("POST", "/v1/completions", None, (("Content-Type", "text/plain"), ("Content-Length", "0")))
        self.assertEqual(reply.status, 415)
        self.assertEqual(self.ask("POST", "/v1/completions", None, (json_type, ("Content-Length", "0"))).status, 400)
        body = json.dumps(completion_body()).encode()
        with Connection(self.port) as connection:
            connection.send(POST.replace(b"application/json", b"Application/JSON; charset=utf-8") + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            self.assertEqual(connection.reply().status, 200)

    def test_engine_refusals(self):
        for stream in (False, True):
            reply = self.chat("@@refuse=busy", stream=stream)
            self.assertEqual((reply.status, reply.error()["code"]), (429, "queue_full"))
            self.assertEqual(reply.error()["type"], "rate_limit_error")
            self.assertTrue(1 <= int(reply.headers["retry-after"]) <= 120)
            self.assertTrue(int(reply.headers["retry-after-ms"]) > 0)
            reply = self.chat("@@refuse=unavailable", stream=stream)
            self.assertEqual(reply.status, 503)
            self.assertIn("retry-after", reply.headers)
            self.assertEqual(self.chat("@@refuse=limit", stream=stream).status, 400)

    def test_head_and_options(self):
        reply = self.ask("HEAD", "/v1/models")
        self.assertEqual((reply.status, reply.body), (200, b""))
        self.assertGreater(int(reply.headers["content-length"]), 0)
        reply = self.ask("OPTIONS", "/v1/chat/completions")
        self.assertEqual((reply.status, reply.headers["allow"]), (204, "POST, OPTIONS"))
        with Connection(self.port) as connection:
            connection.send(b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(connection.reply().status, 204)
        self.assertNotIn("access-control-allow-origin", self.ask("GET", "/v1/models", None, (("Origin", "http://evil"),)).headers)

    def test_models(self):
        for prefix in ("", "/v1"):
            for query in ("", "?x=1&y=%ff"):
                listed = self.ask("GET", f"{prefix}/models{query}").json()
                self.assertEqual(listed["object"], "list")
                self.assertEqual(listed["data"][0]["id"], MODEL)
                self.assertIsInstance(listed["data"][0]["created"], int)
            for spelling in ("tests/tiny-llama", "tests%2Ftiny-llama", "tests%2ftiny-ll%61ma"):
                self.assertEqual(self.ask("GET", f"{prefix}/models/{spelling}").json()["id"], MODEL)

    def test_request_ids(self):
        for given, kept in (("abc-1.2_X", True), ("a" * 128, True), ("a" * 129, False), ("a b", False), ("a;b", False), ("é", False)):
            reply = self.ask("GET", "/livez", None, (("x-request-id", given),))
            self.assertEqual(reply.headers["x-request-id"] == given, kept, given)
            self.assertRegex(reply.headers["x-request-id"], r"\A[A-Za-z0-9._-]{1,128}\Z")
        reply = self.chat()
        self.assertRegex(reply.headers["openai-processing-ms"], r"\A[0-9]+\Z")
        self.assertIn("dur=", reply.headers["server-timing"])
        self.assertNotEqual(reply.headers["x-request-id"], self.chat().headers["x-request-id"])

    def test_no_prompt_in_the_log(self):
        self.chat("CANARY-WORD @@text=CANARY-ANSWER")
        self.ask("GET", "/v1/CANARY-PATH")
        self.ask("GET", "/livez", None, (("X-Other", "CANARY-HEADER"),))
        self.assertNotIn("CANARY", self.gateway.program.log_text())


class States(GatewayTest):
    def test_states(self):
        for state, name in (("loading", "loading"), ("no_chain", "no_chain"), ("draining", "draining")):
            self.assertEqual(self.chat(f"@@state={state} text=a").status, 200)
            for path in ("/health", "/readyz"):
                reply = self.ask("GET", path)
                self.assertEqual((reply.status, reply.json()["status"]), (503, name))
                self.assertEqual("is draining" in reply.error()["message"], name == "draining")
                self.assertIn("retry-after", reply.headers)
            self.assertEqual(self.ask("GET", "/livez").status, 200)
            self.assertEqual(self.ask("GET", "/v1/models").json()["data"], [])
            self.assertEqual(self.ask("GET", f"/v1/models/{MODEL}").status, 503)
            self.assertEqual(self.ask("GET", "/v1/models/other").status, 404)
            self.chat("@@state=ready text=a")
            self.assertEqual(self.ask("GET", "/health").json(), {"status": "ok"})
            self.assertEqual(self.ask("GET", "/v1/models").json()["data"][0]["id"], MODEL)

    def test_probes_that_go_well_are_for_debugging(self):
        for path in ("/health", "/readyz", "/livez", "/version"):
            self.assertEqual(self.ask("GET", path, None, (("x-request-id", "probe" + path.replace("/", "-")),)).status, 200)
        self.chat("@@state=no_chain text=a")
        self.assertEqual(self.ask("GET", "/health", None, (("x-request-id", "probe-unwell"),)).status, 503)
        self.chat("@@state=ready text=a")
        wait_until(lambda: "id=probe-unwell" in self.gateway.program.log_text(), "what is not well is logged")
        probes = re.findall(r"(\w+) +api: request .* id=(probe-\S+)", self.gateway.program.log_text())
        self.assertEqual([name for level, name in probes if level != "debug"], ["probe-version", "probe-unwell"])


if __name__ == "__main__":
    run_tests(sys.modules[__name__], at_once=6)
