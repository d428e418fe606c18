"""Calls by a real model that was trained to make them (Qwen2.5-Coder-0.5B-Instruct): those that a request forces end, and one that is cut leaves nothing of
its head in the answer's text; those of its own will, which it writes without any mark, are calls."""

import json
import sys
import unittest

from default_model import qwen_model
from fleet import Fleet
from programs import need_file, run_tests
from raw_http import ask

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": name, "description": f"Tells the {name[4:]} in a city", "parameters": CITY}} for name in
         ("get_weather", "get_time")]
QUESTIONS = ("What is the weather like in Paris?", "What time is it in Tokyo?", "Hello!", "Tell me the weather and the time in Rome and in Berlin.")


class ForcedCalls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        model = need_file(qwen_model(), "no model: LONGHAUL_TEST_QWEN names no file, and deploy/fetch-model --qwen gets none")
        cls.fleet = cls.enterClassContext(Fleet(2, model=model, worker_flags=["--kv-bytes", "200M"]))

    def ask(self, question, **more):
        body = {"messages": [{"role": "user", "content": question}], "tools": TOOLS, "tool_choice": "required", "temperature": 0, "max_tokens": 400, **more}
        (choice,) = ask(self.fleet.port, "POST", "/v1/chat/completions", body).json()["choices"]
        return choice["finish_reason"], choice["message"]["content"], choice["message"].get("tool_calls") or []

    def test_they_end(self):
        for question in QUESTIONS:
            for more in ({}, {"parallel_tool_calls": True}, {"parallel_tool_calls": False}):
                reason, content, calls = self.ask(question, **more)
                self.assertEqual((reason, content), ("tool_calls", None), (question, more))
                self.assertTrue(len(calls) == 1 if more != {"parallel_tool_calls": True} else 1 <= len(calls) <= 4, (question, more, calls))
                for call in calls:
                    self.assertIn(call["function"]["name"], ("get_weather", "get_time"))
                    self.assertIn("city", json.loads(call["function"]["arguments"]))

    def test_those_of_its_own_will_are_told_apart(self):
        for question, name in zip(QUESTIONS, ("get_weather", "get_time")):
            reason, content, calls = self.ask(question, tool_choice="auto")
            self.assertEqual((reason, content, [call["function"]["name"] for call in calls]), ("tool_calls", None, [name]), question)

    def test_one_that_is_cut_is_no_text(self):
        for tokens in range(1, 22):
            reason, content, calls = self.ask(QUESTIONS[0], max_tokens=tokens)
            self.assertIn(content, (None, ""), tokens)
            self.assertEqual(reason, "length" if tokens < 20 else reason)
            for call in calls:
                self.assertTrue('{"city": "Paris"}'.startswith(call["function"]["arguments"]), call)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
