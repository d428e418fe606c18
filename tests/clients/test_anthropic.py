"""anthropic, its validation strict: whole and streaming, a tool with its result, a form, counting, and what is refused."""

import json
import unittest

import anthropic

from real_fleet import KEY, MODEL, QUESTION, TOO_LONG, URL, WEATHER_PARAMETERS, check_arguments

TOOL = {"name": "weather", "description": "Tells the weather", "input_schema": WEATHER_PARAMETERS, "strict": True}


class Anthropic(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = cls.enterClassContext(anthropic.Anthropic(base_url=URL.removesuffix("/v1"), api_key=KEY, max_retries=0,
                                                               _strict_response_validation=True))

    def ask(self, **more):
        return {"model": MODEL, "messages": QUESTION, "max_tokens": 24, "extra_body": {"temperature": 0}, **more}

    def test_a_message_is_the_same_streamed(self):
        whole = self.client.messages.create(**self.ask())
        self.assertTrue(whole.content[0].text)
        with self.client.messages.stream(**self.ask()) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual((text, final.stop_reason, final.usage.output_tokens),
                         (whole.content[0].text, whole.stop_reason, whole.usage.output_tokens))

    def test_a_tool_and_its_result(self):
        asked = self.ask(tools=[TOOL], tool_choice={"type": "tool", "name": "weather"}, max_tokens=80)
        (call,) = [block for block in self.client.messages.create(**asked).content if block.type == "tool_use"]
        check_arguments(self, call.input)
        with self.client.messages.stream(**asked) as stream:
            (streamed,) = [block for block in stream.get_final_message().content if block.type == "tool_use"]
        self.assertEqual(streamed.input, call.input)
        messages = [*QUESTION, {"role": "assistant", "content": [call.model_dump(include={"type", "id", "name", "input"})]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "clear, 20 degrees"}]}]
        self.assertTrue(self.client.messages.create(**self.ask(messages=messages, tools=[TOOL], tool_choice={"type": "none"})).content[0].text)

    def test_a_form(self):
        form = {"type": "json_schema", "schema": WEATHER_PARAMETERS}
        answer = self.client.messages.create(**self.ask(output_config={"format": form}, max_tokens=80))
        check_arguments(self, json.loads(answer.content[0].text))

    def test_counting(self):
        counted = self.client.messages.count_tokens(model=MODEL, messages=QUESTION)
        self.assertEqual(counted.input_tokens, self.client.messages.create(**self.ask(max_tokens=1)).usage.input_tokens)

    def test_what_is_refused(self):
        with self.assertRaisesRegex(anthropic.BadRequestError, "prompt is too long"):
            self.client.messages.create(**self.ask(messages=TOO_LONG))
        with self.assertRaises(anthropic.NotFoundError):
            self.client.messages.create(**self.ask(model="other"))


if __name__ == "__main__":
    unittest.main()
