"""Codex CLI, OpenAI's coding agent, as it is, without any network but this server: a conversation with a real model, resumed; and over the scripted
engine, which says what a capable model would, a command that is run and its result. The instructions are short, and the catalog of models is none
of ours, since its own take more than the context of the smallest model that this suite serves."""

import json
import os
import pathlib
import re
import sys
import tempfile
import unittest

import codex_cli_bin

import loopback_only
from real_fleet import MODEL, URL

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "system"))

from test_http_raw import Gateway

PATIENCE_S = 600
INSTRUCTIONS = "You are a coding agent in a terminal. Answer in one short sentence."
# Of a script only the last message counts, and a result of a tool is none.
SCRIPTED = """{%- for tool in tools or [] %}{% endfor -%}{%- for message in messages -%}<|im_start|>{{ message.role }}
{% if message.role == "user" and not messages[loop.index0 + 1:] %}{{ message.content }}{% elif loop.last and message.role == "tool" %}@@text=It says {{ message.content | replace("\\n", " ") | replace("@@", "") }}{% else %}{{ (message.content or "") | replace("@@", "") }}{% endif %}<|im_end|>
{% endfor -%}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def config(model, port):
    return f"""model = "{model}"
model_provider = "longhaul"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
model_instructions_file = "instructions.md"
model_context_window = 8192
[analytics]
enabled = false
[model_providers.longhaul]
name = "Longhaul"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""


class Codex:
    """A home of its own, outside of /tmp, where Codex does not want to have one."""

    def __init__(self, case, model, port):
        folder = case.enterClassContext(tempfile.TemporaryDirectory(prefix="longhaul-codex-", dir=pathlib.Path.home()))
        self.home, self.work, self.port = pathlib.Path(folder) / "home", pathlib.Path(folder) / "work", port
        self.home.mkdir()
        self.work.mkdir()
        (self.home / "config.toml").write_text(config(model, port))
        (self.home / "instructions.md").write_text(INSTRUCTIONS)

    def run(self, *arguments):
        """The events that it tells."""
        command = [str(codex_cli_bin.bundled_codex_path()), "exec", *arguments]
        done = loopback_only.run(self.port, command, cwd=self.work, env={**os.environ, "CODEX_HOME": str(self.home), "HOME": str(self.home)},
                                 stdin=-3, capture_output=True, text=True, timeout=PATIENCE_S)
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert done.returncode == 0 and not [event for event in events if event["type"] in ("error", "turn.failed")], (done.stdout[-3000:], done.stderr[-3000:])
        return events

    def ask(self, prompt):
        return self.run("--json", "--skip-git-repo-check", prompt)

    def go_on(self, prompt):
        return self.run("resume", "--last", "--json", "--skip-git-repo-check", prompt)


def said(events):
    return [event["item"]["text"] for event in events if event["type"] == "item.completed" and event["item"]["type"] == "agent_message"]


def usage(events):
    return next(event["usage"] for event in events if event["type"] == "turn.completed")


class RealModel(unittest.TestCase):
    def test_a_conversation_is_resumed(self):
        codex = Codex(type(self), MODEL, int(re.search(r":(\d+)/", URL).group(1)))
        first = codex.ask("Say hello.")
        self.assertTrue(said(first), first)
        again = codex.go_on("Say it again.")
        self.assertTrue(said(again), again)
        cached, whole = usage(again)["cached_input_tokens"], usage(again)["input_tokens"]
        print(f"   first turn: {usage(first)['input_tokens']} tokens in; resumed: {whole}, {cached} of them from the cache")
        self.assertGreater(cached, usage(first)["input_tokens"] // 2, "the second turn begins as the first one did")


class ScriptedModel(unittest.TestCase):
    """A tiny model writes no sensible command. What the server does of one that does shows with a script in its place."""

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="longhaul-codex-template-"))
        path = pathlib.Path(folder) / "template.jinja"
        path.write_text(SCRIPTED)
        cls.gateway = Gateway("--chat-template", str(path), "--context", "200000")
        cls.addClassCleanup(cls.gateway.stop)

    def test_a_command_is_run_and_its_result_told(self):
        codex = Codex(type(self), "tests/tiny-llama", self.gateway.port)
        (codex.work / "secret.txt").write_text("swordfish")
        call = '<tool_call>\\x0a{"name": "exec_command", "arguments": {"cmd": "cat secret.txt"}}\\x0a</tool_call>'
        events = codex.ask(f"@@text={call}")
        commands = [event["item"] for event in events if event["type"] == "item.completed" and event["item"]["type"] == "command_execution"]
        self.assertEqual([(one["exit_code"], one["aggregated_output"]) for one in commands], [(0, "swordfish")], events)
        self.assertIn("swordfish", said(events)[-1])
        again = codex.go_on("@@text=Once more.")
        self.assertEqual(said(again), ["Once more."], again)


if __name__ == "__main__":
    unittest.main(verbosity=0)
