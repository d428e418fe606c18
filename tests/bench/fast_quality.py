#!/usr/bin/env python3
"""How far --gpu-math fast is from float64, beside what is as far without it: next-token distributions over the first tokens of the fidelity
text (tests/vectors), by the whole model. No GPU is needed, and none is measured: the stage runs on the emulated one.

  tests/python tests/bench/fast_quality.py MODEL.gguf [--rows 64] [--chunk-rows 32]       (3 minutes on two cores; LONGHAUL_BUILD: build)

What is emulated (tests/cuda/emulation): every kernel of kernels/cuda, to the bit; and of cuBLAS what its numbers say, one product at a time:
inputs F16 or BF16, or of F32 the 10 bits that TF32 keeps, cut; products and sums in float, each rounded, inputs in ascending order. A card's
tensor cores add several products at a time and round in ways of their own, and cuBLAS may split sums: so a card gives other bits, of errors
no larger than kernels/cuda/cuda_fast.h bounds. Quantized weights go through cuBLAS from 24 rows on here, from 256 on a card.

Prints a table: KL divergence float64 || ours in nats, mean, 99th percentile and greatest; how often the most probable token is float64's."""
import argparse
import os
import pathlib
import sys
import tempfile

import numpy as np
from gguf import GGMLQuantizationType as Type

TESTS = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(TESTS / "truth"))
os.environ.setdefault("LONGHAUL_BUILD", str(TESTS.parent / "build"))

import make_f16_model  # noqa: E402
from longhaul_logits import longhaul_logits  # noqa: E402
from numpy_model import Exact, Model, divergence, log_softmax  # noqa: E402

LIBRARY = os.environ["LONGHAUL_BUILD"] + "/tests/longhaul-cuda-emulated.so"
FAST = ["--device", "cuda", "--cuda-library", LIBRARY, "--gpu-math", "fast", "--cublas-library", LIBRARY]


def files(model, folder):
    """(what the table calls the weights, file, types of activations) of each."""
    yield "of the file", model, ("q8", "q16")
    for kind in (Type.F16, Type.BF16, Type.F32):
        path = pathlib.Path(folder) / f"{kind.name}.gguf"
        make_f16_model.convert(model, path, kind)
        yield kind.name, path, ("-",)
        path.unlink()


def print_row(weights, activations, arithmetic, truth, logits):
    ours = log_softmax(logits.astype(np.float64))
    far = divergence(truth, logits.astype(np.float64))
    same = (ours.argmax(axis=1) == truth.argmax(axis=1)).mean()
    print(f"| {weights} | {activations} | {arithmetic} | {far.mean():.2g} | {np.percentile(far, 99):.2g} | {far.max():.2g} | {100 * same:.1f} % |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--chunk-rows", type=int, default=32)
    arguments = parser.parse_args()
    tokens = np.load(TESTS / "vectors" / "fidelity.npz")["tokens"][: arguments.rows]
    ways = ["--chunk-rows", str(arguments.chunk_rows), "--kv-bytes", "256M"]
    print("| weights | activations | arithmetic | mean KL | 99th percentile | greatest | same arg-max |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for weights, path, kinds in files(arguments.model, folder):
            truth = Model(str(path)).logits(tokens, Exact())
            for activations in kinds:
                chosen = ways + ([] if activations == "-" else ["--activations", activations])
                print_row(weights, activations, "exact", truth, longhaul_logits(path, tokens, *chosen))
                print_row(weights, activations, "fast", truth, longhaul_logits(path, tokens, *chosen, *FAST))


if __name__ == "__main__":
    main()
