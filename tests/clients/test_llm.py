"""llm, the command: a prompt, and --schema."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from real_fleet import KEY, MODEL, URL, Weather

PATIENCE_S = 300


class Llm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="longhaul-llm-"))
        models = [{"model_id": "longhaul", "model_name": MODEL, "api_base": URL, "supports_schema": True, "supports_tools": True}]
        # JSON is YAML.
        (pathlib.Path(cls.folder) / "extra-openai-models.yaml").write_text(json.dumps(models))

    def run_llm(self, *arguments):
        command = [sys.executable, "-m", "llm", "-m", "longhaul", "--key", KEY, *arguments]
        done = subprocess.run(command, env={**os.environ, "LLM_USER_PATH": self.folder}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_prompt(self):
        for more in ((), ("--no-stream",)):
            self.assertTrue(self.run_llm("-o", "max_tokens", "8", *more, "Hello").strip())

    def test_schema(self):
        for more in ((), ("--no-stream",)):
            said = self.run_llm("-o", "max_tokens", "60", *more, "--schema", json.dumps(Weather.model_json_schema()), "The weather in Paris?")
            Weather.model_validate_json(said)


if __name__ == "__main__":
    unittest.main()
