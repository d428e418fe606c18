"""The gateway's Jinja against jinja2, in the environment in which transformers renders chat templates: the same text or an error in both, and what a
user wrote never the template's. Templates: those of llama.cpp (out of the source package of llama-cpp-python), those in the models of the tests, with
conversations of all shapes; and random ones from a grammar, 2,000 of them, with
LONGHAUL_TEST_THOROUGH=1 (tests/run --thorough) 20,000 and all conversations with each template."""
import datetime
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system"))

from default_model import default_model, gemma_model  # noqa: E402
from jinja_templates import Grammar  # noqa: E402
from programs import build_folder, run_tests  # noqa: E402

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
CACHE = ROOT / ".cache" / "chat-templates"
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
    """{name: text} of llama.cpp's templates. They are taken out of the package once."""
    if not CACHE.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--no-binary", PACKAGE, "-d", folder,
                            f"{PACKAGE}=={VERSION}"], check=True, timeout=600)
            aside = pathlib.Path(tempfile.mkdtemp(dir=CACHE.parent))
            with tarfile.open(next(pathlib.Path(folder).glob("*.tar.gz"))) as package:
                for member in package:
                    if "/models/templates/" in member.name and member.name.endswith(".jinja"):
                        (aside / pathlib.Path(member.name).name).write_bytes(package.extractfile(member).read())
            aside.rename(CACHE)
    return {path.name: path.read_bytes().decode() for path in sorted(CACHE.glob("*.jinja"))}


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


def is_spoken_by_users(answer):
    """Whether all letters that users wrote come from data, by the spans."""
    at, text = 0, answer["text"].encode()
    for length, is_of_template in answer["spans"]:
        if is_of_template and any(letter in text[at:at + length].decode(errors="replace") for letter in SPOKEN):
            return False
        at += length
    return at == len(text)


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
        templates = model_templates()
        try:
            templates.update(fetched_templates())
        except (OSError, subprocess.SubprocessError, StopIteration) as error:
            print(f"llama.cpp's templates are left out, the package cannot be fetched: {error}")
        parse_us, all_contexts = 0, list(conversations())
        for name, template in templates.items():
            for context in all_contexts[:: 1 if IS_THOROUGH else 5]:
                answer = self.compare(name, template, context, TOKENS)
                if answer and "text" in answer:
                    self.assertTrue(is_spoken_by_users(answer), f"{name}: what a user wrote counts as the template's\n{answer}")
                    parse_us = max(parse_us, answer["parse_us"])
        print(f"{len(templates)} templates: {self.same} texts, {self.errors} errors, the longest parse {parse_us:.0f} us")
        self.assertGreater(self.same, 0)


class RandomTemplates(Compared):
    def test_each_is_rendered_alike(self):
        count = 20000 if IS_THOROUGH else 2000
        for seed in range(count):
            grammar = Grammar(seed)
            context, template = grammar.context(), grammar.template()
            self.compare(f"seed {seed}", template, context, {})
        print(f"{count} templates: {self.same} texts, {self.errors} errors")
        self.assertGreater(self.same, count / 3)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
