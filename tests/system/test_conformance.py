"""What a hostile reader of the API's rows tries, where the other files do not: fleets that are smaller than the model, requests that no
fleet could ever admit, odd bodies."""

import pathlib
import re
import sys
import tempfile
import unittest

from api_keys import key_line, write_private
from fleet import Fleet
from gguf_keys import layer_count
from programs import need_model, run_tests, wait_until
from raw_http import Connection, ask, request
from stream import Stream

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
ASK = [{"role": "user", "content": "Say hi."}]



class FleetTest(unittest.TestCase):
    workers = 1
    gateway_flags = ()
    worker_flags = ()

    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(cls.workers, cls.gateway_flags, cls.worker_flags).__enter__()
        cls.port = cls.fleet.port

    @classmethod
    def tearDownClass(cls):
        cls.fleet.__exit__(None, None, None)

    def chat(self, headers=(), **fields):
        return ask(self.port, "POST", CHAT, {"messages": ASK, "temperature": 0, **fields}, headers)

    def complete(self, **fields):
        return ask(self.port, "POST", COMPLETIONS, {"prompt": "Hi", "temperature": 0, **fields})

    def refused(self, reply, param, code=None, status=400):
        self.assertEqual(reply.status, status, reply.body)
        error = reply.error()
        self.assertEqual((error["param"], error["type"]), (param, "invalid_request_error"), error)
        if code:
            self.assertEqual(error["code"], code)
        return error


class SmallCaches(FleetTest):
    """The workers' KV caches hold fewer positions than the model's context, and few sequences find a place."""

    workers = 2
    gateway_flags = ("--max-sequences", "1", "--max-queue", "1")
    worker_flags = ("--kv-bytes", str(layer_count(need_model()) << 18))

    def positions(self):
        return min(stage["pages_total"] * stage["page_positions"] for stage in self.fleet.fleet_state()["queue"]["kv"])

    def test_a_chat_without_a_length_gets_the_room_there_is(self):
        self.assertLess(self.positions(), 8192)
        self.assertEqual(self.chat().status, 200)
        usage = self.chat(ignore_eos=True, temperature=1, seed=1).json()["usage"]
        self.assertEqual(usage["total_tokens"], self.positions())

    def test_too_long_for_the_caches_is_told_as_too_long_for_the_context(self):
        long = [{"role": "user", "content": "word " * self.positions()}]
        for stream in (False, True):
            error = self.refused(self.chat(messages=long, stream=stream), "messages", "context_length_exceeded")
            self.assertTrue(error["message"].startswith(f"This model's maximum context length is {self.positions()} tokens"), error)
            self.refused(self.complete(prompt=[5] * self.positions(), stream=stream), "prompt", "context_length_exceeded")

    def test_what_could_never_be_admitted_is_no_reason_to_try_again(self):
        self.refused(self.chat(n=3, max_tokens=2), "n")
        self.refused(self.complete(prompt=["a"] * 3, max_tokens=2), "prompt")
        self.refused(self.complete(prompt=["a"] * 2, n=2, max_tokens=2), "prompt")
        self.assertEqual(self.complete(prompt=["a"] * 2, max_tokens=2).status, 200)
        self.assertEqual(self.chat(n=2, max_tokens=2).status, 200)


class Headers(FleetTest):
    gateway_flags = ("--max-sequences", "3", "--max-queue", "4")

    def test_room(self):
        kinds = [f"x-ratelimit-{figure}-{what}" for what in ("requests", "tokens") for figure in ("limit", "remaining", "reset")]
        whole = self.chat(max_tokens=1).headers
        self.assertEqual(whole["x-ratelimit-limit-requests"], "7")
        self.assertIn(whole["x-ratelimit-remaining-requests"], ("6", "7"))  # its own place may not be free yet
        with Stream(self.port, "Once", 2000) as stream:
            stream.read(2)
            for reply in (self.chat(max_tokens=1), self.chat(max_tokens=1, stream=True), self.chat(temperature=3)):
                self.assertEqual([name for name in kinds if name not in reply.headers], [])
                self.assertLess(int(reply.headers["x-ratelimit-remaining-requests"]), 7)
                tokens = [int(reply.headers[f"x-ratelimit-{figure}-tokens"]) for figure in ("limit", "remaining")]
                self.assertIn((tokens[0] - tokens[1]) // 64, range(1, 2000 // 64))  # pages are taken as the sequence grows
                self.assertRegex(reply.headers["x-ratelimit-reset-tokens"], r"\A[1-9][0-9]*ms\Z")
        self.assertNotIn(kinds[0], ask(self.port, "GET", "/v1/models").headers)


    def test_the_log_tells_whose_answer_it_was(self):
        with Connection(self.port) as connection:
            fields = {"messages": ASK, "max_tokens": 1}
            connection.send(request("POST", CHAT, fields, headers=(("x-request-id", "mine"),)))
            reply = connection.reply()
            peer = "{}:{}".format(*connection.socket.getsockname())
        epoch = self.fleet.fleet_state()["chains"][0]["epoch"]
        line = wait_until(lambda: re.search(r"api: request .* id=mine left_out=", self.fleet.gateway.log_text(), re.M), "it is logged")[0]
        self.assertIn(f" answer={reply.json()['id']} chain=main epoch={epoch} client=- peer={peer} id=mine ", line)


class Keys(FleetTest):
    """Behind --api-key-file nothing but the operators' signs of life is told without the key; the fleet itself needs none."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="longhaul-key-")
        path = pathlib.Path(cls.folder.name) / "keys"
        cls.gateway_flags = ("--api-key-file", write_private(path, key_line("operator", "sk-CANARY", "admin")))
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def test_key(self):
        for key, status in (("sk-CANARY", 200), ("sk-canary", 401), ("", 401), (None, 401)):
            headers = () if key is None else (("Authorization", f"Bearer {key}"),)
            for path in ("/v1/models", "/models", "/fleet", "/version", "/v1/models/SmolLM2-135M-Instruct.Q4_1"):
                reply = ask(self.port, "GET", path, None, headers)
                self.assertEqual(reply.status, status, (path, key))
                if status == 401:
                    self.assertEqual(reply.error()["code"], "invalid_api_key")
                    self.assertIn("www-authenticate", reply.headers)
            self.assertEqual(self.chat(headers, max_tokens=1).status, status)
        for path in ("/health", "/livez", "/readyz"):
            self.assertEqual(ask(self.port, "GET", path).status, 200)
        self.assertNotIn("CANARY", self.fleet.gateway.log_text())


class Bodies(FleetTest):
    def test_compressed_bodies_are_refused(self):
        for coding, status in (("gzip", 400), ("br", 415), ("identity", 200), ("Identity", 200)):
            self.assertEqual(self.chat((("Content-Encoding", coding),), max_tokens=1).status, status, coding)

    def test_long_targets(self):
        for length in (8193, 9000, 40000, 60000):
            reply = ask(self.port, "GET", "/v1/models?" + "a" * (length - 11))
            self.refused(reply, None, status=414)
        self.assertEqual(ask(self.port, "GET", "/v1/models?" + "a" * (8192 - 11)).status, 200)
        self.refused(ask(self.port, "GET", "/v1/models", None, (("X", "a" * 33000),)), None, status=431)

    def test_tiny_numbers(self):
        """Too small for a float, and still above nought: the likeliest token, not none and not a NaN."""
        greedy = self.chat(max_tokens=6).json()["choices"]
        for fields in ({"temperature": 1e-40}, {"temperature": 1e-300}, {"temperature": 2, "top_p": 1e-300}):
            self.assertEqual(self.chat(max_tokens=6, **fields).json()["choices"], greedy, fields)


if __name__ == "__main__":
    run_tests(sys.modules[__name__], at_once=2)
