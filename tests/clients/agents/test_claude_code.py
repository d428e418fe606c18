"""Claude Code as its wheel has it, against two gateways of its own: the scripted engine, whose answers its prompts write down, so that a whole session with
its own long prompt and all of its tools goes as planned (hello, a call of a tool and its result, a session that is resumed); and a fleet with a real model,
with a prompt that fits its context (hello, a second turn that finds the first one in the caches).

All of it, gateways, workers and Claude Code, runs in a network namespace of its own that has nothing but loopback: nothing can leave the machine. Prints
what requests left out, and the seconds to the first token."""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(TESTS / "system"))

from fleet import Fleet
from programs import wait_until
from raw_http import ask
from test_http_raw import Gateway

ALONE = "LONGHAUL_CLIENTS_ALONE"
PATIENCE_S = 900
# What Claude Code says beside the API is off by its own switches.
QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1"}
# ChatML with tools, where only what was said last may be a script: Claude Code speaks as the system behind the user.
TEMPLATE = """{%- set at = namespace(last=0) -%}
{%- for message in messages -%}{%- if message.role in ["user", "tool"] -%}{%- set at.last = loop.index0 -%}{%- endif -%}{%- endfor -%}
{%- for tool in tools or [] %}<tool>{{ tool.function | tojson | replace("@@", "") }}</tool>
{% endfor -%}
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ (message.content or "") if loop.index0 == at.last else (message.content or "") | replace("@@", "") }}{% for call in message.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson | replace("@@", "") }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def script(said):
    escaped = said.replace("\n", "\\x0a")
    return f"@@text={escaped}"


def call(name, arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


class ClaudeCode:
    """The program, with a home and a folder of its own, pointed at a gateway."""

    def __init__(self, port, model, **more):
        self.temporary = tempfile.TemporaryDirectory(prefix="longhaul-claude-")
        self.home, self.work = (pathlib.Path(self.temporary.name) / name for name in ("home", "work"))
        self.home.mkdir()
        self.work.mkdir()
        package = pathlib.Path(importlib.util.find_spec("claude_agent_sdk").origin).parent
        self.program = package / "_bundled" / "claude"
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}", "ANTHROPIC_API_KEY": "x",
                            "ANTHROPIC_MODEL": model, "API_TIMEOUT_MS": str(PATIENCE_S * 1000), **QUIET, **more}

    def version(self):
        return subprocess.run([self.program, "--version"], env=self.environment, capture_output=True, text=True, check=True).stdout.strip()

    def ask(self, prompt, *flags):
        """What it says at its end, as JSON."""
        done = subprocess.run([self.program, "-p", prompt, "--output-format", "json", *flags], cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE_S)
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise AssertionError(f"claude ended with {done.returncode}: {done.stdout}\n{done.stderr}")


def left_out(log):
    return sorted(set(re.findall(r'is left out kind="([^"]*)"', log)))


def statuses(log):
    return re.findall(r"route=/v1/messages status=(\d+)", log)


class WholeSession(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="longhaul-agents-"))
        path = pathlib.Path(folder) / "template.jinja"
        path.write_text(TEMPLATE)
        cls.gateway = Gateway("--chat-template", str(path), "--context", "400000")
        cls.addClassCleanup(cls.gateway.stop)
        cls.claude = ClaudeCode(cls.gateway.port, "tests/tiny-llama")
        cls.addClassCleanup(cls.claude.temporary.cleanup)
        print(f"   {cls.claude.version()}", flush=True)

    def said(self, result):
        self.assertFalse(result["is_error"], result)
        return result["result"]

    def test_a_session(self):
        first = self.claude.ask(script("Hello there."))
        self.assertEqual(self.said(first), "Hello there.")
        note = self.claude.work / "note.txt"
        note.write_text(script("The note says 42."))
        looked = self.claude.ask(script("Let me look." + call("Read", {"file_path": str(note)})), "--continue")
        self.assertEqual((self.said(looked), looked["num_turns"], looked["session_id"]), ("The note says 42.", 2, first["session_id"]))
        resumed = self.claude.ask(script("Again."), "--resume", first["session_id"])
        self.assertEqual(self.said(resumed), "Again.")
        wait_until(lambda: len(statuses(self.gateway.program.log_text())) >= 4, "each request has its line")
        log = self.gateway.program.log_text()
        self.assertEqual(set(statuses(log)), {"200"})
        print(f"   left out: {', '.join(left_out(log)) or 'nothing'}", flush=True)


class RealModel(unittest.TestCase):
    """A prompt of its own and one tool: what a small model's context has room for. Such a model does not know when to stop, so its answers are short ones
    that are cut, which Claude Code goes on with a few times and then tells as an error; the session goes on all the same."""

    FLAGS = ("--system-prompt", "You are a helpful assistant.", "--tools", "Read")

    def asked(self, claude, log_of, prompt, *flags):
        """How many tokens its prompts had in the caches, and the tokens and seconds to the first token of its first request."""
        before = len(statuses(log_of()))
        result = claude.ask(prompt, *flags, *self.FLAGS)
        self.assertTrue(not result["is_error"] or result.get("api_error") == "max_output_tokens", result)
        wait_until(lambda: len(statuses(log_of())) > before, "its requests have their lines")
        self.assertEqual(set(statuses(log_of())), {"200"})
        first_ms, tokens = re.findall(r"route=/v1/messages .* first_token_ms=(\S+) .* tokens_in=(\d+)", log_of())[before]
        (used,) = result["modelUsage"].values()
        return used["cacheReadInputTokens"], int(tokens), float(first_ms) / 1000

    def test_a_second_turn_hits_the_caches(self):
        with Fleet(workers=2, gateway_flags=["--request-timeout", str(PATIENCE_S)]) as fleet:
            model = ask(fleet.port, "GET", "/v1/models").json()["data"][0]["id"]
            claude = ClaudeCode(fleet.port, model, CLAUDE_CODE_MAX_OUTPUT_TOKENS="16")
            self.addCleanup(claude.temporary.cleanup)
            _, tokens, cold_s = self.asked(claude, fleet.gateway.log_text, "Say hello.")
            cached, again, warm_s = self.asked(claude, fleet.gateway.log_text, "And once more.", "--continue")
            self.assertGreater(cached, tokens - 128)
            print(f"   {model}: first token after {cold_s:.1f} s of {tokens} tokens, in the next turn after {warm_s:.1f} s of {again}", flush=True)


def enter_own_network():
    """Starts this anew where there is nothing but loopback."""
    up = 'ip link set lo up && exec "$@"'
    os.execvpe("unshare", ["unshare", "--map-root-user", "--net", "sh", "-c", up, "sh", sys.executable, *sys.argv], {**os.environ, ALONE: "1"})


if __name__ == "__main__":
    if ALONE not in os.environ:
        enter_own_network()
    unittest.main()
