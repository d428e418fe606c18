"""Answers that must have a form, by the official `openai` client against a gateway and its workers: every finished answer has it, at a temperature at
which nothing would have it by chance, and what cannot be followed is a 400 with its place. Random schemas and regular expressions: 16 of each (4 under the
sanitizers), with LONGHAUL_TEST_THOROUGH=1 (tests/run --thorough) 1,000 and 200, the grammars of tests/truth/test_gbnf.py a dozen times each, and 200 schemas with
Gemma."""
import concurrent.futures
import enum
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import threading
import unittest

from default_model import gemma_model
from fleet import Fleet
from programs import IS_QUICK, PATIENCE_S, cpu_seconds, need_file, run_tests
from raw_http import ask

try:
    import jsonschema
    import openai
    import pydantic
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "truth"))

import llama_cpp  # noqa: E402
import test_gbnf  # noqa: E402
from test_gbnf import llguidance  # noqa: E402
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


def check_random_schemas(test, client, count):
    """Answers, many at once: those that are finished are what a random schema says, its formats, too."""
    def finished(seed):
        schema, _ = RandomSchemas(seed).whole()
        choice = client.completions.create(model=MODEL, prompt="A person, as JSON: ", temperature=1.5, max_tokens=150, seed=seed, extra_body={"guided_json": schema}).choices[0]
        if choice.finish_reason == "stop":
            validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
            problems = [problem.message for problem in validator.iter_errors(json.loads(choice.text))]
            test.assertEqual(problems, [], f"seed {seed}: {choice.text} is no answer to {json.dumps(schema)}")
        return choice.finish_reason == "stop"

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        whole = sum(pool.map(finished, range(count)))
    print(f"{count} schemas, {whole} answers finished")
    test.assertGreater(whole, count / 2)


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
        check_random_schemas(self, self.client, SCHEMAS)

    def test_answers_to_random_regexes_match(self):
        def matched(seed):
            """Whether the answer was finished, and whether it was compared."""
            pattern = random_pattern(random.Random(seed), 3)
            choice = self.chat(extra_body={"guided_regex": pattern}, seed=seed, max_tokens=60).choices[0]
            text, is_finished = choice.message.content, choice.finish_reason == "stop"
            if is_finished and is_ours(text):
                self.assertTrue(re.fullmatch(pattern, text), (pattern, text))
            return is_finished, is_finished and is_ours(text)

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            whole, compared = map(sum, zip(*pool.map(matched, range(REGEXES))))
        print(f"{REGEXES} regexes, {whole} answers finished, {compared} compared: others have characters that Python takes for other ones")
        self.assertGreater(whole, REGEXES / 2)
        self.assertGreater(compared, REGEXES / 3)

    def test_grammars_that_people_share(self):
        """By our own matcher, which tests/truth/test_gbnf.py judges, and by llguidance."""
        try:
            folder = llama_cpp.folder("gbnf")
        except llama_cpp.NotFetched as problem:
            self.skipTest(str(problem))
        lines = []
        for path in sorted(folder.glob("*.gbnf")):
            for seed in range(12 if IS_THOROUGH else 1):
                choice = self.chat(extra_body={"guided_grammar": path.read_text()}, seed=seed, max_tokens=200 if IS_THOROUGH else 100).choices[0]
                if choice.finish_reason == "stop":
                    lines.append((path, choice.message.content))
        data = "".join(f"g {path.read_bytes().hex()}\nt {text.encode().hex()}\n" for path, text in lines)
        answers = subprocess.run([test_gbnf.TOOL], input=data, capture_output=True, text=True, check=True).stdout.split()
        self.assertTrue(lines)
        self.assertEqual(answers, ["ok", "1"] * len(lines), lines)
        judged = 0
        for path, text in lines:
            if "json" in path.name:
                json.loads(text)
            if llguidance and path.name not in test_gbnf.TAKEN_OTHERWISE:
                self.assertTrue(test_gbnf.is_accepted(path.read_text(), text), (path.name, text))
                judged += 1
        print(f"{len(lines)} answers to shared grammars finished, {judged} of them judged by llguidance")

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

    def test_tags_stand_in_free_text(self):
        """A word that a model writes soon is the trigger: what follows it is what the schema says, wherever it stands."""
        colour = {"type": "object", "properties": {"colour": {"enum": ["red", "green"]}}, "required": ["colour"], "additionalProperties": False}
        structures = {"structures": [{"begin": " the ", "schema": colour, "end": "!"}], "triggers": [" the"]}
        tags = [{"begin": " the ", "content": {"type": "json_schema", "json_schema": colour}, "end": "!"}]
        spellings = ({"response_format": {"type": "structural_tag", **structures}}, {"extra_body": {"structural_tag": structures}},
                     {"extra_body": {"structured_outputs": {"structural_tag": json.dumps(structures)}}},
                     {"response_format": {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": [" the"], "tags": tags}}})
        answers = [self.chat(max_tokens=120, seed=3, temperature=0.5, **spelling).choices[0] for spelling in spellings]
        text = answers[0].message.content
        self.assertEqual([answer.message.content for answer in answers], [text] * len(answers))
        behind = text.split(" the")[1:]
        self.assertGreater(len(behind), 1)
        for part in behind[:-1] if answers[0].finish_reason == "length" else behind:
            jsonschema.validate(json.loads(part[:part.index("!")]), colour)

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
        schema = {"type": "object", "properties": {"a": {"type": "array", "maxContains": 1}}}
        with self.assertRaises(openai.BadRequestError) as raised:
            self.chat(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})
        self.assertEqual(raised.exception.param, "response_format")
        self.assertIn("Invalid schema for response_format 'n': #/properties/a: 'maxContains' is not supported", str(raised.exception))
        for fields in ({"guided_regex": "("}, {"guided_grammar": "root"}, {"guided_choice": []}, {"guided_json": {"type": "x"}}):
            with self.assertRaises(openai.BadRequestError) as raised:
                self.guided(**fields)
            self.assertEqual(raised.exception.param, next(iter(fields)))

    def test_what_no_token_can_begin_is_a_400_however_often(self):
        for _ in range(3):
            reply = ask(self.fleet.port, "POST", "/v1/completions", {"prompt": "x", "max_tokens": 1, "guided_choice": ["\u0004"]})
            self.assertEqual((reply.status, reply.error()["param"]), (400, "guided_choice"))
        self.assertEqual(self.guided(guided_choice=["yes"]), "yes")

    def measure(self, path, body):
        """(status, seconds of the gateway's processors, whether it answered others meanwhile)"""
        ended, lively = threading.Event(), []

        def look():
            while not ended.is_set():
                lively.append(self.fleet.get("/livez")[0] == 200)
                ended.wait(0.05)

        looking = threading.Thread(target=look)
        begun = cpu_seconds(self.fleet.gateway.pid)
        looking.start()
        reply = ask(self.fleet.port, "POST", path, {"model": MODEL, "max_tokens": 1, "messages": ASK, **body})
        ended.set()
        looking.join()
        return reply, cpu_seconds(self.fleet.gateway.pid) - begun, all(lively)

    def test_what_would_take_long_to_compile_is_answered_at_once(self):
        """Each within a second of the gateway's processors, which is what it has from the clock, too, where it need not share them."""
        words = ["".join(random.Random(seed).choices("abcdefgh", k=100)) for seed in range(10000)]
        futile = [{"type": "object", "properties": {"a": {"type": "string", "maxLength": 40, "allOf": [{"pattern": "^(a|b)*a(a|b){8}$"}, {"pattern": f"^[ab]{{{i + 5},}}c$"}]}}}
                  for i in range(256)]
        deep = '{"properties": {"a": ' * 500 + "{}" + "}}" * 500  # 1,000 values inside one another
        tags = {"type": "structural_tag", "structures": [{"begin": "<f>", "schema": schema, "end": "</f>"} for schema in futile], "triggers": ["<f>"]}
        cases = {
            "a schema of 1 MB": (400, {"guided_json": {"properties": {word: {"type": "string"} for word in words}}}),
            "a schema of 1 MB, as text": (400, {"guided_json": json.dumps({"enum": words})}),
            "1,000 deep, as text": (400, {"guided_json": deep}),
            "an expression of 1 MB": (400, {"guided_regex": "(ab|c)*d" * 125000}),
            "a large repetition": (400, {"guided_regex": "a{1,1000000000}"}),
            "a grammar of 1 MB": (400, {"guided_grammar": "root ::= " + " | ".join(f'"{word}"' for word in words)}),
            "a grammar's large repetition": (400, {"guided_grammar": 'root ::= "a"{1,1000000000}'}),
            "a choice of 1 MB": (400, {"guided_choice": words}),
            "64 tools": (400, {"tools": [self.tool(f"f{i}", schema, strict=True) for i, schema in enumerate(futile[:64])], "tool_choice": "required"}),
            "256 structures": (400, {"response_format": tags}),
        }
        for name, (status, body) in cases.items():
            with self.subTest(name):
                reply, seconds, is_lively = self.measure("/v1/chat/completions", body)
                print(f"{name}: {reply.status} after {seconds:.2f} s of processors; {reply.error()['message'][:120] if reply.status != 200 else ''}")
                self.assertEqual(reply.status, status)
                self.assertTrue(is_lively)
                self.assertLess(seconds, 1)


    def test_an_answer_that_can_be_read_in_too_many_ways_ends_with_an_error(self):
        """Words of words of words: the more of them, the more ways there are to read what follows."""
        grammar = {"guided_grammar": 'root ::= e\ne ::= t ("+" e)?\nt ::= [a-z]+ t? | [a-z] e?'}
        with self.assertRaises(openai.BadRequestError) as raised:
            self.chat(max_tokens=300, extra_body=grammar)
        self.assertIn("in too many ways", str(raised.exception))
        with self.assertRaises(openai.APIError) as raised:
            for _ in self.chat(max_tokens=300, stream=True, extra_body=grammar):
                pass
        self.assertIn("in too many ways", str(raised.exception))


class AnotherVocabulary(unittest.TestCase):
    """Gemma 3: 262,144 tokens, made by SentencePiece."""

    def test_answers_to_random_schemas_validate(self):
        if not IS_THOROUGH:
            self.skipTest("takes minutes: LONGHAUL_TEST_THOROUGH=1")
        model = need_file(gemma_model(), "no Gemma: LONGHAUL_TEST_GEMMA names no file")
        with Fleet(2, ["--model-name", MODEL], model=model) as fleet:
            check_random_schemas(self, openai.OpenAI(base_url=fleet.url + "/v1", api_key="none", max_retries=0, timeout=PATIENCE_S), 200)


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
