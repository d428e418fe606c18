"""openai, its validation strict: parsing and streaming helpers of both of its APIs, tools, embeddings, and what is refused."""

import json
import unittest

import openai

from real_fleet import KEY, MODEL, QUESTION, TOO_LONG, URL, WEATHER_PARAMETERS, WEATHER_TOOL, Weather, check_arguments


class OpenAI(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = cls.enterClassContext(openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0, _strict_response_validation=True))

    def test_models(self):
        listed = [model.id for model in self.client.models.list()]
        self.assertIn(MODEL, listed)
        self.assertEqual(self.client.models.retrieve(MODEL).id, MODEL)

    def test_chat_is_the_same_streamed(self):
        asked = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 60, "logprobs": True, "top_logprobs": 2,
                 # The helper fails where the length ends an answer; this one ends by itself.
                 "extra_body": {"guided_regex": "[A-Za-z ]{24}"}}
        whole = self.client.chat.completions.create(**asked).choices[0]
        with self.client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        self.assertLessEqual({"chunk", "content.delta", "content.done", "logprobs.content.delta"}, kinds)
        self.assertEqual(final.choices[0].message.content, whole.message.content)
        self.assertEqual([token.logprob for token in final.choices[0].logprobs.content], [token.logprob for token in whole.logprobs.content])
        self.assertEqual(final.choices[0].finish_reason, "stop")
        self.assertEqual(final.usage.completion_tokens, len(whole.logprobs.content))

    def test_completions(self):
        asked = {"model": MODEL, "prompt": ["The sea", "The sky"], "temperature": 0, "max_tokens": 6}
        whole = self.client.completions.create(**asked)
        texts = ["", ""]
        # Not strict: the library's type denies that finish_reason is null in all chunks but a choice's last, as it is in OpenAI's own streams.
        for chunk in self.client.with_options(_extra_kwargs={"_strict_response_validation": False}).completions.create(**asked, stream=True):
            for choice in chunk.choices:
                texts[choice.index] += choice.text
        self.assertEqual(texts, [choice.text for choice in whole.choices])

    def test_embeddings(self):
        # Not strict: the library asks for base64 and validates that as a list, before it decodes it.
        lenient = self.client.with_options(_extra_kwargs={"_strict_response_validation": False})
        one, other = lenient.embeddings.create(model=MODEL, input=["The sea", "The sky"]).data
        plain = self.client.embeddings.create(model=MODEL, input="The sea", encoding_format="float").data[0]
        self.assertEqual([round(number, 6) for number in one.embedding], [round(number, 6) for number in plain.embedding])
        self.assertAlmostEqual(sum(number * number for number in one.embedding), 1, places=5)
        self.assertNotEqual(one.embedding, other.embedding)

    def test_parse(self):
        message = self.client.chat.completions.parse(model=MODEL, messages=QUESTION, response_format=Weather, max_tokens=60).choices[0].message
        self.assertIsInstance(message.parsed, Weather)

    def test_parse_of_a_stream(self):
        with self.client.chat.completions.stream(model=MODEL, messages=QUESTION, response_format=Weather, max_tokens=60) as stream:
            stream.until_done()
            self.assertIsInstance(stream.get_final_completion().choices[0].message.parsed, Weather)

    def test_tools(self):
        for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
            with self.subTest(tool_choice=choice):
                answer = self.client.chat.completions.create(model=MODEL, messages=QUESTION, tools=[WEATHER_TOOL], tool_choice=choice,
                                                             parallel_tool_calls=False, max_tokens=80).choices[0]
                (call,) = answer.message.tool_calls
                self.assertEqual(call.function.name, "weather")
                check_arguments(self, json.loads(call.function.arguments))

    def test_tools_of_a_stream(self):
        tool = openai.pydantic_function_tool(Weather, name="report")
        with self.client.chat.completions.stream(model=MODEL, messages=QUESTION, tools=[tool], tool_choice="required", parallel_tool_calls=False,
                                                 max_tokens=80) as stream:
            kinds = [event.type for event in stream]
            (call,) = stream.get_final_completion().choices[0].message.tool_calls
        self.assertIn("tool_calls.function.arguments.done", kinds)
        self.assertIsInstance(call.function.parsed_arguments, Weather)

    def test_a_result_of_a_tool_goes_back(self):
        call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris", "days": 1}'}}
        messages = [*QUESTION, {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "call_1", "content": "Rain."}]
        answer = self.client.chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER_TOOL], tool_choice="none", max_tokens=8)
        self.assertFalse(answer.choices[0].message.tool_calls)

    def test_responses(self):
        parsed = self.client.responses.parse(model=MODEL, input=QUESTION, text_format=Weather, max_output_tokens=60)
        self.assertIsInstance(parsed.output_parsed, Weather)
        with self.client.responses.stream(model=MODEL, input=QUESTION, max_output_tokens=60, text_format=Weather) as stream:
            kinds = [event.type for event in stream]
            self.assertIsInstance(stream.get_final_response().output_parsed, Weather)
        self.assertIn("response.output_text.done", kinds)

    def test_tools_of_responses(self):
        tool = {"type": "function", "name": "weather", "parameters": WEATHER_PARAMETERS, "strict": True}
        answer = self.client.responses.create(model=MODEL, input=QUESTION, tools=[tool], tool_choice="required", parallel_tool_calls=False,
                                              max_output_tokens=80)
        (call,) = (item for item in answer.output if item.type == "function_call")
        check_arguments(self, json.loads(call.arguments))

    def test_what_is_too_long_is_told_so(self):
        for stream in (False, True):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.client.chat.completions.create(model=MODEL, messages=TOO_LONG, stream=stream)
            self.assertEqual(caught.exception.code, "context_length_exceeded")


if __name__ == "__main__":
    unittest.main()
