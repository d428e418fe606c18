"""Answers that must have a form, by the official `openai` client against a gateway and its workers: every finished answer has it, at a temperature at
which nothing would have it by chance, and what cannot be followed is a 400 with its place. Random schemas and regular expressions: 16 of each (4 under the
sanitizers), with LONGHAUL_TEST_THOROUGH=1 (tests/run --thorough) 1,000 and 200, and the grammars of tests/truth/test_gbnf.py, four times each."""
import concurrent.futures
import enum
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import unittest

from fleet import Fleet
from programs import IS_QUICK, PATIENCE_S, run_tests

try:
    import jsonschema
    import openai
    import pydantic
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "truth"))

import test_gbnf  # noqa: E402
from random_schemas import RandomSchemas  # noqa: E402
from test_regex import is_ours, random_pattern  # noqa: E402

IS_THOROUGH = os.environ.get("LONGHAUL_TEST_THOROUGH")
SCHEMAS = 1000 if IS_THOROUGH else 4 if IS_QUICK else 16
REGEXES = 200 if IS_THOROUGH else 4 if IS_QUICK else 16
MODEL = "smollm2/135M-Instruct"
ASK = [{"role": "user", "content": "Describe a person."}]


class Colour(str, enum.Enum):
    RED = "red"
    GREEN = "green"


class Address(pydantic.BaseModel):
    street: str = pydantic.Field(max_length=20)
    number: int = pydantic.Field(ge=1, le=999)


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(pattern="^[A-Z][a-z]{1,9}$")
    age: int = pydantic.Field(ge=0, lt=130)
    colour: Colour
    tags: list[Colour] = pydantic.Field(max_length=3)
    address: Address | None


class ConstrainedOutput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(2, ["--model-name", MODEL]).__enter__()
        cls.client = openai.OpenAI(base_url=cls.fleet.url + "/v1", api_key="none", max_retries=0, timeout=PATIENCE_S)

    @classmethod
    def tearDownClass(cls):
        cls.fleet.__exit__(None, None, None)

    def chat(self, **more):
        more = {"temperature": 1.5, "max_tokens": 300, "seed": 1, **more}
        return self.client.chat.completions.create(model=MODEL, messages=ASK, **more)

    def guided(self, **fields):
        choice = self.chat(extra_body=fields).choices[0]
        self.assertEqual(choice.finish_reason, "stop")
        return choice.message.content

    def test_parsed_answers_are_what_was_asked_for(self):
        answer = self.client.chat.completions.parse(model=MODEL, messages=ASK, response_format=Person, temperature=1.5, max_tokens=300, seed=7, n=2 if IS_QUICK else 4)
        for choice in answer.choices:
            self.assertEqual(choice.finish_reason, "stop")
            self.assertIsInstance(choice.message.parsed, Person)
            jsonschema.validate(json.loads(choice.message.content), Person.model_json_schema())

    def test_streams_have_it_too(self):
        format = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": Person.model_json_schema()}}
        whole = self.chat(response_format=format).choices[0].message.content
        pieces = [chunk.choices[0].delta.content or "" for chunk in self.chat(response_format=format, stream=True) if chunk.choices]
        self.assertEqual("".join(pieces), whole)
        Person.model_validate_json(whole)

    @staticmethod
    def tool(name, schema, **more):
        return {"type": "function", "function": {"name": name, "parameters": schema, **more}}

    def calls(self, **more):
        choice = self.chat(**more).choices[0]
        return [(call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls or []], choice

    def test_calls_that_are_forced_satisfy_the_schema(self):
        colour = {"type": "object", "properties": {"colour": {"enum": ["red", "green"]}}, "required": ["colour"], "additionalProperties": False}
        tools = [self.tool("describe", Person.model_json_schema()), self.tool("paint", colour)]
        for seed in range(1 if IS_QUICK else 4):
            calls, choice = self.calls(tools=tools, tool_choice="required", parallel_tool_calls=False, seed=seed)
            self.assertEqual((len(calls), choice.finish_reason, choice.message.content), (1, "tool_calls", None))
            name, arguments = calls[0]
            jsonschema.validate(arguments, colour if name == "paint" else Person.model_json_schema())
        named = {"type": "function", "function": {"name": "paint"}}
        calls, _ = self.calls(tools=tools, tool_choice=named, parallel_tool_calls=False)
        self.assertEqual(calls[0][0], "paint")
        self.assertIn(calls[0][1]["colour"], ("red", "green"))

    def test_strict_tools_leave_the_choice(self):
        tools = [self.tool("f", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, strict=True)]
        calls, choice = self.calls(tools=tools, max_tokens=40)
        self.assertIn(choice.finish_reason, ("stop", "length", "tool_calls"))
        for _, arguments in calls:
            self.assertIsInstance(arguments["a"], int)

    def test_a_form_stands_where_nothing_is_called(self):
        answer = self.client.chat.completions.parse(model=MODEL, messages=ASK, response_format=Address, temperature=0, max_tokens=400,
                                                    tools=[openai.pydantic_function_tool(Person)], parallel_tool_calls=False)
        message = answer.choices[0].message
        self.assertTrue(message.tool_calls or isinstance(message.parsed, Address))

    def test_answers_to_random_schemas_validate(self):
        def finished(seed):
            schema, _ = RandomSchemas(seed).whole()
            choice = self.chat(extra_body={"guided_json": schema}, seed=seed, max_tokens=150).choices[0]
            if choice.finish_reason == "stop":
                jsonschema.validate(json.loads(choice.message.content), schema, jsonschema.Draft202012Validator)
            return choice.finish_reason == "stop"

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            whole = sum(pool.map(finished, range(SCHEMAS)))
        print(f"{SCHEMAS} schemas, {whole} answers finished")
        self.assertGreater(whole, SCHEMAS / 2)

    def test_answers_to_random_regexes_match(self):
        def matched(seed):
            pattern = random_pattern(random.Random(seed), 3)
            choice = self.chat(extra_body={"guided_regex": pattern}, seed=seed, max_tokens=60).choices[0]
            text = choice.message.content
            if choice.finish_reason == "stop" and is_ours(text):
                self.assertTrue(re.fullmatch(pattern, text), (pattern, text))
            return choice.finish_reason == "stop"

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            whole = sum(pool.map(matched, range(REGEXES)))
        print(f"{REGEXES} regexes, {whole} answers finished")
        self.assertGreater(whole, REGEXES / 2)

    def test_grammars_that_people_share(self):
        if not IS_THOROUGH and not list(test_gbnf.CACHE.glob("*.gbnf")):
            self.skipTest("tests/truth/test_gbnf.py has not fetched them")
        if not list(test_gbnf.CACHE.glob("*.gbnf")):
            test_gbnf.fetch()
        lines = []
        for path in sorted(test_gbnf.CACHE.glob("*.gbnf")):
            for seed in range(4 if IS_THOROUGH else 1):
                choice = self.chat(extra_body={"guided_grammar": path.read_text()}, seed=seed, max_tokens=200 if IS_THOROUGH else 100).choices[0]
                if choice.finish_reason == "stop":
                    lines.append((path.name, path.read_bytes(), choice.message.content.encode()))
        data = "".join(f"g {grammar.hex()}\nt {text.hex()}\n" for _, grammar, text in lines)
        answers = subprocess.run([test_gbnf.TOOL], input=data, capture_output=True, text=True, check=True).stdout.split()
        self.assertTrue(lines)
        self.assertEqual(answers, ["ok", "1"] * len(lines), [(name, text) for name, _, text in lines])
        print(f"{len(lines)} answers to shared grammars finished")

    def test_any_object_is_one(self):
        choice = self.chat(response_format={"type": "json_object"}, max_tokens=200).choices[0]
        self.assertTrue(choice.message.content.startswith("{"))
        if choice.finish_reason == "stop":
            self.assertIsInstance(json.loads(choice.message.content), dict)

    def test_regular_expressions_choices_and_grammars(self):
        self.assertTrue(re.fullmatch(r"\d{4}-\d\d", self.guided(guided_regex=r"\d{4}-\d\d")))
        self.assertIn(self.guided(guided_choice=["yes", "no", "yes and no"]), ("yes", "no", "yes and no"))
        self.assertTrue(re.fullmatch(r"[ab]{2,5}!", self.guided(guided_grammar='root ::= [ab]{2,5} "!"')))
        self.assertLess(json.loads(self.guided(guided_json={"type": "integer", "minimum": 3, "maximum": 99})), 100)
        self.assertIn(self.guided(structured_outputs={"choice": ["x", "y"]}), ("x", "y"))

    def test_a_stop_string_cuts_an_answer(self):
        form = {"guided_regex": "[a-c]{40}"}
        whole = self.guided(**form)
        stopped = self.chat(extra_body=form, stop=whole[10:14]).choices[0]
        self.assertEqual((stopped.message.content, stopped.finish_reason), (whole[:whole.index(whole[10:14])], "stop"))

    def test_a_cached_prompt_changes_nothing(self):
        form = {"guided_regex": "[a-z]{1,30}!"}
        messages = [{"role": "user", "content": "Tell me of the sea. " * 40}]
        answers = [self.client.chat.completions.create(model=MODEL, messages=messages, temperature=1.5, seed=3, max_tokens=50, extra_body=form) for _ in range(2)]
        self.assertEqual(answers[0].choices[0].message.content, answers[1].choices[0].message.content)
        self.assertGreater(answers[1].usage.prompt_tokens_details.cached_tokens, 0)

    def test_completions_have_forms_too(self):
        answer = self.client.completions.create(model=MODEL, prompt="1 + 1 =", max_tokens=20, temperature=1.5, extra_body={"guided_regex": "[0-9]{3}"})
        self.assertTrue(re.fullmatch("[0-9]{3}", answer.choices[0].text))

    def test_what_cannot_be_followed_is_a_400_at_once(self):
        schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
        with self.assertRaises(openai.BadRequestError) as raised:
            self.chat(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})
        self.assertEqual(raised.exception.param, "response_format")
        self.assertIn("Invalid schema for response_format 'n': #/properties/a: 'uniqueItems' is not supported", str(raised.exception))
        for fields in ({"guided_regex": "("}, {"guided_grammar": "root"}, {"guided_choice": []}, {"guided_json": {"type": "x"}}):
            with self.assertRaises(openai.BadRequestError) as raised:
                self.guided(**fields)
            self.assertEqual(raised.exception.param, next(iter(fields)))


class BrokenChains(unittest.TestCase):
    """The same answers and log probabilities on any number of workers, with one that is killed in the middle of an object and comes back."""

    @staticmethod
    def answers(fleet, victim=None):
        """[(text, log probabilities)] of two choices; the victim is killed when a third of the pieces has come."""
        client = openai.OpenAI(base_url=fleet.url + "/v1", api_key="none", max_retries=0, timeout=PATIENCE_S)
        format = {"type": "json_schema", "json_schema": {"name": "person", "schema": Person.model_json_schema()}}
        texts, numbers, pieces = ["", ""], [[], []], 0
        for chunk in client.chat.completions.create(model=MODEL, messages=ASK, response_format=format, temperature=1.5, max_tokens=200, seed=5, n=2, logprobs=True,
                                                    top_logprobs=3, stream=True):
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
                numbers[choice.index] += [(t.token, t.logprob, [(o.token, o.logprob) for o in t.top_logprobs]) for t in (choice.logprobs.content or [])] if choice.logprobs else []
                pieces += bool(choice.delta.content)
            if pieces >= 12 and victim is not None:
                fleet.workers[victim].kill()
                fleet.start_worker(victim)
                victim = None
        assert victim is None, "the answer was there before the worker was killed"
        return list(zip(texts, numbers))

    def test_a_kill_changes_nothing(self):
        with Fleet(1, ["--model-name", MODEL, "--wire", "f32"]) as fleet:
            whole = self.answers(fleet)
            if not IS_QUICK:
                self.assertEqual(self.answers(fleet, 0), whole)
        for text, _ in whole:
            Person.model_validate_json(text)
        for workers in (2,) if IS_QUICK else (2, 3):
            with Fleet(workers, ["--model-name", MODEL, "--wire", "f32"]) as fleet:
                self.assertEqual(self.answers(fleet, workers - 1), whole)


if __name__ == "__main__":
    run_tests(sys.modules[__name__], sanitized=[
        "ConstrainedOutput.test_parsed_answers_are_what_was_asked_for", "ConstrainedOutput.test_calls_that_are_forced_satisfy_the_schema",
        "ConstrainedOutput.test_answers_to_random_schemas_validate", "ConstrainedOutput.test_what_cannot_be_followed_is_a_400_at_once", "BrokenChains"])
