"""Anthropic's Messages API with its own client library: whole and streaming, thinking, tools, stops, counting, errors and keys; over the scripted
engine, which says what the prompt tells it to say, byte by byte."""

import json
import pathlib
import sys
import tempfile
import unittest

from api_keys import key_line, write_private
from programs import run_tests
from raw_http import ask
from test_http_raw import Gateway
from test_responses import TEMPLATE, call, script

try:
    import anthropic
except ImportError:
    print("skipped: the Python package anthropic is not installed")
    sys.exit(77)

WEATHER = {"name": "weather", "description": "Of a city", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
KEY = "sk-lh-of-a-test"
BERNE = call("weather", {"city": "Berne"})


class MessagesTest(unittest.TestCase):
    flags = ()

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="longhaul-anthropic-"))
        path = pathlib.Path(folder) / "template.jinja"
        path.write_text(TEMPLATE)
        cls.gateway = Gateway("--chat-template", str(path), *cls.flags)
        cls.addClassCleanup(cls.gateway.stop)
        cls.client = cls.enterClassContext(cls.client_of("none"))

    @classmethod
    def client_of(cls, key, **more):
        return anthropic.Anthropic(base_url=f"http://127.0.0.1:{cls.gateway.port}", api_key=key, max_retries=0, _strict_response_validation=True, **more)

    def fields(self, said, **more):
        return {"model": "tests/tiny-llama", "max_tokens": len(said.encode()) + 1, "messages": [{"role": "user", "content": script(said)}], **more}

    def ask(self, said, **more):
        return self.client.messages.create(**self.fields(said, **more))

    def streamed(self, said, **more):
        """The types of the events, whose order is known to be right, and the message that the client's helper puts together."""
        got = list(self.client.messages.create(**self.fields(said, stream=True, **more)))
        names = [event.type for event in got]
        self.assertEqual((names[0], names[-2:]), ("message_start", ["message_delta", "message_stop"]))
        open_block, count = None, 0
        for event in got[1:-2]:
            if event.type == "content_block_start":
                self.assertEqual((open_block, event.index), (None, count))
                open_block, count = event.index, count + 1
            else:
                self.assertEqual(event.index, open_block)
            if event.type == "content_block_stop":
                open_block = None
        self.assertIsNone(open_block)
        with self.client.messages.stream(**self.fields(said, **more)) as stream:
            message = stream.get_final_message()
        self.assertEqual(message.stop_reason, got[-2].delta.stop_reason)
        return names, message

    def refused(self, kind, said, status=400, **fields):
        with self.assertRaises(anthropic.APIStatusError) as raised:
            self.client.messages.create(**{**self.fields("x"), **fields})
        error = raised.exception
        self.assertEqual((error.status_code, error.body["type"], error.body["error"]["type"]), (status, "error", kind))
        self.assertIn(said, error.body["error"]["message"])
        self.assertTrue(error.request_id == error.body["request_id"] and error.request_id)


def outline(message):
    return [(block.type, {"text": lambda: block.text, "thinking": lambda: block.thinking, "tool_use": lambda: (block.name, block.input)}[block.type]())
            for block in message.content]


class Messages(MessagesTest):
    def check(self, said, blocks, reason="end_turn", **more):
        whole = self.ask(said, **more)
        _, streamed = self.streamed(said, **more)
        for message in (whole, streamed):
            self.assertEqual((outline(message), message.stop_reason), (blocks, reason), said)
        return whole

    def test_text(self):
        whole = self.check("Hi there.", [("text", "Hi there.")])
        self.assertEqual((whole.role, whole.type, whole.stop_sequence, whole.usage.output_tokens), ("assistant", "message", None, len("Hi there.")))
        self.assertTrue(whole.id.startswith("msg_"))
        self.check("", [])
        names, _ = self.streamed("ab")
        self.assertEqual(list(dict.fromkeys(names)), ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
                                                      "message_stop"])

    def test_what_ends_it(self):
        self.check("Hi there.", [("text", "Hi")], "max_tokens", max_tokens=2)
        whole = self.check("Hi there.", [("text", "Hi t")], "stop_sequence", stop_sequences=["x", "he"])
        self.assertEqual(whole.stop_sequence, "he")

    def test_thoughts_are_blocks(self):
        self.check("<think>Hm, well.</think>Yes.", [("thinking", "Hm, well."), ("text", "Yes.")], thinking={"type": "enabled", "budget_tokens": 1024})

    def test_calls_are_blocks(self):
        use = ("tool_use", ("weather", {"city": "Berne"}))
        self.check(BERNE, [use], "tool_use", tools=[WEATHER])
        self.check("Let me see." + BERNE + BERNE, [("text", "Let me see."), use, use], "tool_use", tools=[WEATHER])
        self.check(BERNE + BERNE, [use], "tool_use", tools=[WEATHER], tool_choice={"type": "auto", "disable_parallel_tool_use": True})
        self.check(BERNE, [("text", BERNE)], tools=[WEATHER], tool_choice={"type": "none"})
        cut = self.ask(BERNE, tools=[WEATHER], max_tokens=BERNE.index("Berne") + 3)
        self.assertEqual((outline(cut), cut.stop_reason), ([("tool_use", ("weather", {"INVALID_JSON": '{"city": "Ber'}))], "max_tokens"))

    def test_a_conversation_goes_on(self):
        first = self.ask("<think>Hm</think>Wait." + BERNE, tools=[WEATHER])
        messages = [{"role": "user", "content": "Rain?"}, {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": first.content[2].id, "content": [{"type": "text", "text": "yes"}]},
                                                 {"type": "text", "text": script("Good.")}]}]
        system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
        again = self.ask("Good.", messages=messages, system=system, tools=[WEATHER])
        self.assertEqual(outline(again), [("text", "Good.")])
        function = {"name": "weather", "description": "Of a city", "parameters": WEATHER["input_schema"]}
        chat = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Rain?"},
                             {"role": "assistant", "content": "Wait.", "reasoning_content": "Hm", "tool_calls": [
                                 {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Berne"}'}}]},
                             {"role": "tool", "tool_call_id": "c", "content": "yes"}, {"role": "user", "content": script("Good.")}],
                "tools": [{"type": "function", "function": function}]}
        wanted = ask(self.gateway.port, "POST", "/tokenize", chat).json()["count"]
        usage = again.usage
        self.assertEqual(usage.input_tokens + usage.cache_read_input_tokens, wanted, "it is the conversation that chat would have")
        counted = self.client.messages.count_tokens(model="tests/tiny-llama", messages=messages, system=system, tools=[WEATHER])
        self.assertEqual(counted.input_tokens, wanted)

    def test_what_was_begun_goes_on(self):
        messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "The sky"}]
        body = {"messages": messages, "continue_final_message": True, "add_generation_prompt": False}
        wanted = ask(self.gateway.port, "POST", "/tokenize", body).json()["count"]
        self.assertEqual(self.client.messages.count_tokens(model="tests/tiny-llama", messages=messages).input_tokens, wanted)

    def test_refused_by_name(self):
        kind = "invalid_request_error"
        self.refused(kind, "'mcp_servers'", extra_body={"mcp_servers": [{"url": "http://127.0.0.1/"}]})
        self.refused(kind, "'tools[0]'", tools=[{"type": "web_search_20250305", "name": "web_search"}])
        image = {"type": "image", "source": {"type": "url", "url": "http://127.0.0.1/x"}}
        self.refused(kind, "'messages[0].content[0].type'", messages=[{"role": "user", "content": [image]}])
        self.refused(kind, "'max_tokens'", max_tokens=0)
        self.refused(kind, "'tool_choice'", tool_choice={"type": "any"})
        self.refused(kind, "prompt is too long: ", messages=[{"role": "user", "content": "x" * 60000}])
        self.refused("not_found_error", "does not exist", status=404, model="claude-9")
        self.refused("overloaded_error", "", status=503, messages=[{"role": "user", "content": "@@refuse=unavailable"}])

    def test_a_failure_is_told(self):
        with self.assertRaises(anthropic.APIError) as raised:
            list(self.client.messages.create(**self.fields("x", stream=True, messages=[{"role": "user", "content": "@@fail_after=2 text=Hello"}])))
        self.assertEqual(raised.exception.body["error"]["type"], "overloaded_error")

    def test_silence_is_pings(self):
        gateway = Gateway("--keep-alive-ms", "100")
        self.addCleanup(gateway.stop)
        body = self.fields("ab", stream=True, messages=[{"role": "user", "content": "@@interval_ms=250 text=ab"}])
        raw = ask(gateway.port, "POST", "/v1/messages", body, [("x-api-key", "k"), ("anthropic-version", "2023-06-01")]).body.decode()
        self.assertIn('event: ping\ndata: {"type":"ping"}\n\n', raw)
        self.assertLess(raw.index("event: message_start"), raw.index("event: ping"))
        self.assertEqual(json.loads(raw.strip().split("\n")[-1].removeprefix("data: ")), {"type": "message_stop"})


class Keys(MessagesTest):
    """The key under either header."""

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="longhaul-anthropic-keys-"))
        path = pathlib.Path(folder) / "keys"
        cls.flags = ("--api-key-file", write_private(path, key_line("me", KEY)))
        super().setUpClass()

    def test_x_api_key_and_bearer(self):
        for client in (self.client_of(KEY), self.client_of(None, auth_token=KEY)):
            self.assertEqual(outline(client.messages.create(**self.fields("Hi"))), [("text", "Hi")])
        for key in ("wrong", "x" * 4000):
            with self.assertRaises(anthropic.AuthenticationError) as raised:
                self.client_of(key).messages.create(**self.fields("Hi"))
            self.assertEqual(raised.exception.body["error"]["type"], "authentication_error")


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
