"""pydantic-ai: an answer by a tool's call and by a schema, whole and streaming, and text."""

import asyncio
import unittest

from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from real_fleet import KEY, MODEL, URL, Weather


def agent(output_type):
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=URL, api_key=KEY))
    return Agent(model, output_type=output_type, retries=0, model_settings={"max_tokens": 80})


class PydanticAI(unittest.TestCase):
    def test_whole(self):
        for output in (ToolOutput(Weather, strict=True), NativeOutput(Weather)):
            with self.subTest(output=type(output).__name__):
                self.assertIsInstance(agent(output).run_sync("The weather in Paris?").output, Weather)

    def test_stream(self):
        async def last():
            async with agent(ToolOutput(Weather, strict=True)).run_stream("The weather in Paris?") as result:
                return await result.get_output()

        self.assertIsInstance(asyncio.run(last()), Weather)

    def test_text(self):
        self.assertIsInstance(agent(str).run_sync("Hello").output, str)


if __name__ == "__main__":
    unittest.main()
