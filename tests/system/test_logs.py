"""What the programs say in their logs, as JSON, and what the line of a request tells; that nobody fills a log, and that a log which nobody reads
stops nobody."""

import http.client
import json
import pathlib
import re
import socket
import sys
import unittest
import urllib.request

from api_keys import key_line, write_private
from fleet import Fleet
from programs import run_tests, wait_until
from stream import Stream
from unread_log import UnreadLogFleet

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


class Json(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(workers=1, gateway_flags=("--log-format", "json", "--log-level", "debug"), worker_flags=("--log-format", "json")).__enter__()
        cls.addClassCleanup(cls.fleet.__exit__, None, None, None)

    def lines(self, program):
        """All whole lines, each an object of its own."""
        text = program.log_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def line_of(self, **fields):
        """The line of the request with these fields."""
        def find():
            return [line for line in self.lines(self.fleet.gateway) if line["message"] == "request" and fields.items() <= line.items()]
        return wait_until(find, f"the log tells of {fields}")[0]

    def complete(self, max_tokens, request_id=None):
        headers = {"Content-Type": "application/json", **({"X-Request-Id": request_id} if request_id else {})}
        body = json.dumps({"prompt": "Once upon a time", "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}).encode()
        with urllib.request.urlopen(urllib.request.Request(self.fleet.url + "/v1/completions", body, headers)) as answer:
            return json.load(answer), answer.headers["x-request-id"]

    def test_every_line_is_an_object(self):
        for program in self.fleet.programs():
            lines = self.lines(program)
            self.assertGreater(len(lines), 3)
            for line in lines:
                self.assertEqual(list(line)[:4], ["time", "level", "module", "message"])
                self.assertRegex(line["time"], TIME)
                self.assertIn(line["level"], ("error", "warn", "info", "debug"))
        ready = next(line for line in self.lines(self.fleet.workers[0]) if line["message"] == "ready")
        self.assertRegex(ready["layers"], r"\A0-\d+\Z")
        self.assertEqual(self.fleet.fleet_state()["chains"][0]["stages"][0]["layers"], ready["layers"])

    def test_the_line_of_a_request(self):
        answer, own = self.complete(5, "mine.1")
        self.assertEqual(own, "mine.1")
        line = self.line_of(id="mine.1")
        usage = answer["usage"]
        self.assertEqual((line["level"], line["module"], line["route"], line["status"]), ("info", "api", "/v1/completions", 200))
        self.assertEqual((line["finish"], line["tokens_in"], line["tokens_out"]), ("length", usage["prompt_tokens"], 5))
        self.assertEqual((line["answer"], line["client"]), (answer["id"], None))
        self.assertRegex(line["peer"], r"\A127\.0\.0\.1:\d+\Z")
        self.assertTrue(0 < line["first_token_ms"] < line["ms"], line)

    def test_an_id_out_of_bounds_is_replaced(self):
        for bad in ("x" * 129, 'a" level=error'):
            made = self.complete(1, bad)[1]
            self.assertRegex(made, r"\Areq_\w+\Z")
            self.assertEqual(self.line_of(id=made)["status"], 200)

    def test_what_was_cancelled_counts(self):
        with Stream(self.fleet.port, "Once upon a time", 1500) as stream:
            stream.read(3)
        line = self.line_of(finish="cancelled")
        self.assertEqual(line["status"], 499)
        self.assertGreaterEqual(line["tokens_out"], 3)
        self.assertGreater(line["tokens_in"], 0)

    def test_probes_are_for_debugging(self):
        self.assertEqual(self.fleet.get("/readyz")[0], 200)
        line = self.line_of(route="/readyz", status=200)
        self.assertEqual((line["level"], line["finish"], line["first_token_ms"]), ("debug", None, None))


class KeyFleet(Fleet):
    def start_gateway(self):
        keys = write_private(pathlib.Path(self.folder) / "keys", "".join(key_line(name, f"{name}s-key") for name in ("alice", "bob", "carol")))
        self.gateway_flags = [*self.gateway_flags, "--api-key-file", keys]
        super().start_gateway()


class Floods(unittest.TestCase):
    """Of lines that cost their sender nothing there are a few at once, then one every two seconds, which says how many are missing."""

    MANY = 60
    FEW = 30  # five, and one for each two seconds of a machine that is very busy

    @classmethod
    def setUpClass(cls):
        cls.fleet = KeyFleet(workers=1).__enter__()
        cls.addClassCleanup(cls.fleet.__exit__, None, None, None)

    def lines(self, words):
        return [line for line in self.fleet.gateway.log_text().splitlines() if re.search(words, line)]

    def ask(self, path, key=None, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.fleet.port, timeout=300)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, {**headers, "Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    def check(self, words, ask):
        """Others may have used up what lines there are at once: then the next one comes within two seconds."""
        for _ in range(self.MANY):
            ask()

        def lines():
            ask()
            return self.lines(words)
        self.assertIn(len(wait_until(lines, f"the log has {words}")), range(1, self.FEW))

    def test_strangers(self):
        self.check("status=401", lambda: self.assertEqual(self.ask("/v1/models", "not-a-key"), 401))

    def test_what_is_no_request(self):
        def ask():
            with socket.create_connection(("127.0.0.1", self.fleet.port), 300) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
                while connection.recv(4096):
                    pass
        self.check("status=400", ask)

    def test_workers_at_the_wrong_port(self):
        self.check("a worker asks", lambda: self.ask("/fleet/workers/worker-1"))

    def test_clients_that_are_refused(self):
        """One client hides nothing of another."""
        self.check("status=400 .*client=alice", lambda: self.assertEqual(self.ask("/v1/completions", "alices-key", {"prompt": 1.5}), 400))
        self.assertEqual(self.ask("/v1/completions", "bobs-key", {"prompt": 1.5}), 400)
        wait_until(lambda: self.lines("status=400 .*client=bob"), "bob's line")

    def test_answers_that_no_chain_computes(self):
        body = {"prompt": "x", "max_tokens": 0, "echo": True}
        self.check("status=200 .*chain=- .*client=carol", lambda: self.assertEqual(self.ask("/v1/completions", "carols-key", body), 200))

    def test_requests_that_are_served_all_have_a_line(self):
        for _ in range(20):
            self.assertEqual(self.ask("/v1/completions", "bobs-key", {"prompt": "x", "max_tokens": 1}), 200)
        wait_until(lambda: len(self.lines("status=200 .*client=bob")) == 20, "each has one")

    def test_what_is_missing_is_counted(self):
        self.check("status=404 .*client=carol", lambda: self.ask("/nowhere", "carols-key"))

        def last():
            self.ask("/nowhere", "carols-key")
            return [line for line in self.lines("status=404 .*client=carol") if not line.endswith("left_out=0")]
        wait_until(last, "a line says what is missing")


class Unread(unittest.TestCase):
    def test_a_log_that_nobody_reads_stops_nobody(self):
        """Served before and after, and told in the end how many lines are missing."""
        with UnreadLogFleet(workers=1, gateway_flags=("--log-level", "debug")) as fleet:
            fleet.block()
            for _ in range(400):
                self.assertEqual(fleet.get("/livez", timeout=60)[0], 200)
            body = json.dumps({"prompt": "Once", "max_tokens": 2}).encode()
            request = urllib.request.Request(fleet.url + "/v1/completions", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                self.assertEqual(answer.status, 200)
            text = fleet.read_until(b"route=/v1/completions")
            self.assertGreaterEqual(text.count("route=/livez"), 400)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
