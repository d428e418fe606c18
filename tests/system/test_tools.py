"""Tools with the client library: told to the template, called in its format, whole and streaming; over the scripted engine, which says what the
prompt tells it to say, byte by byte."""

import json
import pathlib
import sys
import tempfile
import unittest

import jsonschema
import openai

from fleet import Fleet
from programs import is_sanitized, run_tests
from raw_http import ask
from test_http_raw import Gateway

TEMPLATE = """{%- for tool in tools or [] %}<tool>{{ tool.function | tojson }}</tool>
{% endfor -%}
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content or "" }}{% for call in message.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

WEATHER = {"type": "function", "function": {"name": "weather", "description": "Of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


def call(name, arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


class Tools(unittest.TestCase):
    template = TEMPLATE

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="longhaul-tools-"))
        path = pathlib.Path(folder) / "template.jinja"
        path.write_text(cls.template)
        cls.gateway = Gateway("--chat-template", str(path))
        cls.addClassCleanup(cls.gateway.stop)
        cls.client = cls.enterClassContext(openai.OpenAI(base_url=f"http://127.0.0.1:{cls.gateway.port}/v1", api_key="none", max_retries=0))

    def ask(self, said, **more):
        escaped = said.replace("\n", "\\x0a")
        more = {"tools": [WEATHER], "max_tokens": len(said.encode()) + 1, **more}
        return self.client.chat.completions.create(model="tests/tiny-llama", temperature=0,
                                                   messages=[{"role": "user", "content": f"@@text={escaped}"}], **more)

    def streamed(self, said, **more):
        """content, calls as (id, name, arguments), finish_reason; and that each call comes as clients expect it."""
        content, calls, finish = "", [], None
        for chunk in self.ask(said, stream=True, **more):
            for choice in chunk.choices:
                content += choice.delta.content or ""
                finish = choice.finish_reason or finish
                for delta in choice.delta.tool_calls or []:
                    if delta.id:
                        self.assertEqual((delta.index, delta.type, delta.function.arguments), (len(calls), "function", ""))
                        calls.append([delta.id, delta.function.name, ""])
                    else:
                        self.assertEqual((delta.index, delta.type, delta.function.name), (len(calls) - 1, None, None))
                        self.assertTrue(delta.function.arguments)
                        calls[-1][2] += delta.function.arguments
        return content or None, calls, finish

    def check(self, said, content, calls, finish="tool_calls", **more):
        answer = self.ask(said, **more).choices[0]
        got = [(one.function.name, json.loads(one.function.arguments)) for one in answer.message.tool_calls or []]
        self.assertEqual((answer.message.content, got, answer.finish_reason), (content, calls, finish), said)
        ids = [one.id for one in answer.message.tool_calls or []]
        text, streamed, ended = self.streamed(said, **more)
        self.assertEqual((text, [(name, json.loads(arguments)) for _, name, arguments in streamed], ended), (content, calls, finish), said)
        ids += [one[0] for one in streamed]
        self.assertEqual(len(ids), len(set(ids)), "ids are unique")

    def test_calls_are_told_apart(self):
        berne, paris = {"city": "Berne"}, {"city": "Paris \"}{\" é"}
        self.check(call("weather", berne), None, [("weather", berne)])
        self.check("Let me see.\n" + call("weather", berne) + "\n" + call("weather", paris), "Let me see.", [("weather", berne), ("weather", paris)])
        self.check("It rains.", "It rains.", [], finish="stop")
        self.check("<tool_call>no", "<tool_call>no", [], finish="stop")

    def test_one_call_where_one_is_wanted(self):
        said = call("weather", {"city": "a"}) + call("weather", {"city": "b"})
        self.check(said, None, [("weather", {"city": "a"})], parallel_tool_calls=False)

    def test_a_named_function_is_called_once(self):
        said = call("weather", {"city": "a"}) + "\n" + call("weather", {"city": "b"})
        named = {"type": "function", "function": {"name": "weather"}}
        self.check(said, None, [("weather", {"city": "a"})], tool_choice=named)
        self.check(said, None, [("weather", {"city": "a"}), ("weather", {"city": "b"})], tool_choice=named, parallel_tool_calls=True)

    def test_functions_are_called_in_elder_words(self):
        said, functions = call("weather", {"city": "Berne"}), [WEATHER["function"]]
        answer = self.ask(said, tools=openai.NOT_GIVEN, functions=functions, function_call="auto").choices[0]
        self.assertEqual((answer.finish_reason, answer.message.function_call.name, json.loads(answer.message.function_call.arguments)),
                         ("function_call", "weather", {"city": "Berne"}))
        self.assertIsNone(answer.message.tool_calls)
        name, arguments, finish = "", "", None
        for chunk in self.ask(said, stream=True, tools=openai.NOT_GIVEN, functions=functions):
            for choice in chunk.choices:
                if choice.delta.function_call:
                    name += choice.delta.function_call.name or ""
                    arguments += choice.delta.function_call.arguments or ""
                finish = choice.finish_reason or finish
        self.assertEqual((name, json.loads(arguments), finish), ("weather", {"city": "Berne"}, "function_call"))

    def test_custom_tools_take_a_text(self):
        patch = {"type": "custom", "custom": {"name": "patch", "description": "d", "format": {"type": "text"}}}
        tools = [{"type": "web_search"}, patch, WEATHER, {"type": "mcp", "server_label": "x"}]
        said, text = call("patch", {"input": 'one\n"two"'}) + call("weather", {"city": "Berne"}), 'one\n"two"'
        message = self.ask(said, tools=tools).choices[0].message
        custom, function = message.tool_calls
        self.assertEqual((custom.type, custom.custom.name, custom.custom.input), ("custom", "patch", text))
        self.assertEqual((function.type, function.function.name), ("function", "weather"))
        deltas = [delta for chunk in self.ask(said, tools=tools, stream=True) for choice in chunk.choices for delta in choice.delta.tool_calls or []]
        self.assertEqual([(delta.index, delta.type, delta.model_extra.get("custom")) for delta in deltas[:3]],
                         [(0, "custom", {"name": "patch", "input": ""}), (0, None, {"input": text}), (1, "function", None)])
        self.assertEqual("".join(delta.function.arguments for delta in deltas[2:]), '{"city": "Berne"}')
        # It goes on, and what was left out is said by name.
        answer = self.client.chat.completions.create(model="tests/tiny-llama", temperature=0, tools=tools, max_tokens=6, messages=[
            {"role": "user", "content": "Well?"}, message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": custom.id, "content": "ok"},
            {"role": "tool", "tool_call_id": function.id, "content": "sun"}, {"role": "user", "content": "@@text=Good."}])
        self.assertEqual(answer.choices[0].message.content, "Good.")
        log = self.gateway.program.log_text()
        for kind in ("web_search", "mcp"):
            self.assertIn(f'is left out kind="tools[] of type {kind}"', log)

    def test_a_fenced_call_is_one(self):
        fenced = '```json\n{"name": "weather", "arguments": {"city": "Berne"}}\n```'
        self.check("I look.\n" + fenced, "I look.", [("weather", {"city": "Berne"})])
        other = fenced.replace("weather", "climate")
        self.check(other, other, [], finish="stop")

    def test_a_call_that_is_cut_leaves_no_text(self):
        said = call("weather", {"city": "Berne"})
        answer = self.ask(said, max_tokens=said.index("weather") + 3).choices[0]
        self.assertEqual((answer.finish_reason, answer.message.content or "", answer.message.tool_calls), ("length", "", None))

    def test_none_leaves_the_text_alone(self):
        said = call("weather", {})
        self.check(said, said, [], finish="stop", tool_choice="none")
        self.check(said, said, [], finish="stop", tools=openai.NOT_GIVEN)

    def test_what_is_cut_off_says_so(self):
        said = call("weather", {"city": "Berne"})
        answer = self.ask(said, max_tokens=said.index("Berne") + 3).choices[0]
        self.assertEqual((answer.finish_reason, answer.message.tool_calls[0].function.arguments), ("length", '{"city": "Ber'))

    def test_the_conversation_goes_on(self):
        first = self.ask(call("weather", {"city": "Berne"})).choices[0].message
        messages = [{"role": "user", "content": "Rain?"}, first, {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "yes"}]
        body = {"messages": [message if isinstance(message, dict) else message.model_dump(exclude_none=True) for message in messages], "tools": [WEATHER]}
        prompt = ask(self.gateway.port, "POST", "/apply-template", body).json()["prompt"]
        self.assertIn('<tool>{"name": "weather", "description": "Of a city"', prompt)
        self.assertIn('assistant\n<tool_call>\n{"name": "weather", "arguments": {"city": "Berne"}}\n</tool_call><|im_end|>', prompt)
        self.assertIn("<|im_start|>tool\nyes<|im_end|>", prompt)
        self.assertNotIn("<tool>", ask(self.gateway.port, "POST", "/apply-template", {**body, "tool_choice": "none"}).json()["prompt"])


CODER = """{%- for tool in tools or [] %}<tool>{{ tool.function | tojson }}</tool>
{% endfor -%}
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content or "" }}{% for call in message.tool_calls or [] %}
<tool_call>
<function={{ call.function.name }}>
{% for name, value in call.function.arguments | items %}<parameter={{ name }}>
{{ value | tojson if value is mapping or value is iterable and value is not string else value | string }}
</parameter>
{% endfor %}</function>
</tool_call>{% endfor %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

BOOKING = {"type": "function", "function": {"name": "book", "strict": True, "parameters": {
    "type": "object", "additionalProperties": False, "required": ["city", "nights", "sky"], "properties": {
        "city": {"type": "string", "enum": ["Berne", "12"]}, "nights": {"type": "integer", "minimum": 1, "maximum": 30}, "sky": {"enum": ["clear", "grey"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3}, "breakfast": {"type": "boolean"}}}}}


def written(name, **parameters):
    inside = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters.items())
    return f"<tool_call>\n<function={name}>\n{inside}</function>\n</tool_call>"


class WrittenParameters(Tools):
    """Qwen3-Coder's format: parameters between marks, of which the schema says what is a text."""

    template = CODER

    def test_calls_are_told_apart(self):
        self.check(written("weather", city="Berne"), None, [("weather", {"city": "Berne"})])
        self.check("Let me see.\n" + written("weather", city="12") + "\n" + written("weather", city='a "b" <c>'), "Let me see.",
                   [("weather", {"city": "12"}), ("weather", {"city": 'a "b" <c>'})])
        self.check(written("book", nights=3, breakfast="True", tags='["a"]', other="x"), None,
                   [("book", {"nights": 3, "breakfast": True, "tags": ["a"], "other": "x"})], tools=[BOOKING])
        self.check("It rains.", "It rains.", [], finish="stop")

    test_functions_are_called_in_elder_words = test_a_fenced_call_is_one = test_a_call_that_is_cut_leaves_no_text = test_custom_tools_take_a_text = None

    def test_one_call_where_one_is_wanted(self):
        said = written("weather", city="a") + written("weather", city="b")
        self.check(said, None, [("weather", {"city": "a"})], parallel_tool_calls=False)

    def test_a_named_function_is_called_once(self):
        said = written("weather", city="a") + "\n" + written("weather", city="b")
        named = {"type": "function", "function": {"name": "weather"}}
        self.check(said, None, [("weather", {"city": "a"})], tool_choice=named)

    def test_what_is_cut_off_says_so(self):
        said = written("weather", city="Berne")
        answer = self.ask(said, max_tokens=said.index("</function>")).choices[0]
        self.assertEqual((answer.finish_reason, answer.message.tool_calls[0].function.arguments), ("length", '{"city": "Berne"'))

    def test_the_conversation_goes_on(self):
        first = self.ask(written("weather", city="Berne")).choices[0].message
        messages = [{"role": "user", "content": "Rain?"}, first.model_dump(exclude_none=True)]
        prompt = ask(self.gateway.port, "POST", "/apply-template", {"messages": messages, "tools": [WEATHER]}).json()["prompt"]
        self.assertIn(written("weather", city="Berne"), prompt)


@unittest.skipIf(is_sanitized(), "a model of few layers does not know how to end")
class ForcedCalls(unittest.TestCase):
    """SmolLM2, which was taught no tools, and must call some: it ends, and soon."""

    def test_forced_calls_end(self):
        tools = [WEATHER, {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {"zone": {"enum": ["UTC", "CET"]}},
                                                                                             "required": ["zone"], "additionalProperties": False}}}]
        with Fleet(2) as fleet:
            for question in ("What is the weather in Paris?", "What time is it?", "Weather in Rome, and the time?"):
                body = {"messages": [{"role": "user", "content": question}], "tools": tools, "tool_choice": "required", "temperature": 0, "max_tokens": 1500}
                choice = ask(fleet.port, "POST", "/v1/chat/completions", body).json()["choices"][0]
                print(f"    {len(choice['message'].get('tool_calls') or [])} calls, {choice['finish_reason']}")
                self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("tool_calls", None), question)


class RealModel(unittest.TestCase):
    """SmolLM2 at a temperature of 1.5, told to call in Qwen3-Coder's format: what ends has the schema's form."""

    def test_forced_calls_hold_to_their_schema(self):
        with tempfile.TemporaryDirectory(prefix="longhaul-tools-") as folder:
            path = pathlib.Path(folder) / "template.jinja"
            path.write_text(CODER)
            with Fleet(2, gateway_flags=["--chat-template", str(path)]) as fleet:
                ended = 0
                for seed in range(12):
                    body = {"messages": [{"role": "user", "content": "A room in Berne."}], "tools": [BOOKING], "tool_choice": "required",
                            "parallel_tool_calls": False, "temperature": 1.5, "seed": seed, "max_tokens": 200}
                    choice = ask(fleet.port, "POST", "/v1/chat/completions", body).json()["choices"][0]
                    if choice["finish_reason"] == "tool_calls":
                        (one,) = choice["message"]["tool_calls"]
                        jsonschema.validate(json.loads(one["function"]["arguments"]), BOOKING["function"]["parameters"])
                        ended += 1
                self.assertGreater(ended, 4)
                patch = {"type": "custom", "custom": {"name": "patch", "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[0-9]{3}"}}}}
                for chosen in ("required", {"type": "custom", "custom": {"name": "patch"}}):
                    choice = ask(fleet.port, "POST", "/v1/chat/completions", {**body, "temperature": 0, "tools": [patch], "tool_choice": chosen}).json()["choices"][0]
                    (one,) = choice["message"]["tool_calls"]
                    self.assertEqual((one["type"], one["custom"]["name"]), ("custom", "patch"))
                    self.assertRegex(one["custom"]["input"], "^[0-9]{3}$")
                refused = {**BOOKING["function"], "parameters": {"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}}}
                reply = ask(fleet.port, "POST", "/v1/chat/completions", {**body, "tools": [{"type": "function", "function": refused}]})
                self.assertEqual(reply.status, 400)
                self.assertIn("'pattern'", reply.error()["message"])


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
