"""The public API behind nginx and HAProxy, as deploy/proxies has them: what they and the gateway could read in two ways smuggles nothing, streams come
event by event, and a client that hangs up stops its work. Over the scripted engine (tests/gateway), with keys."""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time
import unittest

from api_keys import key_line, write_private
from programs import Program, free_port, run_tests, wait_until
from raw_http import Connection, ask, chunks, request
from test_http_raw import Gateway, completion_body
from test_smuggling import CLOSED, HARMLESS, REFUSED, WANTED

SHIPPED = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "proxies"
KEY = (("Authorization", "Bearer key-a"),)
# What a test needs around the file that nginx includes: one process, so that all requests share connections to the gateway.
NGINX = """daemon off; worker_processes 1; user root; pid {folder}/nginx.pid; error_log stderr;
events {{ worker_connections 512; }}
http {{
    log_format ids "answered=$upstream_http_x_request_id";
    access_log {folder}/access.log ids;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    include {folder}/longhaul.conf;
}}
"""
PUBLIC_NAME = "llm.example.org"  # as in the files
LASTS_S = 15  # each answer that is given up, at least


def program(name):
    found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
    if not found:
        raise unittest.SkipTest(f"{name} is not installed")
    return found


def replaced(text, *pairs):
    for pattern, value in pairs:
        text, count = re.subn(pattern, value, text, flags=re.M)
        assert count, f"deploy/proxies has no {pattern}"
    return text


class ProxyTest:
    """Of a proxy on self.port. command(): what starts it; ids_answered(): the x-request-id of each of the gateway's answers to what it has sent."""

    @classmethod
    def setUpClass(cls):
        cls.found = program(cls.name)
        cls.temporary = tempfile.TemporaryDirectory(prefix="longhaul-proxy-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        keys = write_private(str(cls.folder / "keys"), key_line("a", "key-a", "admin"))
        cls.gateway = Gateway("--api-key-file", keys, "--allowed-hosts", PUBLIC_NAME)
        cls.addClassCleanup(cls.gateway.stop)
        cls.port = free_port()
        cls.proxy = Program(cls.name, cls.command(), cls.folder)
        cls.addClassCleanup(cls.proxy.stop)
        wait_until(cls.is_there, f"{cls.name} listens: {cls.proxy.log_text()}")

    @classmethod
    def is_there(cls):
        assert cls.proxy.is_running(), cls.proxy.log_text()
        try:
            return ask(cls.port, "GET", "/livez").status == 200
        except OSError:
            return False

    def complete(self, script, **more):
        return ask(self.port, "POST", "/v1/completions", completion_body(f"@@{script}", **more), KEY)

    # ---- Nothing is smuggled

    def ids_taken(self):
        """Of the requests that the gateway believes it had (but for signs of life that are well)."""
        return set(re.findall(r"info  api: request .* id=(\S+) left_out=", self.gateway.program.log_text(), re.M))

    def attack(self, data):
        """Sends it, with a request behind it, and reads what comes."""
        said = b""
        with Connection(self.port) as connection:
            connection.socket.settimeout(0.15)
            try:
                connection.send(data + WANTED)
                while more := connection.socket.recv(65536):
                    said += more
            except (TimeoutError, ConnectionError):
                pass
        return said

    def victim(self, name):
        """Whoever comes next on the same connection to the gateway gets an answer of his own."""
        reply = ask(self.port, "POST", "/v1/completions", completion_body(f"@@text=victim-{name}"), (*KEY, ("x-request-id", name)))
        self.assertEqual(reply.status, 200, reply.body)
        self.assertEqual(reply.json()["choices"][0]["text"], f"victim-{name}")

    def test_nothing_is_smuggled(self):
        cases = [*REFUSED, *HARMLESS, *CLOSED]
        self.assertGreaterEqual(len(cases), 56)
        self.victim("before")
        wait_until(lambda: "before" in self.ids_taken(), "the gateway has logged what was before")
        before = self.ids_taken()
        for number, (name, data, *_) in enumerate(cases):
            with self.subTest(name):
                said = self.attack(data)
                self.victim(f"after-{number}")
                self.assertNotIn(b"victim", said)
                wait_until(lambda: f"after-{number}" in self.ids_taken(), "the gateway has logged the last one")
                wait_until(lambda: self.ids_taken() - before <= self.ids_answered(), "each request of the gateway is one of the proxy's")

    def test_many_at_once_get_their_own(self):
        cases = [*REFUSED, *HARMLESS, *CLOSED]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            attacks = [pool.submit(self.attack, data) for _, data, *_ in cases]
            for victim in [pool.submit(self.victim, f"beside-{number}") for number in range(60)]:
                victim.result()
            self.assertFalse([1 for attack in attacks if b"victim" in attack.result()])

    # ---- What clients expect

    def test_the_public_name_arrives_at_the_gateway(self):
        """And no other: a page of evil.example whose name resolves to the proxy's address gets nothing through it."""
        for host, status in ((PUBLIC_NAME, 200), (PUBLIC_NAME.upper() + ":443", 200), ("evil.example", 421)):
            with Connection(self.port) as connection:
                connection.send(request("GET", "/v1/models", headers=KEY, host=host))
                self.assertEqual(connection.reply().status, status, host)

    def test_events_come_one_by_one(self):
        with Connection(self.port) as connection:
            connection.send(request("POST", "/v1/completions", completion_body("@@interval_ms=150 text=abcdef", stream=True), KEY))
            began = time.monotonic()
            self.assertEqual(connection.head()[0], 200)
            times, body = [], b""
            while data := connection.chunk():
                body += data
                times += [time.monotonic() - began] * data.count(b'"text":')
        self.assertEqual("".join(c["choices"][0]["text"] for c in chunks(body)), "abcdef")
        # Buffered they would come all at once: five times 150 ms lie between the first and the last.
        self.assertGreater(times[5] - times[0], 0.4, times)
        self.assertLess(times[0], times[5] / 2, times)

    def test_a_connection_serves_many_requests(self):
        with Connection(self.port) as connection:
            for number in range(5):
                connection.send(request("POST", "/v1/completions", completion_body(f"@@text=ok-{number}"), KEY))
                self.assertEqual(connection.reply().json()["choices"][0]["text"], f"ok-{number}")

    def test_headers_go_both_ways(self):
        self.assertEqual(ask(self.port, "GET", "/v1/models").status, 401)
        reply = ask(self.port, "GET", "/v1/models", None, (*KEY, ("x-request-id", "from-the-client")))
        self.assertEqual((reply.status, reply.headers["x-request-id"]), (200, "from-the-client"))
        reply = self.complete("refuse=busy")
        self.assertEqual((reply.status, reply.error()["code"]), (429, "queue_full"))
        self.assertTrue(int(reply.headers["retry-after"]) >= 1)

    def test_the_operators_routes_stay_inside(self):
        for path in ("/fleet", "/fleet?x=1", "/%66leet", "/trace/cmpl-1", "/trace", "/%74race/cmpl-1"):
            with self.subTest(path):
                self.assertEqual(ask(self.port, "GET", path, None, (*KEY, ("x-request-id", "inside"))).status, 404)
        self.assertEqual(ask(self.gateway.port, "GET", "/fleet", None, KEY).status, 200)
        self.assertNotIn("id=inside", self.gateway.program.log_text())

    def test_long_bodies(self):
        self.assertEqual(self.complete("text=ok", user="x" * 1_000_000).status, 200)
        body = json.dumps(completion_body("@@text=ok")).encode()
        self.assertEqual(ask(self.port, "POST", "/v1/completions", body + b" " * ((8 << 20) - len(body)), KEY).status, 200)
        with Connection(self.port) as connection:
            connection.send(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 8388609\r\n\r\n")
            self.assertEqual(connection.reply().status, 413)

    def test_a_client_that_is_gone_stops_its_work(self):
        """In the prompt, which says nothing for long; in the answer; and streaming or not."""
        for script, stream in (("first_ms=60000 text=a", True), ("first_ms=60000 text=a", False), ("interval_ms=50 text=" + "x" * 300, True)):
            with self.subTest(script=script[:20], stream=stream):
                connection = Connection(self.port)
                connection.send(request("POST", "/v1/completions", completion_body("@@" + script, stream=stream, max_tokens=300), KEY))
                wait_until(lambda: self.running() == 1, "it runs")
                time.sleep(0.1)
                gone = time.monotonic()
                connection.close()
                wait_until(lambda: self.running() == 0, "it runs no more")
                took = time.monotonic() - gone
                print(f"    {self.name}, {script[:14]}, stream {stream}: cancelled after {took * 1000:.0f} ms")
                self.assertLess(took, LASTS_S / 4)

    def running(self):
        return ask(self.gateway.port, "GET", "/fleet", None, KEY).json()["running"]


class Nginx(ProxyTest, unittest.TestCase):
    name = "nginx"

    @classmethod
    def command(cls):
        site = replaced((SHIPPED / "nginx.conf").read_text(), (r"listen 443 ssl;", f"listen 127.0.0.1:{cls.port};"), (r"^ *ssl_.*\n", ""),
                        (r"127\.0\.0\.1:8080", f"127.0.0.1:{cls.gateway.port}"))
        (cls.folder / "longhaul.conf").write_text(site)
        (cls.folder / "nginx.conf").write_text(NGINX.format(folder=cls.folder))
        return [cls.found, "-p", cls.folder, "-c", cls.folder / "nginx.conf"]

    def ids_answered(self):
        return set(re.findall(r"^answered=(\S+)$", (self.folder / "access.log").read_text(), re.M))


class HAProxy(ProxyTest, unittest.TestCase):
    name = "haproxy"

    @classmethod
    def command(cls):
        config = replaced((SHIPPED / "haproxy.cfg").read_text(), (r"bind :443 ssl .*", f"bind 127.0.0.1:{cls.port}"), (r"/dev/log local0", "stderr format raw local0"),
                          (r"^ *(user|group) .*\n", ""), (r"127\.0\.0\.1:8080", f"127.0.0.1:{cls.gateway.port}"), (r"^global$", "global\n    nbthread 1"),
                          (r"http-reuse safe", "http-reuse always"),
                          (r"^    default_backend", "    capture response header x-request-id len 128\n    default_backend"))
        (cls.folder / "haproxy.cfg").write_text(config)
        return [cls.found, "-db", "-f", cls.folder / "haproxy.cfg"]

    def ids_answered(self):
        return set(re.findall(r" longhaul/gateway .* \{([^{}|]+)\} ", self.proxy.log_text()))


if __name__ == "__main__":
    run_tests(sys.modules[__name__], at_once=2)
