"""Ollama's routes: whole answers and streams of lines, thoughts, calls, what is asked of nobody, errors and keys, over the scripted engine, which says
what the prompt tells it to say; and the gateway's second address."""

import json
import pathlib
import re
import sys
import tempfile
import unittest

from api_keys import key_line, write_private
from fleet import Fleet
from programs import free_port, run_tests, wait_until
from raw_http import Connection, ask
from test_http_raw import Gateway
from test_responses import TEMPLATE, call, script

MODEL = "tests/tiny-llama"
KEY = "sk-lh-of-a-test"
TOOL = {"type": "function", "function": {"name": "weather", "description": "Of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
DURATIONS = ("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration")


def lines(reply):
    assert reply.status == 200 and reply.headers["content-type"] == "application/x-ndjson", (reply.status, reply.headers)
    assert reply.body.endswith(b"\n"), reply.body[-80:]
    return [json.loads(line) for line in reply.body.decode().splitlines()]


class Scripted(unittest.TestCase):
    flags = ()

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="longhaul-ollama-"))
        path = pathlib.Path(folder) / "template.jinja"
        path.write_text(TEMPLATE)
        cls.gateway = Gateway("--chat-template", str(path), "--keep-alive-ms", "200", *cls.flags)
        cls.addClassCleanup(cls.gateway.stop)

    def ask(self, method, path, body=None, headers=()):
        return ask(self.gateway.port, method, path, body, headers)

    def chat(self, said, **more):
        options = {"num_predict": len(said.encode()) + 1, **more.pop("options", {})}
        return self.ask("POST", "/api/chat", {"model": MODEL, "messages": [{"role": "user", "content": script(said)}], "options": options, **more})

    def check(self, said, content, reason="stop", thinking=None, calls=None, **more):
        """Whole and streamed, which must be the same."""
        whole = self.chat(said, stream=False, **more).json()
        *parts, last = lines(self.chat(said, **more))
        for answer in (whole, last):
            self.assertEqual((answer["model"], answer["done"], answer["done_reason"], answer["message"]["role"]), (MODEL, True, reason, "assistant"))
            self.assertRegex(answer["created_at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
            for name in DURATIONS:
                self.assertIsInstance(answer[name], int)
            self.assertGreaterEqual(answer["total_duration"], answer["prompt_eval_duration"] + answer["eval_duration"])
        self.assertEqual({part["done"] for part in parts} - {False}, set())
        self.assertEqual(last["message"], {"role": "assistant", "content": ""})
        message = {"role": "assistant", "content": content}
        self.assertEqual((whole["message"]["content"], whole["message"].get("thinking")), (content, thinking))
        self.assertEqual("".join(part["message"]["content"] for part in parts), message["content"])
        self.assertEqual("".join(part["message"].get("thinking", "") for part in parts), thinking or "")
        streamed = [call for part in parts for call in part["message"].get("tool_calls", [])]
        for found in (whole["message"].get("tool_calls", []), streamed):
            self.assertEqual([(call["function"]["name"], call["function"]["arguments"]) for call in found], calls or [])
        return whole


class Answers(Scripted):
    def test_text_and_what_ends_it(self):
        whole = self.check("Hi there.", "Hi there.")
        self.assertEqual(whole["eval_count"], len("Hi there."))
        self.check("Hi there.", "Hi", "length", options={"num_predict": 2})
        self.check("Hi there.", "Hi there.", options={"num_predict": -2})
        self.check("Hi there.", "Hi t", options={"stop": ["he"]})
        self.check("", "")

    def test_a_bound_beyond_the_context_is_none(self):
        self.check("Hi.", "Hi.", options={"num_predict": 1 << 30})

    def test_thoughts(self):
        self.check("<think>Hm, well.</think>Yes.", "Yes.", thinking="Hm, well.", think=True)

    def test_calls(self):
        berne, rome = call("weather", {"city": "Berne"}), call("weather", {"city": "Rome"})
        self.check("Wait." + berne + rome, "Wait.", calls=[("weather", {"city": "Berne"}), ("weather", {"city": "Rome"})], tools=[TOOL])

    def test_log_probabilities(self):
        for said in ("Hi.", "<think>Hm</think>Hi."):
            whole = self.chat(said, stream=False, logprobs=True, top_logprobs=2).json()
            streamed = [entry for part in lines(self.chat(said, logprobs=True, top_logprobs=2)) for entry in part.get("logprobs", [])]
            self.assertEqual(streamed, whole["logprobs"])
            self.assertEqual(("".join(entry["token"] for entry in streamed), {entry["logprob"] for entry in streamed}), (said, {-0.25}))
        self.assertNotIn("logprobs", self.chat("Hi.", stream=False).json())

    def test_generate(self):
        body = {"model": MODEL + ":latest", "prompt": script("<think>Hm</think>Hi."), "system": "s", "options": {"num_predict": 40}}
        whole = self.ask("POST", "/api/generate", {**body, "stream": False}).json()
        self.assertEqual((whole["response"], whole["thinking"], whole["done_reason"]), ("Hi.", "Hm", "stop"))
        *parts, last = lines(self.ask("POST", "/api/generate", body))
        self.assertEqual("".join(part["response"] for part in parts), "Hi.")
        self.assertEqual((last["response"], last["done"]), ("", True))
        raw = self.ask("POST", "/api/generate", {**body, "system": "", "raw": True, "stream": False}).json()
        self.assertEqual(raw["response"], "<think>Hm</think>Hi.")
        self.assertLess(raw["prompt_eval_count"], whole["prompt_eval_count"])

    def test_silence_is_an_object(self):
        reply = self.ask("POST", "/api/chat", {"messages": [{"role": "user", "content": "@@first_ms=900 text=Hi."}]})
        first, *rest = lines(reply)
        self.assertEqual((first["message"]["content"], first["done"]), ("", False))
        self.assertEqual("".join(part["message"]["content"] for part in rest), "Hi.")

    def test_a_stream_that_fails_ends_with_the_error(self):
        *parts, last = lines(self.ask("POST", "/api/chat", {"messages": [{"role": "user", "content": "@@fail_after=3 text=Hi there."}]}))
        self.assertEqual("".join(part["message"]["content"] for part in parts), "Hi ")
        self.assertEqual(set(last), {"error"})

    def test_what_asks_nothing_is_answered_at_once(self):
        before = self.gateway.counts()
        for path, body in (("/api/chat", {"model": MODEL}), ("/api/generate", {"model": MODEL, "keep_alive": 0}), ("/api/generate", {"prompt": ""})):
            answer = self.ask("POST", path, body).json()
            self.assertEqual((answer["done"], answer["done_reason"]), (True, "load"))
        self.assertEqual(self.gateway.counts(), before)

    def test_what_is_left_out_is_logged(self):
        self.chat("Hi.", keep_alive="5m", options={"num_ctx": 512})
        wait_until(lambda: 'kind="options.num_ctx" route=/api/chat' in self.gateway.program.log_text(), "it is logged")


class Refusals(Scripted):
    def refused(self, status, said, reply):
        self.assertEqual(reply.status, status, reply.body)
        self.assertEqual(set(reply.json()), {"error"})
        self.assertIn(said, reply.json()["error"])

    def test_errors_are_in_its_words(self):
        self.refused(404, "model not found", self.chat("Hi.", model="other"))
        self.refused(404, "model not found", self.ask("POST", "/api/show", {"model": "other"}))
        self.refused(404, "model not found", self.ask("POST", "/api/embed", {"model": "other", "input": "x"}))
        self.refused(400, "options.temperature", self.chat("Hi.", options={"temperature": "warm"}))
        self.refused(405, "POST", self.ask("GET", "/api/chat"))
        self.refused(400, "", self.ask("POST", "/api/chat", b"{"))

    def test_models_are_the_operators(self):
        self.refused(501, "longhaul-gateway pull", self.ask("POST", "/api/pull", {"model": "other"}))
        for method, path in (("POST", "/api/push"), ("POST", "/api/create"), ("POST", "/api/copy"), ("DELETE", "/api/delete")):
            self.refused(501, "--model", self.ask(method, path, {"model": "other"}))

    def test_json_by_any_name_but_of_a_page(self):
        body = json.dumps({"prompt": script("Hi."), "stream": False}).encode()
        for headers, status in ((b"", 200), (b"Content-Type: application/x-www-form-urlencoded\r\n", 200),
                                (b"Content-Type: text/plain\r\nOrigin: https://evil.example\r\n", 415)):
            with Connection(self.gateway.port) as connection:
                connection.send(b"POST /api/generate HTTP/1.1\r\nHost: localhost\r\n" + headers + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                self.assertEqual(connection.reply("POST").status, status, headers)

    def test_the_root_is_not_ollamas_here(self):
        self.assertEqual(self.ask("GET", "/").status, 404)


class Lists(Scripted):
    def test_the_model(self):
        listed, *others = self.ask("GET", "/api/tags").json()["models"]
        self.assertEqual((listed["name"], listed["model"]), (MODEL + ":latest", MODEL + ":latest"))
        self.assertEqual({model["digest"] for model in others} - {listed["digest"]}, set())
        (running,) = self.ask("GET", "/api/ps").json()["models"]
        self.assertEqual(running["name"], listed["name"])
        self.assertIn("version", self.ask("GET", "/api/version").json())
        for named in ({"model": MODEL}, {"name": MODEL + ":latest", "verbose": True}):
            shown = self.ask("POST", "/api/show", named).json()
            self.assertEqual(shown["capabilities"][:2], ["completion", "tools"])
            self.assertEqual(shown["template"], TEMPLATE)


class SecondAddress(unittest.TestCase):
    def test_it_is_the_same_api(self):
        port = free_port()
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="longhaul-ollama-"))
        keys = pathlib.Path(folder) / "keys"
        write_private(keys, key_line("a-test", KEY))
        with Fleet(workers=1, gateway_flags=["--ollama-listen", f"127.0.0.1:{port}", "--api-key-file", str(keys)]) as fleet:
            greeting = ask(port, "GET", "/")
            self.assertEqual((greeting.status, greeting.body), (200, b"Ollama is running"))
            self.assertEqual(ask(port, "HEAD", "/").status, 200)
            self.assertEqual(ask(fleet.port, "GET", "/").status, 401)
            self.assertEqual(ask(port, "GET", "/api/tags").status, 401)
            shown = [("Authorization", f"Bearer {KEY}")]
            (listed,) = ask(port, "GET", "/api/tags", headers=shown).json()["models"]
            self.assertEqual(listed["size"], pathlib.Path(fleet.model).stat().st_size)
            body = {"model": listed["name"], "messages": [{"role": "user", "content": "Hi"}], "options": {"temperature": 0, "num_predict": 8}, "stream": False}
            answer = ask(port, "POST", "/api/chat", body, shown).json()
            self.assertEqual(answer["message"], ask(fleet.port, "POST", "/api/chat", body, shown).json()["message"])
            chat = ask(port, "POST", "/v1/chat/completions", {"messages": body["messages"], "temperature": 0, "max_tokens": 8}, shown).json()
            self.assertEqual(chat["choices"][0]["message"]["content"], answer["message"]["content"])
            self.assertEqual(set(ask(port, "GET", "/nowhere", headers=shown).json()), {"error"})
            wait_until(lambda: re.search(rf"ollama_port={port}\b", fleet.gateway.log_text()), "it is logged")


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
