"""OpenAI's Responses API with the client library, its validation strict: whole and streaming, reasoning, tools, forms, and what is refused; over the
scripted engine, which says what the prompt tells it to say, byte by byte."""

import json
import pathlib
import sys
import tempfile
import unittest

import openai

from programs import run_tests, wait_until
from raw_http import ask, events
from test_http_raw import Gateway

TEMPLATE = """{%- for tool in tools or [] %}<tool>{{ tool.function | tojson }}</tool>
{% endfor -%}
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif %}{{ (message.content or "") if loop.last else (message.content or "").replace("@@", "") }}{% for call in message.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

WEATHER = {"type": "function", "name": "weather", "description": "Of a city", "strict": False, "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}


def call(name, arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


def script(said):
    escaped = said.replace("\n", "\\x0a")
    return f"@@text={escaped}"


class ResponsesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="longhaul-responses-"))
        path = pathlib.Path(folder) / "template.jinja"
        path.write_text(TEMPLATE)
        cls.gateway = Gateway("--chat-template", str(path))
        cls.addClassCleanup(cls.gateway.stop)
        cls.url = f"http://127.0.0.1:{cls.gateway.port}/v1"
        cls.client = cls.enterClassContext(openai.OpenAI(base_url=cls.url, api_key="none", max_retries=0, _strict_response_validation=True))

    def fields(self, said, **more):
        return {"model": "tests/tiny-llama", "temperature": 0, "input": script(said), "max_output_tokens": len(said.encode()) + 1, **more}

    def ask(self, said, **more):
        return self.client.responses.create(**self.fields(said, **more))

    def streamed(self, said, **more):
        """The events, once their order is known to be right, and the response of the last one."""
        got = list(self.ask(said, stream=True, **more))
        self.assertEqual([event.sequence_number for event in got], list(range(len(got))))
        self.assertEqual([event.type for event in got[:2]], ["response.created", "response.in_progress"])
        self.assertIn(got[-1].type, ("response.completed", "response.incomplete"))
        open_item, texts = None, {}
        for event in got[2:-1]:
            kind = event.type.removeprefix("response.")
            if kind == "output_item.added":
                self.assertIsNone(open_item)
                open_item = event.output_index
                texts[open_item] = ""
                item_id = event.item.id
            else:
                self.assertEqual(event.output_index, open_item, "one item at a time")
            if kind.endswith(".delta"):
                texts[open_item] += event.delta
            if kind in ("output_text.done", "reasoning_text.done"):
                self.assertEqual(event.text, texts[open_item])
            if kind == "function_call_arguments.done":
                self.assertEqual(event.arguments, texts[open_item])
            if kind == "custom_tool_call_input.done":
                self.assertEqual(event.input, texts[open_item])
            if kind == "output_item.done":
                self.assertEqual((event.item.id, event.item), (item_id, got[-1].response.output[open_item]))
                open_item = None
            elif kind != "output_item.added":
                self.assertEqual(event.item_id, item_id)
        self.assertIsNone(open_item)
        return [event.type.removeprefix("response.") for event in got], got[-1].response

    def refused(self, param, **fields):
        with self.assertRaises(openai.BadRequestError) as raised:
            self.client.responses.create(**{**self.fields("x"), **fields})
        self.assertEqual(raised.exception.param, param, raised.exception.message)
        return raised.exception


def outline(response):
    def content(item):
        if item.type == "function_call":
            return item.name, json.loads(item.arguments)
        return [part.text for part in item.content]
    return [(item.type, content(item)) for item in response.output]


class Responses(ResponsesTest):
    def check(self, said, items, status="completed", **more):
        whole = self.ask(said, **more)
        _, streamed = self.streamed(said, **more)
        for response in (whole, streamed):
            self.assertEqual((outline(response), response.status), (items, status), said)
        return whole

    def test_text(self):
        whole = self.check("Hi there.", [("message", ["Hi there."])])
        self.assertEqual(whole.output_text, "Hi there.")
        self.assertTrue(whole.id.startswith("resp_") and whole.output[0].id.startswith("msg_"))
        self.assertEqual(whole.usage.total_tokens, whole.usage.input_tokens + whole.usage.output_tokens)
        self.check("", [("message", [""])])

    def test_order_of_events(self):
        names, _ = self.streamed("ab")
        once = list(dict.fromkeys(names))
        self.assertEqual(once, ["created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.done",
                                "content_part.done", "output_item.done", "completed"])
        body = self.fields("ab", stream=True)
        raw = ask(self.gateway.port, "POST", "/v1/responses", body).body
        self.assertNotIn(b"[DONE]", raw)
        for line, data in zip(*[iter(line for line in raw.decode().split("\n") if line)] * 2):
            self.assertEqual(line, "event: " + json.loads(data.removeprefix("data: "))["type"])

    def test_what_is_cut_is_incomplete(self):
        whole = self.check("Hi there.", [("message", ["Hi"])], "incomplete", max_output_tokens=2)
        self.assertEqual((whole.incomplete_details.reason, whole.output[0].status), ("max_output_tokens", "incomplete"))
        self.assertEqual(self.streamed("Hi there.", max_output_tokens=2)[0][-1], "incomplete")

    def test_thoughts_are_items(self):
        whole = self.check("<think>Hm, well.</think>Yes.", [("reasoning", ["Hm, well."]), ("message", ["Yes."])])
        self.assertGreater(whole.usage.output_tokens_details.reasoning_tokens, 0)
        names, _ = self.streamed("<think>Hm</think>Yes.")
        self.assertLess(names.index("reasoning_text.done"), names.index("output_text.delta"))

    def test_calls_are_items(self):
        berne = call("weather", {"city": "Berne"})
        self.check(berne, [("function_call", ("weather", {"city": "Berne"}))], tools=[WEATHER])
        self.check("Let me see." + berne + "\n" + berne, [("message", ["Let me see."])] + [("function_call", ("weather", {"city": "Berne"}))] * 2,
                   tools=[WEATHER])
        self.check(berne + berne, [("function_call", ("weather", {"city": "Berne"}))], tools=[WEATHER], parallel_tool_calls=False)
        self.check(berne, [("message", [berne])], tools=[WEATHER], tool_choice="none")
        names, _ = self.streamed(berne, tools=[WEATHER])
        self.assertEqual(list(dict.fromkeys(names))[2:-1],
                         ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"])

    def test_what_is_asked_is_repeated(self):
        more = {"instructions": "Be brief.", "metadata": {"a": "b"}, "tools": [WEATHER], "tool_choice": {"type": "function", "name": "weather"}, "top_p": 0.5}
        for response in (self.ask("x", **more), self.streamed("x", **more)[1]):
            self.assertEqual((response.instructions, response.metadata, response.top_p, response.tools[0].name, response.tool_choice.name, response.store),
                             ("Be brief.", {"a": "b"}, 0.5, "weather", "weather", False))

    def test_logprobs_where_they_are_asked_for(self):
        whole = self.ask("Hi", include=["message.output_text.logprobs"], top_logprobs=2)
        self.assertEqual([len(one.top_logprobs) for one in whole.output[0].content[0].logprobs], [2, 2])
        self.assertEqual([one.token for one in whole.output[0].content[0].logprobs], ["H", "i"])
        _, streamed = self.streamed("Hi", include=["message.output_text.logprobs"], top_logprobs=2)
        self.assertEqual(streamed.output, [whole.output[0].model_copy(update={"id": streamed.output[0].id})])

    def test_the_streaming_helper(self):
        with self.client.responses.stream(**self.fields("<think>a</think>Hi" + call("weather", {"city": "x"}), tools=[WEATHER])) as stream:
            texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
            final = stream.get_final_response()
        self.assertEqual(("".join(texts), outline(final)),
                         ("Hi", [("reasoning", ["a"]), ("message", ["Hi"]), ("function_call", ("weather", {"city": "x"}))]))

    def test_a_conversation_goes_on(self):
        said = "<think>Hm</think>Wait." + call("weather", {"city": "Berne"})
        first = self.ask(said, tools=[WEATHER])
        items = [{"role": "user", "content": "Rain?"}, *[item.model_dump(exclude_none=True) for item in first.output],
                 {"type": "function_call_output", "call_id": first.output[2].call_id, "output": "yes"},
                 {"role": "user", "content": [{"type": "input_text", "text": script("Good.")}]}]
        again = self.ask("Good.", input=items, instructions="Be brief.", tools=[WEATHER])
        self.assertEqual(outline(again), [("message", ["Good."])])
        chat = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Rain?"},
                             {"role": "assistant", "content": "Wait.", "reasoning_content": "Hm", "tool_calls": [
                                 {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Berne"}'}}]},
                             {"role": "tool", "tool_call_id": "c", "content": "yes"}, {"role": "user", "content": script("Good.")}],
                "tools": [{"type": "function", "function": {key: value for key, value in WEATHER.items() if key != "type"}}]}
        counted = ask(self.gateway.port, "POST", "/tokenize", chat).json()["count"]
        self.assertEqual(again.usage.input_tokens, counted, "it is the conversation that chat would have")

    def test_refused_by_name(self):
        self.refused("previous_response_id", previous_response_id="resp_1")
        self.refused("background", background=True)
        self.refused("input[0].type", input=[{"type": "item_reference", "id": "x"}])
        self.refused("input[0].content[0]", input=[{"role": "user", "content": [{"type": "input_image", "image_url": "http://127.0.0.1/x"}]}])
        self.refused("text.format", text={"format": {"type": "json_schema", "name": "n", "schema": {"not": {}}}})
        self.refused("max_output_tokens", max_output_tokens=0)
        self.assertEqual(self.refused("input", input="x" * 60000, max_output_tokens=5).code, "context_length_exceeded")
        self.ask("x", store=False, truncation="disabled", include=["reasoning.encrypted_content"])

    def test_what_changes_nothing_is_left_out(self):
        more = {"store": True, "truncation": "auto", "include": ["web_search_call.action.sources"], "tools": [{"type": "web_search"}, {"type": "local_shell"}]}
        self.assertEqual(outline(self.ask("x", **more)), [("message", ["x"])])
        text = wait_until(lambda: next((text for text in [self.gateway.program.log_text()] if 'kind="tools[] of type local_shell"' in text), None), "it is in the log")
        for kind in ("store", "truncation", "include[] of type web_search_call.action.sources", "tools[] of type web_search"):
            self.assertEqual(text.count(f'kind="{kind}"'), 1, kind)
        self.ask("x", **more)

    def test_custom_tools_take_a_text(self):
        tools = [{"type": "custom", "name": "patch", "description": "d"}, {"type": "namespace", "name": "mcp__a__", "description": "d", "tools": [WEATHER]}]
        said = call("patch", {"input": 'one\n"two"'}) + call("mcp__a__weather", {"city": "Berne"})
        for response in (self.ask(said, tools=tools), self.streamed(said, tools=tools)[1]):
            custom, function = response.output
            self.assertEqual((custom.type, custom.name, custom.input), ("custom_tool_call", "patch", 'one\n"two"'))
            self.assertEqual((function.type, function.name, function.namespace), ("function_call", "weather", "mcp__a__"))
        names, _ = self.streamed(said, tools=tools)
        self.assertEqual(list(dict.fromkeys(names))[2:6], ["output_item.added", "custom_tool_call_input.delta", "custom_tool_call_input.done", "output_item.done"])
        items = [{"role": "user", "content": "Well?"}, *[item.model_dump(exclude_none=True) for item in response.output],
                 {"type": "custom_tool_call_output", "call_id": custom.call_id, "output": "ok"},
                 {"type": "function_call_output", "call_id": function.call_id, "output": [{"type": "input_image", "image_url": "data:,x"}]},
                 {"type": "web_search_call", "id": "w", "status": "completed"}, {"type": "reasoning", "summary": [], "encrypted_content": "x"},
                 {"role": "user", "content": script("Good.")}]
        self.assertEqual(outline(self.ask("Good.", input=items, tools=tools)), [("message", ["Good."])])

    def test_input_is_counted(self):
        more = {"instructions": "Be brief.", "tools": [WEATHER]}
        counted = ask(self.gateway.port, "POST", "/v1/responses/input_tokens", {"input": script("x"), **more}).json()
        self.assertEqual(counted, {"object": "response.input_tokens", "input_tokens": self.ask("x", **more).usage.input_tokens})

    def test_a_failure_is_told(self):
        got = list(self.client.responses.create(model="tests/tiny-llama", input="@@fail_after=2 text=Hello", max_output_tokens=20, stream=True))
        self.assertEqual((got[-1].type, got[-1].response.status, got[-1].response.error.code), ("response.failed", "failed", "server_error"))


class Agents(ResponsesTest):
    """openai-agents over this API, where it is installed: a tool, its result, an answer."""

    def test_a_tool_is_run(self):
        try:
            import agents
        except ImportError:
            self.skipTest("the Python package openai-agents is not installed")
        client = openai.AsyncOpenAI(base_url=self.url, api_key="none", max_retries=0, _strict_response_validation=True)
        agents.set_tracing_disabled(True)

        @agents.function_tool(strict_mode=False)
        def weather(city: str) -> str:
            return script(f"Rain in {city}.")

        model = agents.OpenAIResponsesModel("tests/tiny-llama", client)
        agent = agents.Agent(name="a", instructions="Help.", model=model, tools=[weather])
        result = agents.Runner.run_sync(agent, script(call("weather", {"city": "Berne"})))
        self.assertEqual(result.final_output, "Rain in Berne.")


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
