"""langchain-openai: with_structured_output in its three methods, bind_tools, streams, and its own name for what is too long."""

import json
import unittest

import httpx
from langchain_core.exceptions import ContextOverflowError
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from real_fleet import KEY, MODEL, TOO_LONG, URL, Weather


@tool
def report(days: int, is_short: bool) -> str:
    """Reports the weather of some days."""
    return f"{days} {is_short}"


class LangChain(unittest.TestCase):
    def setUp(self):
        self.model = ChatOpenAI(model=MODEL, base_url=URL, api_key=KEY, max_retries=0, max_tokens=80)

    def test_structured_output(self):
        for method in ("json_schema", "function_calling"):
            with self.subTest(method=method):
                self.assertIsInstance(self.model.with_structured_output(Weather, method=method).invoke("The weather in Paris?"), Weather)

    def test_json_mode(self):
        """Any JSON does, and a small model may go on with it until the length ends it, which the client raises: the shortest is made likely."""
        bias = {}
        for text in ("{}", "}"):
            tokens = httpx.post(f"{URL}/tokenize", json={"content": text}).raise_for_status().json()["tokens"]
            bias[str(tokens[-1])] = 100
        model = self.model.bind(response_format={"type": "json_object"}, logit_bias=bias)
        self.assertEqual(json.loads(model.invoke("The weather in Paris, as JSON?").content), {})

    def test_bind_tools(self):
        bound = self.model.bind_tools([report], tool_choice="any", strict=True, parallel_tool_calls=False)
        (call,) = bound.invoke("The weather in Paris?").tool_calls
        self.assertRegex(report.invoke(call["args"]), r"^-?\d+ (True|False)$")

    def test_bind_tools_of_a_stream(self):
        bound = self.model.bind_tools([report], tool_choice="report", strict=True, parallel_tool_calls=False)
        whole = None
        for chunk in bound.stream("The weather in Paris?"):
            whole = chunk if whole is None else whole + chunk
        (call,) = whole.tool_calls
        self.assertEqual((call["name"], set(call["args"])), ("report", {"days", "is_short"}))

    def test_what_is_too_long_has_its_name(self):
        with self.assertRaises(ContextOverflowError):
            self.model.invoke(TOO_LONG[0]["content"])


if __name__ == "__main__":
    unittest.main()
