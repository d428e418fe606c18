"""litellm: tools, forms, streams put together again, and its own name for what is too long."""

import json
import os
import unittest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else importing it asks the internet for prices
import litellm

from real_fleet import KEY, MODEL, QUESTION, TOO_LONG, URL, WEATHER_TOOL, Weather, check_arguments


def ask(messages=QUESTION, **more):
    return litellm.completion(model=f"openai/{MODEL}", api_base=URL, api_key=KEY, messages=messages, num_retries=0, **more)


class LiteLLM(unittest.TestCase):
    def test_tools(self):
        (call,) = ask(tools=[WEATHER_TOOL], tool_choice="required", parallel_tool_calls=False, max_tokens=80).choices[0].message.tool_calls
        self.assertEqual(call.function.name, "weather")
        check_arguments(self, json.loads(call.function.arguments))

    def test_tools_of_a_stream(self):
        chunks = list(ask(tools=[WEATHER_TOOL], tool_choice="required", parallel_tool_calls=False, max_tokens=80, stream=True))
        whole = litellm.stream_chunk_builder(chunks, messages=QUESTION)
        self.assertEqual(whole.choices[0].finish_reason, "tool_calls")
        (call,) = whole.choices[0].message.tool_calls
        check_arguments(self, json.loads(call.function.arguments))

    def test_form(self):
        Weather.model_validate_json(ask(response_format=Weather, max_tokens=60).choices[0].message.content)

    def test_what_is_too_long_has_its_name(self):
        with self.assertRaises(litellm.ContextWindowExceededError):
            ask(TOO_LONG)


if __name__ == "__main__":
    unittest.main()
