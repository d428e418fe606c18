"""Qwen 2 and 3, dense and with experts, gpt-oss, GLM-4, GLM-4.5, DeepSeek V2 and V3, Mixtral, OLMo 2, OLMoE, Granite and its mixtures and Phi 3, in
small (tests/truth/small_model.py), served: tokens, logprobs and the digests of the logits are the same with one worker and with two; the tokens of a greedy answer are those that numpy's forward pass finds most
probable; and logprobs are numpy's, with drawn tokens, too: greedy ones of random weights repeat themselves."""

import pathlib
import sys
import tempfile
import unittest

from fleet import Fleet
from programs import IS_QUICK, run_tests
from raw_http import ask

try:
    import numpy as np

    sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "truth"))
    from numpy_model import Exact, Int8, Model, log_softmax
    from small_model import MODELS, Type, Writer
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TITLES = ("qwen2", "qwen2 with yarn", "qwen3", "qwen3moe", "gpt-oss", "glm4moe as the Air ones", "deepseek2 as V3", "deepseek2 as V2-Lite")
# With matrices of one kind each.
MORE = ("mixtral", "qwen2moe", "olmoe", "granitemoe, shared", "granite", "phi3 with a window, long", "glm4, all fused", "olmo2 with windows, yarn")
# Of matrices: numpy's arithmetic, and how far a logprob may be off. Both sides round to some 1e-6 of a logit.
KINDS = {Type.F32: (Exact(), 1e-4), Type.Q8_0: (Int8(), 1e-4)}
# A token a byte: longer than the 64 positions that the files with yarn were trained for.
PROMPT = "We the People of the United States, in Order to form a more perfect Union, establish Justice"
TOKENS = 40


def answers(model, workers, overlap):
    """The choice and what was drawn, greedily and by the dice."""
    found = []
    with Fleet(workers, ["--logits-digest", "--prefix-cache", "off"], model=model) as fleet:
        assert len(fleet.fleet_state()["chains"][0]["stages"]) == workers
        for temperature in (0, 1):
            body = {"prompt": PROMPT, "max_tokens": TOKENS, "temperature": temperature, "seed": 7, "logprobs": 3, "ignore_eos": True}
            reply = ask(fleet.port, "POST", "/v1/completions", {**body, "longhaul": {"overlap": overlap}})
            assert reply.status == 200, reply.body
            found.append((reply.json()["choices"][0], fleet.drawn()))
    return found


class SmallModels(unittest.TestCase):
    def check(self, path, arithmetic, error_max):
        one = answers(path, 1, "off")
        self.assertEqual(answers(path, 2, "rows=23,columns=3"), one)
        model, different, errors = Model(path), set(), []
        for temperature, (choice, drawn) in enumerate(one):
            tokens = [token for token, _, _ in drawn]
            self.assertEqual(len(tokens), TOKENS)
            expected = log_softmax(model.logits(np.array([*PROMPT.encode(), *tokens]), arithmetic, slice(len(PROMPT) - 1, -1)))
            if temperature == 0:
                self.assertEqual(tokens, expected.argmax(axis=1).tolist())
            different.update(tokens)
            errors.append(np.abs(expected[range(TOKENS), tokens] - choice["logprobs"]["token_logprobs"]).max())
        print(f"    {len(different)} different tokens, logprobs off by {max(errors):.2g} at most")
        self.assertLess(max(errors), error_max)

    def test_one_answer(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "small.gguf"
            for number, title in enumerate(TITLES + MORE):
                kinds = list(KINDS.items())
                for kind, rest in kinds[number % 2 :][:1] if IS_QUICK or title in MORE else kinds:
                    with self.subTest(model=title, kind=kind.name):
                        Writer(path, 7, kind).write(*MODELS[title])
                        self.check(path, *rest)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
