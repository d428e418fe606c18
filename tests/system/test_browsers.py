"""What a page of somebody else's can do, in a browser on the gateway's machine, to a gateway that needs no key: nothing. Neither by DNS rebinding, where
the browser takes the gateway for the page's own origin, nor across origins. Over the scripted engine (tests/gateway). And what a page may whose origin is
named, with the real programs."""

import subprocess
import sys
import unittest

from fleet import Fleet
from programs import build_folder, need_model, run_tests
from raw_http import Connection, ask, chunks, request
from test_http_raw import Gateway, completion_body

EVIL = (("Origin", "http://evil.example"), ("Referer", "http://evil.example/page"), ("Sec-Fetch-Site", "cross-site"))
ROUTES = [("GET", "/v1/models", None), ("GET", "/fleet", None), ("GET", "/version", None), ("GET", "/health", None), ("GET", "/livez", None),
          ("GET", "/nowhere", None), ("HEAD", "/v1/models", None), ("OPTIONS", "/v1/completions", None),
          ("POST", "/v1/completions", completion_body("@@text=a")), ("POST", "/v1/chat/completions", {"messages": []})]


class Browsers(unittest.TestCase):
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.gateway = Gateway(*cls.flags)
        cls.addClassCleanup(cls.gateway.stop)

    def ask(self, method, path, body=None, headers=(), host="localhost"):
        with Connection(self.gateway.port) as connection:
            connection.send(request(method, path, body, headers, host))
            return connection.reply(method)


class Rebinding(Browsers):
    """The name evil.example resolves to 127.0.0.1 by now, and the page asks for http://evil.example:8080/."""

    def test_another_name_gets_nothing(self):
        for host in ("evil.example", f"evil.example:{self.gateway.port}", "localhost.evil.example", "192.168.0.7", "0.0.0.0", ""):
            for method, path, body in ROUTES:
                with self.subTest(host=host, method=method, path=path):
                    reply = self.ask(method, path, body, EVIL, host)
                    self.assertEqual(reply.status, 421)
                    if method != "HEAD":
                        error = reply.error()
                        self.assertEqual((error["type"], error["code"]), ("invalid_request_error", "host_not_allowed"))
                        self.assertIn("--allowed-hosts", error["message"])
                        self.assertIn(f'"{host}"', error["message"])

    def test_names_of_this_machine_are_served(self):
        port = self.gateway.port
        for host in ("localhost", f"localhost:{port}", f"LOCALHOST:{port}", f"a.localhost:{port}", f"127.0.0.1:{port}", "127.3.2.1", f"[::1]:{port}"):
            self.assertEqual(self.ask("GET", "/v1/models", host=host).status, 200, host)

    def test_without_a_name(self):
        """HTTP/1.0, which no browser speaks."""
        with Connection(self.gateway.port) as connection:
            connection.send(b"GET /v1/models HTTP/1.0\r\n\r\n")
            self.assertEqual(connection.reply().status, 200)


class Allowed(Browsers):
    flags = ("--allowed-hosts", "llm.example.org,192.0.2.1")

    def test_what_is_allowed_is_served_beside_localhost(self):
        for host in ("llm.example.org", "llm.example.org:443", "192.0.2.1:8080", "localhost"):
            self.assertEqual(self.ask("GET", "/v1/models", host=host).status, 200, host)
        self.assertEqual(self.ask("GET", "/v1/models", host="evil.example").status, 421)


class Origins(Browsers):
    """The page asks for http://localhost:8080/, and says who it is."""

    def assert_no_permission(self, reply):
        self.assertFalse([name for name in reply.headers if name.startswith("access-control-")], reply.headers)

    def test_another_origin_may_not_read_an_answer(self):
        for method, path, body in ROUTES:
            self.assert_no_permission(self.ask(method, path, body, EVIL))

    def test_a_preflight_gets_no_permission(self):
        asks = (("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "content-type"),
                ("Access-Control-Request-Private-Network", "true"))
        self.assert_no_permission(self.ask("OPTIONS", "/v1/completions", headers=EVIL + asks))

    def test_what_needs_no_preflight_computes_nothing(self):
        """A form, or fetch() with mode no-cors, may send these three types, and cannot send JSON's."""
        for media_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            head = request("POST", "/v1/completions", completion_body("@@text=a"), EVIL)
            with Connection(self.gateway.port) as connection:
                connection.send(head.replace(b"application/json", media_type.encode()))
                self.assertEqual(connection.reply().status, 415, media_type)


class NamedOrigins(unittest.TestCase):
    """longhaul-gateway --cors-origin, as a page at https://chat.example uses it."""

    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(1, ["--cors-origin", "https://chat.example,http://localhost:3000", "--model-name", "smol"]).__enter__()
        cls.addClassCleanup(cls.fleet.__exit__, None, None, None)

    def ask(self, method, path, body=None, origin="https://chat.example", headers=()):
        return ask(self.fleet.port, method, path, body, (("Origin", origin), *headers))

    def test_a_preflight_is_answered(self):
        wants = (("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "authorization,content-type"))
        for origin in ("https://chat.example", "http://localhost:3000"):
            reply = self.ask("OPTIONS", "/v1/chat/completions", origin=origin, headers=wants)
            self.assertEqual((reply.status, reply.body), (204, b""))
            self.assertEqual(reply.headers["access-control-allow-origin"], origin)
            self.assertIn("POST", reply.headers["access-control-allow-methods"])
            self.assertIn("authorization", reply.headers["access-control-allow-headers"].lower())

    def test_answers_streams_and_errors_may_be_read(self):
        chat = {"model": "smol", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
        for body, status in ((chat, 200), ({**chat, "stream": True}, 200), ({**chat, "temperature": 9}, 400)):
            reply = self.ask("POST", "/v1/chat/completions", body)
            self.assertEqual((reply.status, reply.headers["access-control-allow-origin"]), (status, "https://chat.example"))
            self.assertIn("origin", reply.headers["vary"].lower())
            if body.get("stream"):
                self.assertTrue(chunks(reply.body))
        self.assertEqual(self.ask("GET", "/v1/models").headers["access-control-allow-origin"], "https://chat.example")

    def test_others_may_not(self):
        for origin in ("https://chat.example.evil.example", "http://chat.example", "https://chat.example:8443", "null"):
            for method, headers in (("GET", ()), ("OPTIONS", (("Access-Control-Request-Method", "GET"),))):
                reply = self.ask(method, "/v1/models", origin=origin, headers=headers)
                self.assertNotIn("access-control-allow-origin", reply.headers)
                self.assertIn("origin", reply.headers["vary"].lower())

    def test_what_is_no_origin_is_refused_at_the_start(self):
        for origin in ("chat.example", "https://chat.example/", "*"):
            started = subprocess.run([build_folder() / "longhaul-gateway", "--model", need_model(), "--cors-origin", origin], capture_output=True, text=True, timeout=60)
            self.assertNotEqual(started.returncode, 0)
            self.assertIn("is no origin", started.stderr + started.stdout)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
