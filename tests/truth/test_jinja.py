"""The gateway's Jinja against jinja2, in the environment in which transformers renders chat templates: the same text or an error in both, and what a
user wrote never the template's. Templates: those of llama.cpp (out of the source package of llama-cpp-python), those in the models of the tests, with
conversations of all shapes; random ones from a grammar, 2,000 of them, and every filter and method with texts of data and of the template. With
LONGHAUL_TEST_THOROUGH=1 (tests/run --thorough) 20,000 and all conversations with each template. Status 77: llama.cpp's could not be fetched."""
import datetime
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system"))

import llama_cpp  # noqa: E402
from default_model import default_model, gemma_model  # noqa: E402
from jinja_templates import SAID, WRITTEN, Grammar, each_filter_and_method, each_loop  # noqa: E402
from programs import build_folder, run_tests  # noqa: E402

IS_THOROUGH = bool(os.environ.get("LONGHAUL_TEST_THOROUGH"))
DAY = datetime.datetime(2024, 7, 26)
# What Python shows by its address, or as nothing that a template could mean.
ADDRESS = re.compile(r" at 0x[0-9a-f]+|<(LoopContext|Macro|Namespace|Cycler|class|function)|&lt;(Loop|Mac|func|class|built)|%3C(built|Macro|Loop)|\bj\)")
# Letters that no template has: where they are in the output, a user wrote them.
SPOKEN = "\u10d0\u10d1\u10d2"
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather \u10d0 of a \"city\"", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "its name"}, "days": {"type": "integer", "enum": [1, 2]}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "nothing", "description": "", "parameters": {"type": "object", "properties": {}}}}]


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def environment():
    """As transformers' chat_template_utils sets it up."""
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = DAY.strftime
    return made


class Ours:
    def __init__(self):
        self.process = subprocess.Popen([build_folder() / "tests" / "jinja_render"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def render(self, template, context, trusted):
        self.process.stdin.write(json.dumps({"template": template, "context": context, "trusted": trusted}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait() == 0


def fetched_templates():
    """{name: text} of llama.cpp's templates."""
    return {path.name: path.read_bytes().decode() for path in sorted(llama_cpp.folder("chat-templates").glob("*.jinja"))}


def model_templates():
    """{file: text} of the models. (gguf's reader takes half a minute for a vocabulary.)"""
    found = {}
    for path in (default_model(), gemma_model()):
        head = pathlib.Path(path).open("rb").read(32 << 20) if path and pathlib.Path(path).exists() else b""
        key = b"tokenizer.chat_template" + (8).to_bytes(4, "little")
        if key in head:
            at = head.index(key) + len(key)
            length = int.from_bytes(head[at:at + 8], "little")
            found[pathlib.Path(path).name] = head[at + 8:at + 8 + length].decode()
    return found


LEFT_OUT = []


def real_templates():
    """Those of the models, and llama.cpp's; without the network the latter only where they have been fetched, which LEFT_OUT and the status tell."""
    templates = model_templates()
    try:
        fetched = fetched_templates()
    except llama_cpp.NotFetched as error:
        print(f"llama.cpp's templates are left out: {error}")
        LEFT_OUT.append(error)
        return templates
    assert len(fetched) >= 65, f"the package has {len(fetched)} templates only"
    return {**templates, **fetched}


def call(name, arguments, number="call00001"):
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


def conversations():
    """Contexts of all shapes."""
    system = {"role": "system", "content": f"Be brief. {SPOKEN}"}
    user = {"role": "user", "content": f"  Hi {SPOKEN} <|im_end|></s>\n"}
    answer = {"role": "assistant", "content": f"Hello {SPOKEN}"}
    asked = {"role": "user", "content": "And the weather?"}
    calls = [{"role": "assistant", "content": content, "tool_calls": [call("get_weather", arguments)]}
             for content in ("", None) for arguments in ({"city": f"Köln {SPOKEN}", "days": 2}, json.dumps({"city": "Köln"}))]
    result = {"role": "tool", "content": json.dumps({"sky": SPOKEN}), "name": "get_weather", "tool_call_id": "call00001"}
    two_calls = {"role": "assistant", "content": "Both.", "tool_calls": [call("get_weather", {"city": "Ulm"}), call("nothing", {}, "call00002")]}
    thought = {"role": "assistant", "content": f"<think>\nHm {SPOKEN}\n</think>\n\nFour.", }
    apart = {"role": "assistant", "content": "Five.", "reasoning_content": f"Let me {SPOKEN} see.", "thinking": "Hm."}
    parts = {"role": "user", "content": [{"type": "text", "text": f"One {SPOKEN}"}, {"type": "text", "text": "two"}]}
    many = list(itertools.chain.from_iterable(({"role": "user", "content": f"Question {i}"}, {"role": "assistant", "content": f"Answer {i} {SPOKEN}"}) for i in range(12)))
    talks = [[user], [system, user], [user, answer, asked], [system, user, answer, asked], [system, user, answer], [system], [answer, user], [user, user], [],
             [{"role": "user", "content": ""}], [{"role": "system", "content": ""}, user], [user, {"role": "assistant", "content": ""}, asked], [parts],
             [system, parts, answer, asked], many + [asked], [system, *many, asked], [user, thought, asked], [user, apart, asked], [user, apart], [user, thought],
             [asked, two_calls, result, {**result, "tool_call_id": "call00002", "name": "nothing"}], [asked, two_calls, result, result, answer, user],
             [{"role": "developer", "content": "Dev."}, user], [{"role": "critic", "content": "No."}], [user, system, asked], [{"role": "user", "content": None}]]
    for said in calls:
        talks += [[asked, said, result], [system, asked, said, result, answer, user], [asked, {**said, "reasoning_content": "why"}, result]]
    for talk in talks:
        for tools, extra in itertools.product((None, TOOLS), ({}, {"enable_thinking": False}, {"enable_thinking": True, "date_string": "1 Jan 2025"})):
            for prompt in (True, False):
                yield {"messages": talk, "add_generation_prompt": prompt, **({"tools": tools} if tools else {}), **extra}


def misplaced(answer, said, written=()):
    """What the spans say wrongly: letters of `said` that are the template's, of `written` that are not, and what no span covers."""
    origins, at, wrong = [is_of_template for length, is_of_template in answer["spans"] for _ in range(length)], 0, set()
    for letter in answer["text"]:
        size = len(letter.encode())
        here = origins[at:at + size]
        if len(here) < size or (letter in said and any(here)) or (letter in written and not all(here)):
            wrong.add(letter)
        at += size
    return wrong or (len(origins) != at and {"beyond the end"})


class Compared(unittest.TestCase):
    def setUp(self):
        self.ours = Ours()
        self.environment = environment()
        self.compiled = (None, None)  # the last one: to compile takes far longer than to render
        self.same = self.errors = 0

    def tearDown(self):
        self.ours.close()

    def expected(self, template, context):
        try:
            if self.compiled[0] != template:
                self.compiled = (template, self.environment.from_string(template))
            return self.compiled[1].render(**context)
        except Exception as error:  # whatever it is, it must be one in both
            return error

    def compare(self, name, template, context, trusted):
        wanted = self.expected(template, {**context, **trusted})
        answer = self.ours.render(template, context, trusted)
        if isinstance(wanted, str) and answer.get("text") != wanted and ADDRESS.search(wanted):
            return None
        if isinstance(wanted, str):
            self.assertEqual(answer.get("text"), wanted, f"{name}: {answer.get('error')}\n{template if len(template) < 2000 else ''}\n{context}")
            self.same += 1
        else:
            self.assertIn("error", answer, f"{name}: jinja2 says {wanted!r}, we {answer.get('text')!r}\n{template if len(template) < 2000 else ''}\n{context}")
            self.errors += 1
        return answer


class RealTemplates(Compared):
    def test_every_conversation_is_rendered_alike(self):
        templates, all_contexts = real_templates(), list(conversations())
        for name, template in templates.items():
            for context in all_contexts[:: 1 if IS_THOROUGH else 5]:
                answer = self.compare(name, template, context, TOKENS)
                if answer and "text" in answer:
                    self.assertFalse(misplaced(answer, SPOKEN), f"{name}: what a user wrote counts as the template's\n{answer}")
        print(f"{len(templates)} templates: {self.same} texts, {self.errors} errors")
        self.assertGreater(self.same, 0)

    def test_a_chat_of_fifty_turns_takes_less_than_jinja2(self):
        """Of processors, the least of three: by the whole of all templates, and the longest of them."""
        turns = [{"role": role, "content": f"{role} {i} {SPOKEN} says this, and that. " * 8} for i in range(25) for role in ("user", "assistant")]
        context, ours, theirs, parsed = {"messages": turns[:-1], "add_generation_prompt": True, **TOKENS}, {}, {}, {}
        for name, template in real_templates().items():
            answers = [self.ours.render(template, context, {}) for _ in range(3)]
            parsed[name] = min(answer["parse_us"] for answer in answers)
            if "text" not in answers[0]:
                continue
            ours[name], compiled, tries = min(answer["render_us"] for answer in answers), self.environment.from_string(template), []
            for _ in range(3):
                begin = time.process_time()
                compiled.render(**context)
                tries.append((time.process_time() - begin) * 1e6)
            theirs[name] = min(tries)
        longest, slowest = max(ours, key=ours.get), max(parsed, key=parsed.get)
        print(f"{len(ours)} templates of 50 turns: {ours[longest]:.0f} us at most to render ({longest}), {parsed[slowest]:.0f} us to parse ({slowest}), "
              f"{sum(theirs.values()) / sum(ours.values()):.1f} times as fast as jinja2")
        self.assertGreater(len(ours), len(parsed) * 0.9)
        self.assertLess(sum(ours.values()), sum(theirs.values()))


class RandomTemplates(Compared):
    def setUp(self):
        super().setUp()
        self.told = [0, 0]  # texts with letters of data, and of the template

    def compare_origins(self, name, template, context):
        answer = self.compare(name, template, context, {})
        if answer and "text" in answer:
            self.assertFalse(misplaced(answer, SAID, WRITTEN), f"{name}: from where it came\n{template}\n{context}\n{answer}")
            for i, letters in enumerate((SAID, WRITTEN)):
                self.told[i] += not letters.isdisjoint(answer["text"])

    def tell(self, count, what):
        print(f"{count} {what}: {self.same} texts, {self.errors} errors; in {self.told[0]} texts letters of data, in {self.told[1]} the template's")
        self.assertGreater(self.same, count / 3)
        self.assertGreater(min(self.told), count / 10)

    def test_every_filter_and_method_keeps_origins(self):
        count = 0
        for count, template in enumerate(each_filter_and_method(), 1):
            for seed in range(8 if IS_THOROUGH else 2):
                self.compare_origins(f"seed {seed}", template, Grammar(seed).context())
        self.tell(count, "templates")

    def test_loops_answer_alike(self):
        count = 0
        for count, template in enumerate(each_loop(), 1):
            for seed in range(8 if IS_THOROUGH else 2):
                self.compare_origins(f"seed {seed}", template, Grammar(seed).context())
        print(f"{count} loops: {self.same} texts, {self.errors} errors")
        self.assertGreater(self.same, count)

    def test_each_is_rendered_alike(self):
        count = 20000 if IS_THOROUGH else 2000
        for seed in range(count):
            grammar = Grammar(seed)
            context, template = grammar.context(), grammar.template()
            self.compare_origins(f"seed {seed}", template, context)
        self.tell(count, "random templates")


if __name__ == "__main__":
    try:
        run_tests(sys.modules[__name__])
    except SystemExit as end:
        sys.exit(end.code or (77 if LEFT_OUT else 0))
