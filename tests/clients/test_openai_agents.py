"""openai-agents over both of OpenAI's APIs: an agent with two tools, and a hand-off to another one."""

import asyncio
import unittest

import httpx
from agents import Agent, HandoffCallItem, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from real_fleet import KEY, MODEL, URL

set_tracing_disabled(True)


@function_tool
def tell_weather(days: int) -> str:
    """Tells the weather of some days."""
    return f"weather {days}"


@function_tool
def tell_time(is_utc: bool) -> str:
    """Tells the time."""
    return f"time {is_utc}"


def settings(tool_choice, ends_text=False):
    """ends_text: a text ends where it may, rather than where the length ends it, which the client raises. Calls that are forced are not touched."""
    more = {"extra_body": {"logit_bias": {str(end_token()): 100}}} if ends_text else {}
    return ModelSettings(tool_choice=tool_choice, parallel_tool_calls=False, max_tokens=80, **more)


def end_token():
    name = httpx.get(URL.removesuffix("/v1") + "/tokenizer_info").raise_for_status().json()["eos_token"]
    (token,) = httpx.post(f"{URL}/tokenize", json={"content": name}).raise_for_status().json()["tokens"]
    return token


class Agents(unittest.TestCase):
    def on_each_api(self, check):
        async def run(kind):
            async with AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0) as client:
                await check(kind(MODEL, client))

        for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
            with self.subTest(api=kind.__name__):
                asyncio.run(run(kind))

    def test_two_tools(self):
        async def check(model):
            for choice, said in (("tell_weather", "weather"), ("tell_time", "time"), ("required", "")):
                agent = Agent(name="clerk", model=model, tools=[tell_weather, tell_time], model_settings=settings(choice),
                              tool_use_behavior="stop_on_first_tool")
                result = await Runner.run(agent, "How will it be?", max_turns=2)
                self.assertRegex(result.final_output, rf"^({said or 'weather|time'}) ")

        self.on_each_api(check)

    def test_a_tool_is_followed_by_text(self):
        async def check(model):
            agent = Agent(name="clerk", model=model, tools=[tell_weather], model_settings=settings("required", ends_text=True))
            result = Runner.run_streamed(agent, "How will it be?", max_turns=4)
            async for _ in result.stream_events():
                pass
            self.assertIsInstance(result.final_output, str)

        self.on_each_api(check)

    def test_hand_off(self):
        async def check(model):
            other = Agent(name="forecaster", model=model, tools=[tell_weather], model_settings=settings("required"),
                          tool_use_behavior="stop_on_first_tool")
            first = Agent(name="clerk", model=model, handoffs=[other], model_settings=settings("transfer_to_forecaster"))
            result = await Runner.run(first, "How will the weather be?", max_turns=3)
            self.assertTrue(any(isinstance(item, HandoffCallItem) for item in result.new_items))
            self.assertEqual(result.last_agent.name, "forecaster")
            self.assertRegex(result.final_output, r"^weather -?\d+$")

        self.on_each_api(check)


if __name__ == "__main__":
    unittest.main()
