"""Every architecture and kind of rope scaling beside numpy_model.py, on the files of small_model.py: with F32 matrices against
float64, with quantized ones against the arithmetic of kernels.h, operation for operation, both q8 and q16. The C code runs as
one stage, and as several with column shards, chunks and threads, in each instruction set that this machine has: all of it gives the same bits.
Every third architecture with q16, whose products are the same for all; each of them with LONGHAUL_TEST_THOROUGH=1 (tests/run --thorough).

  test_architectures.py MODEL.gguf...      compares given files with float64 on their dequantized weights instead (minutes each)
"""
import itertools
import os
import pathlib
import sys
import tempfile

import numpy as np
from gguf import GGMLQuantizationType as Type

from longhaul_logits import instruction_sets, longhaul_logits
from numpy_model import Exact, Int8, Model, divergence
from small_model import MODELS, VOCABULARY, Writer

TOKENS = 64
Q16_EVERY = 1 if os.environ.get("LONGHAUL_TEST_THOROUGH") else 3
# Each instruction set with its own; the reference is slow.
CUTS = (["--column-shards", "3", "--chunk-rows", "23"], ["--column-shards", "2", "--chunk-rows", "7", "--threads", "2"],
        ["--column-shards", "4", "--chunk-rows", "16", "--threads", "3"])


def check(title, path, arithmetic, bounds, activations="q8"):
    tokens = np.random.default_rng(5).integers(0, VOCABULARY, TOKENS)
    expected = Model(str(path)).logits(tokens, arithmetic)
    logits = longhaul_logits(path, tokens, "--activations", activations, "--stages", "1")
    error, kl = np.abs(logits - expected).max() / np.abs(expected).max(), divergence(expected, logits).max()
    others = [name for name, cut in zip(instruction_sets(path), itertools.cycle(CUTS)) if not np.array_equal(
        logits, longhaul_logits(path, tokens, "--activations", activations, "--stages", "2", "--isa", name, *cut))]
    good = error <= bounds[0] and kl <= bounds[1] and not others
    print(f"{'ok  ' if good else 'FAIL'} {title}: error {error:.2g} of the greatest logit (<= {bounds[0]:g}), max KL {kl:.2g} (<= {bounds[1]:g})"
          + "".join(f"; other bits with {name}" for name in others), flush=True)
    return good


def check_given(paths):
    """Bounds that a sound file keeps, whatever its types: quantized activations alone give a KL of some 1e-2."""
    return 0 if all([check(path, path, Exact(), (0.2, 0.5)) for path in paths]) else 1


def main():
    good = True
    if len(sys.argv) > 1:
        return check_given(sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "model.gguf"
        for seed, (title, shape) in enumerate(MODELS.items()):
            Writer(path, seed, Type.F32).write(*shape)
            good = check(f"{title}, F32", path, Exact(), (2e-5, 1e-8)) and good
            Writer(path, seed, Type.Q8_0).write(*shape)
            for activations, arithmetic in (("q8", Int8()), ("q16", Int8(2)))[: 1 if seed % Q16_EVERY else 2]:
                good = check(f"{title}, Q8_0 and {activations}", path, arithmetic, (1e-6, 1e-10), activations) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
