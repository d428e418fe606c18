"""JSON Schemas against jsonschema: what a schema's grammar accepts is valid (texts made by random walks through it), and what is valid, written in the
schema's order, is accepted. Random schemas, 150 of them, with LONGHAUL_TEST_THOROUGH=1 (tests/run --thorough) 1,000; and those that people send."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system"))

from programs import build_folder, is_sanitized, run_tests  # noqa: E402
from random_schemas import RandomSchemas  # noqa: E402

SCHEMAS = 1000 if os.environ.get("LONGHAUL_TEST_THOROUGH") else 150
FORMATS = jsonschema.Draft202012Validator.FORMAT_CHECKER


class Ours:
    def __init__(self):
        self.process = subprocess.Popen([build_folder() / "tests" / "schema_walk"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def ask(self, schema, texts=(), walks=0, seed=0):
        json.dump({"schema": schema, "texts": texts, "walks": walks, "seed": seed}, self.process.stdin)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"schema_walk ended at {json.dumps(schema)}"
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        assert self.process.wait() == 0
        self.process.stdout.close()


def text_of(value):
    return json.dumps(value, ensure_ascii=False)


class Schemas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ours = Ours()
        cls.addClassCleanup(cls.ours.close)

    def check(self, schema, values, seed=0, walks=6):
        validator = jsonschema.Draft202012Validator(schema, format_checker=FORMATS)
        answer = self.ours.ask(schema, [text_of(value) for value in values], walks, seed)
        said = f"seed {seed}: {json.dumps(schema, ensure_ascii=False)}"
        self.assertNotIn("error", answer, said)
        for value, accepted in zip(values, answer["accepted"], strict=True):
            validator.validate(value)
            self.assertTrue(accepted, f"not accepted: {text_of(value)}; {said}")
        for text in answer["walked"]:
            problems = [problem.message for problem in validator.iter_errors(json.loads(text))]
            self.assertEqual(problems, [], f"{text}; {said}")
        return answer

    def test_random_schemas_write_what_validates_and_accept_what_is_valid(self):
        walked = unfinished = 0
        compiled_us = []
        for seed in range(SCHEMAS):
            schema, values = RandomSchemas(seed).whole()
            answer = self.check(schema, values, seed)
            walked += len(answer["walked"])
            unfinished += answer["unfinished"]
            compiled_us.append(answer["compile_us"])
        compiled_us.sort()
        print(f"{SCHEMAS} schemas, {walked} texts walked, {unfinished} not finished; compiled in {compiled_us[SCHEMAS // 2]} us, the slowest in {compiled_us[-1]}")
        self.assertLess(unfinished, walked / 20)
        # Of processors. The slowest was seen to take 6 ms.
        self.assertLess(compiled_us[-1], 50000 * (20 if is_sanitized() else 1))


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
