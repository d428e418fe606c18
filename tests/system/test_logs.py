"""What the programs say in their logs, as JSON, and what the line of a request tells."""

import json
import re
import sys
import unittest
import urllib.request

from fleet import Fleet
from programs import run_tests, wait_until
from stream import Stream

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


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
