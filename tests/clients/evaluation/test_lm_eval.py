"""lm-eval over HTTP with a task of its own: the log-likelihood of each answer, and whether it is greedy, beside what numpy computes in one process
(tests/truth/numpy_model.py); the tokenizer is the server's. A generated file of a token a byte, as numpy takes half a minute for a line of SmolLM2,
which then answers the same task."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(TESTS / "system"), str(TESTS / "truth")]
os.environ["HF_DATASETS_OFFLINE"] = os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np  # noqa: E402
from lm_eval import simple_evaluate  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

from fleet import Fleet  # noqa: E402
from numpy_model import Int8, Model, log_softmax  # noqa: E402
from raw_http import ask  # noqa: E402
from small_model import MODELS, Type, Writer  # noqa: E402

URL = os.environ["LONGHAUL_CLIENTS_URL"]
MODEL = os.environ["LONGHAUL_CLIENTS_MODEL"]
DOCUMENTS = [{"question": f"Is {number} even?", "choices": [" yes", " no, it is odd"], "answer": number % 2} for number in range(12)]
TASK = """task: longhaul_own
dataset_path: json
dataset_kwargs: {data_files: {test: "%s"}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: answer
target_delimiter: ""
metric_list: [{metric: acc}]
"""


def evaluate(url, model):
    """(log-likelihood, is_greedy) of each choice of each document, in order."""
    with tempfile.TemporaryDirectory(prefix="longhaul-lm-eval-") as folder:
        data = pathlib.Path(folder) / "documents.jsonl"
        data.write_text("".join(json.dumps(document) + "\n" for document in DOCUMENTS))
        (pathlib.Path(folder) / "own.yaml").write_text(TASK % data)
        arguments = f"model={model},base_url={url}/completions,tokenizer_backend=remote,tokenized_requests=True,num_concurrent=2,max_length=250"
        found = simple_evaluate(model="local-completions", model_args=arguments, tasks=["longhaul_own"], batch_size=4, bootstrap_iters=0,
                                task_manager=TaskManager(include_path=folder), log_samples=True)
        samples = sorted(found["samples"]["longhaul_own"], key=lambda sample: sample["doc_id"])
        assert "acc,none" in found["results"]["longhaul_own"]
        return [[(float(score), bool(greedy)) for score, greedy in sample["filtered_resps"]] for sample in samples]


class LmEval(unittest.TestCase):
    def test_log_likelihoods_are_those_of_numpy(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.gguf"
            Writer(path, 3, Type.Q8_0).write(*MODELS["qwen3"])
            truth = Model(str(path))
            with Fleet(2, model=path) as fleet:
                model = ask(fleet.port, "GET", "/v1/models").json()["data"][0]["id"]
                got = evaluate(f"{fleet.url}/v1", model)
            for document, scored in zip(DOCUMENTS, got, strict=True):
                for choice, (score, greedy) in zip(document["choices"], scored, strict=True):
                    question, whole = len(document["question"].encode()), list((document["question"] + choice).encode())
                    rows = log_softmax(truth.logits(np.array(whole), Int8()))[question - 1:-1]
                    self.assertAlmostEqual(score, sum(row[token] for row, token in zip(rows, whole[question:])), delta=1e-3)
                    self.assertEqual(greedy, all(row.argmax() == token for row, token in zip(rows, whole[question:])))

    def test_a_real_model(self):
        first = evaluate(URL, MODEL)
        self.assertEqual(len(first), len(DOCUMENTS))
        self.assertTrue(all(score < 0 for scored in first for score, _ in scored))
        self.assertEqual(evaluate(URL, MODEL), first)


if __name__ == "__main__":
    unittest.main()
