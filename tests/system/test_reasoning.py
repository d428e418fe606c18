"""What a model thinks before it answers is told apart, whole and streaming, with the client library; over the scripted engine, which says what the
prompt tells it to say, byte by byte."""

import pathlib
import sys
import tempfile
import unittest

import openai

from programs import run_tests
from raw_http import ask
from test_http_raw import Gateway

TEMPLATE = """{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif %}{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% elif begins_inside %}<think>
{% endif %}{% endif %}"""

CHANNELS = """{%- if tools %}<|start|>developer<|message|>{{ tools|tojson }}<|end|>{% endif -%}
{%- for message in messages -%}
{%- for call in message.tool_calls %}<|start|>assistant to=functions.{{ call.function.name }}<|channel|>commentary json<|message|>{% endfor -%}
{% if message.reasoning_content %}<|start|>assistant<|channel|>analysis<|message|>{{ message.reasoning_content }}<|end|>{% endif -%}
<|start|>{{ message.role }}<|message|>{{ message.content }}<|end|>
{%- endfor -%}
{%- if add_generation_prompt %}<|start|>assistant{% endif %}"""


class Reasoning(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="longhaul-reasoning-")
        cls.path = pathlib.Path(cls.folder.name) / "template.jinja"
        cls.path.write_text(TEMPLATE)
        cls.gateway = Gateway("--chat-template", str(cls.path))
        cls.client = openai.OpenAI(base_url=f"http://127.0.0.1:{cls.gateway.port}/v1", api_key="none", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.gateway.stop()
        cls.folder.cleanup()

    def ask(self, said, client=None, **more):
        extra = {name: more.pop(name) for name in ("reasoning_format", "chat_template_kwargs") if name in more}
        said = said.replace("\n", "\\x0a")
        return (client or self.client).chat.completions.create(
            model="tests/tiny-llama", messages=[{"role": "user", "content": f"@@text={said}"}], max_tokens=len(said.replace("\\x0a", "\n")), temperature=0,
            extra_body=extra, **more)

    def parts(self, said, **more):
        answer = self.ask(said, **more)
        message = answer.choices[0].message
        return getattr(message, "reasoning_content", None), message.content, answer.usage

    def streamed(self, said, **more):
        deltas = [chunk.choices[0].delta for chunk in self.ask(said, stream=True, **more) if chunk.choices]
        thoughts = [getattr(delta, "reasoning_content", None) for delta in deltas]
        kinds = [bool(thought) for thought, delta in zip(thoughts, deltas) if thought or delta.content]
        self.assertEqual(kinds, sorted(kinds, reverse=True), "the answer comes behind the thought")
        return "".join(filter(None, thoughts)) or None, "".join(delta.content or "" for delta in deltas)

    def check(self, said, thought, answer, **more):
        whole = self.parts(said, **more)
        self.assertEqual(whole[:2], (thought, answer), said)
        self.assertEqual(self.streamed(said, **more), (thought, answer), said)
        return whole[2]

    def test_a_thought_and_an_answer(self):
        usage = self.check("<think>\nwhy \nnot\n</think>\n\nso be it", "why \nnot", "so be it")
        self.assertLess(8, usage.completion_tokens_details.reasoning_tokens)
        self.assertLess(usage.completion_tokens_details.reasoning_tokens, usage.completion_tokens)
        self.check("so be it", None, "so be it")
        self.check("<think>\n\n</think>\n\nso", None, "so")
        self.check("<think>why", "why", "")

    def test_channels(self):
        path = pathlib.Path(self.folder.name) / "channels.jinja"
        path.write_text(CHANNELS)
        gateway = Gateway("--chat-template", str(path))
        thought, answer, next_one = "<|channel|>analysis<|message|>why", "<|channel|>final<|message|>so < be it", "<|end|><|start|>assistant"
        try:
            with openai.OpenAI(base_url=f"http://127.0.0.1:{gateway.port}/v1", api_key="none", max_retries=0) as client:
                usage = self.check(thought + next_one + answer, "why", "so < be it", client=client)
                self.assertLess(0, usage.completion_tokens_details.reasoning_tokens)
                self.check(thought, "why", "", client=client)
                self.check(answer, None, "so < be it", client=client)
                self.check("so", None, "so", client=client)
                call = next_one + '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}'
                message = self.ask(thought + call, client, tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}]).choices[0].message
                self.assertEqual((message.reasoning_content, message.content), ("why", None))
                self.assertEqual([(called.function.name, called.function.arguments) for called in message.tool_calls], [("f", '{"a": 1}')])
        finally:
            gateway.stop()

    def test_a_thought_that_the_prompt_has_begun(self):
        inside = {"begins_inside": True}
        self.check("why</think>so", "why", "so", chat_template_kwargs=inside)
        self.check("why", "why", "", chat_template_kwargs=inside)

    def test_no_effort_turns_it_off(self):
        usage = self.check("so be it", None, "so be it", reasoning_effort="none", chat_template_kwargs={"begins_inside": True})
        self.assertEqual(usage.completion_tokens_details.reasoning_tokens, 0)

    def test_none_leaves_it_in_the_answer(self):
        said = "<think>why</think>so"
        self.check(said, None, said, reasoning_format="none")
        gateway = Gateway("--chat-template", str(self.path), "--keeps-thoughts")
        try:
            with openai.OpenAI(base_url=f"http://127.0.0.1:{gateway.port}/v1", api_key="none", max_retries=0) as client:
                self.assertEqual(self.ask(said, client).choices[0].message.content, said)
                self.assertEqual(self.ask(said, client, reasoning_format="auto").choices[0].message.content, "so")
        finally:
            gateway.stop()

    def test_a_thought_goes_back_to_the_template(self):
        def tokens(**more):
            messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", **more}, {"role": "user", "content": "c"}]
            answer = self.client.chat.completions.create(model="tests/tiny-llama", messages=messages, max_tokens=1, temperature=0)
            return answer.usage.prompt_tokens
        self.assertEqual(tokens(reasoning_content="x" * 20) - tokens(), 20 + len("<think></think>"))
        with self.assertRaisesRegex(openai.BadRequestError, "reasoning_content"):
            tokens(reasoning_content=1)

    def test_the_prompt_of_a_conversation(self):
        def prompt(**more):
            return ask(self.gateway.port, "POST", "/apply-template", {"messages": [{"role": "user", "content": "hi"}], **more})
        said = "<|im_start|>user\nhi<|im_end|>\n"
        self.assertEqual(prompt().json(), {"prompt": said + "<|im_start|>assistant\n"})
        self.assertEqual(prompt(add_generation_prompt=False).json(), {"prompt": said})
        self.assertEqual(prompt(chat_template_kwargs={"begins_inside": True}).json(), {"prompt": said + "<|im_start|>assistant\n<think>\n"})
        self.assertIn("x" * 20000, prompt(messages=[{"role": "user", "content": "x" * 20000}]).json()["prompt"])
        self.assertEqual(prompt(messages=[]).status, 400)
        self.assertEqual(ask(self.gateway.port, "GET", "/apply-template").status, 405)

    def test_a_word_that_is_none(self):
        with self.assertRaisesRegex(openai.BadRequestError, "reasoning_format"):
            self.ask("so", reasoning_format="some")


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
