"""guidellm: a benchmark of a few streams over chat and over completions, whose requests all end, and what it measured."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

URL = os.environ["LONGHAUL_CLIENTS_URL"]
MODEL = os.environ["LONGHAUL_CLIENTS_MODEL"]
REQUESTS = 6
TOKENS = 12


class GuideLLM(unittest.TestCase):
    def measure(self, kind):
        with tempfile.TemporaryDirectory(prefix="longhaul-guidellm-") as folder:
            data, report = pathlib.Path(folder) / "prompts.jsonl", pathlib.Path(folder) / "report.json"
            data.write_text("".join(json.dumps({"prompt": f"Count to {i}: ", "output_tokens_count": TOKENS}) + "\n" for i in range(3, 15)))
            done = subprocess.run(
                [pathlib.Path(sys.executable).parent / "guidellm", "benchmark", "run", "--target", URL.removesuffix("/v1"), "--model", MODEL,
                 "--backend-args", json.dumps({"max_output_tokens": TOKENS}), "--data", str(data), "--data-args",
                 json.dumps({"prompt_column": "prompt", "output_tokens_count_column": "output_tokens_count"}), "--rate-type", "concurrent",
                 "--rate", "3", "--max-requests", str(REQUESTS), "--output-path", str(report), "--disable-progress", "--disable-console-outputs"],
                env={**os.environ, "GUIDELLM__PREFERRED_ROUTE": kind, "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-4000:])
            (benchmark,) = json.loads(report.read_text())["benchmarks"]
            return benchmark

    def check(self, kind):
        benchmark = self.measure(kind)
        requests = benchmark["requests"]
        self.assertEqual((len(requests["successful"]), requests["incomplete"], requests["errored"]), (REQUESTS, [], []))
        for request in requests["successful"]:
            self.assertEqual(request["output_tokens"], TOKENS)
            self.assertGreater(request["prompt_tokens"], 3)
            self.assertGreater(request["time_to_first_token_ms"], 0)
        self.assertGreater(benchmark["metrics"]["output_tokens_per_second"]["successful"]["mean"], 0)

    def test_chat(self):
        self.check("chat_completions")

    def test_completions(self):
        self.check("text_completions")


if __name__ == "__main__":
    unittest.main()
