"""Anthropic's Messages API with its own client library: whole and streaming, thinking, tools, stops, counting, errors and keys; over the scripted
engine, which says what the prompt tells it to say, byte by byte."""

import json
import pathlib
import sys
import tempfile
import unittest

from api_keys import key_line, write_private
from programs import run_tests, wait_until
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
        self.refused(kind, "'tool_choice'", tools=[{"type": "web_search_20250305", "name": "web_search"}], tool_choice={"type": "tool", "name": "web_search"})
        image = {"type": "image", "source": {"type": "url", "url": "http://127.0.0.1/x"}}
        self.refused(kind, "'messages[0].content[0].type'", messages=[{"role": "user", "content": [image]}])
        self.refused(kind, "'max_tokens'", max_tokens=0)
        self.refused(kind, "'tool_choice'", tool_choice={"type": "any"})
        self.refused(kind, "prompt is too long: ", messages=[{"role": "user", "content": "x" * 60000}])
        self.refused("not_found_error", "does not exist", status=404, model="claude-9")
        self.refused("overloaded_error", "", status=503, messages=[{"role": "user", "content": "@@refuse=unavailable"}])

    def test_what_changes_nothing_is_left_out(self):
        """Told in the log once, and done nothing with; the answer says that no edit was made."""
        edits = {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}
        search = {"type": "web_search_20250305", "name": "web_search"}
        plain = self.ask("Hi", tools=[WEATHER])
        for _ in range(2):
            whole = self.ask("Hi", tools=[search, WEATHER], extra_body=edits)
            self.assertEqual((outline(whole), whole.usage.input_tokens), (outline(plain), plain.usage.input_tokens))
            self.assertEqual(whole.context_management, {"applied_edits": []})
        got = list(self.client.messages.create(**self.fields("Hi", stream=True, extra_body=edits)))
        self.assertEqual(got[-2].context_management, {"applied_edits": []})
        self.assertFalse(hasattr(plain, "context_management"))
        counted = ask(self.gateway.port, "POST", "/v1/messages/count_tokens", {**self.fields("Hi"), **edits}).json()
        self.assertEqual(counted["context_management"], {"original_input_tokens": counted["input_tokens"]})
        told = [f'is left out kind="{kind}"' for kind in ("context_management", "tools[] of type web_search_20250305")]
        wait_until(lambda: all(text in self.gateway.program.log_text() for text in told), "what was left out is told")
        self.assertEqual([self.gateway.program.log_text().count(text) for text in told], [1, 1])

    def test_thoughts_may_be_omitted(self):
        for kind in ({"type": "adaptive"}, {"type": "enabled", "budget_tokens": 1024}):
            self.check("<think>Hm, well.</think>Yes.", [("text", "Yes.")], thinking={**kind, "display": "omitted"})
        self.check("<think>Hm.</think>" + BERNE, [("tool_use", ("weather", {"city": "Berne"}))], "tool_use", tools=[WEATHER],
                   thinking={"type": "adaptive", "display": "omitted"})

    def test_it_goes_on_to_the_end_of_the_context(self):
        """More tokens than there is room for: as many as there are; the prompt itself must fit."""
        said = "x" * 1000
        room = 4096 - self.client.messages.count_tokens(model="tests/tiny-llama", messages=self.fields(said)["messages"]).input_tokens
        filler = "y" * (room - 10)
        messages = [{"role": "user", "content": filler}, *self.fields(said)["messages"]]
        room = 4096 - self.client.messages.count_tokens(model="tests/tiny-llama", messages=messages).input_tokens
        if room < 1:
            messages[0]["content"] = filler[:room - 11]
            room = 4096 - self.client.messages.count_tokens(model="tests/tiny-llama", messages=messages).input_tokens
        whole = self.client.messages.create(model="tests/tiny-llama", max_tokens=32000, messages=messages, timeout=60)
        self.assertEqual((whole.stop_reason, whole.usage.output_tokens), ("model_context_window_exceeded", room))
        chat = ask(self.gateway.port, "POST", "/v1/chat/completions", {"max_tokens": 32000, "messages": messages}).json()
        self.assertEqual((chat["choices"][0]["finish_reason"], chat["usage"]["completion_tokens"]), ("length", room))

    def test_a_bill_is_no_part_of_the_prompt(self):
        def count(*texts):
            return self.client.messages.count_tokens(model="tests/tiny-llama", messages=[{"role": "user", "content": "x"}],
                                                     system=[{"type": "text", "text": text} for text in texts]).input_tokens
        self.assertEqual(count("x-anthropic-billing-header: cc_version=2.1; cch=00000;", "Be brief."), count("Be brief."))
        self.assertEqual(count("x-anthropic-billing-header: cch=12345678;"), self.client.messages.count_tokens(
            model="tests/tiny-llama", messages=[{"role": "user", "content": "x"}]).input_tokens)
        self.assertGreater(count("Be brief.", "x-anthropic-billing-header: no first block"), count("Be brief."))

    def test_models_in_its_own_words(self):
        page = self.client.models.list(limit=1000)
        model, last = page.data[0], page.data[-1]
        self.assertEqual((model.id, model.type, model.display_name), ("tests/tiny-llama", "model", "tests/tiny-llama"))
        self.assertEqual((page.has_more, page.first_id, page.last_id), (False, model.id, last.id))
        self.assertEqual(self.client.models.retrieve(model.id).created_at, model.created_at)
        with self.assertRaises(anthropic.NotFoundError) as raised:
            self.client.models.retrieve("claude-9")
        self.assertEqual(raised.exception.body["error"]["type"], "not_found_error")
        self.assertEqual(ask(self.gateway.port, "GET", "/v1/models").json()["object"], "list")

    def test_names_of_tools(self):
        """As Claude Code gives them to servers' tools."""
        name = "mcp__files.example/" + "x" * 100 + "/read"
        tool = {**WEATHER, "name": name}
        use = [("tool_use", (name, {"city": "Berne"}))]
        self.check(call(name, {"city": "Berne"}), use, "tool_use", tools=[tool])
        self.check(call(name, {"city": "Berne"}), use, "tool_use", tools=[tool], tool_choice={"type": "tool", "name": name})

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
