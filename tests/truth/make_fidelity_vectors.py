#!/usr/bin/env python3
"""Writes tests/vectors/fidelity.npz: next-token distributions of SmolLM2 on constitution.txt, by numpy_model.py.

  python3 tests/truth/make_fidelity_vectors.py MODEL.gguf        (about 5 minutes)

For each window of 512 tokens and each position, the 64 most probable tokens and their log probabilities, for
  exact_q4_1   float64 on the dequantized weights of the Q4_1 file
  int8_q4_1    the arithmetic of kernels.h on the Q4_1 file
  exact_f16    float64 on the weights of the F16 file that make_f16_model.py makes of it
"""
import pathlib
import sys
import tempfile

import numpy as np
from gguf import GGUFReader
from tokenizers import Tokenizer, models, pre_tokenizers

import make_f16_model
from numpy_model import Exact, Int8, Model, log_softmax

VECTORS = pathlib.Path(__file__).parent.parent / "vectors"
WINDOW, TOP = 512, 64


def tokenize(model, text):
    reader = GGUFReader(model)
    get = lambda key: reader.fields[f"tokenizer.ggml.{key}"].contents()
    assert get("pre") == "smollm"
    tokenizer = Tokenizer(
        models.BPE(vocab={t: i for i, t in enumerate(get("tokens"))}, merges=[tuple(m.split(" ")) for m in get("merges")])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return np.array(tokenizer.encode(text).ids, dtype=np.uint32)


def top(model, tokens, arithmetic):
    ids, logprobs = [], []
    for start in range(0, len(tokens), WINDOW):
        values = log_softmax(model.logits(tokens[start : start + WINDOW], arithmetic))
        best = np.argsort(-values, axis=1, kind="stable")[:, :TOP]
        ids.append(best.astype(np.uint16))
        logprobs.append(np.take_along_axis(values, best, axis=1).astype(np.float32))
        print(f"  {start + len(values)} of {len(tokens)}", flush=True)
    return np.concatenate(ids), np.concatenate(logprobs)


def main(path):
    tokens = tokenize(path, (VECTORS / "constitution.txt").read_text())
    arrays = {"tokens": tokens}
    with tempfile.TemporaryDirectory() as folder:
        f16 = pathlib.Path(folder) / "f16.gguf"
        make_f16_model.convert(path, f16)
        for name, file, arithmetic in (
            ("exact_q4_1", path, Exact()),
            ("int8_q4_1", path, Int8()),
            ("exact_f16", f16, Exact()),
        ):
            print(name, flush=True)
            arrays[f"{name}_ids"], arrays[f"{name}_logprobs"] = top(Model(file), tokens, arithmetic)
    np.savez_compressed(VECTORS / "fidelity.npz", **arrays)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
