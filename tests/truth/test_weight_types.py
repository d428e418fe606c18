"""Every type of weights in a trained model: SmolLM2 made wide enough for all of them (wide_model.py), requantized (quantizer.py), its next-token
distributions beside numpy's float64 on the same dequantized weights, over 256 tokens of public text. One file with all types in turn; with
LONGHAUL_TEST_THOROUGH=1 (tests/run --thorough) one of each type alone, too.

Rounding activations to int8 costs about the same with any type (q8). Rounded twice (q16) products are nearly exact, and little is hidden:
one step's error in a thousandth of the weights of one type in fourteen makes a mean KL of 3e-6 (Q8_0) to 3e-5 (Q5_K). Bounds are about twice
what is found."""
import itertools
import os
import pathlib
import sys
import tempfile

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize

from longhaul_logits import longhaul_logits
from numpy_model import Exact, Model, divergence
from quantizer import TYPES, quantize
from test_fidelity import OPTIONS, compare, default_model
from wide_model import WideModel

VECTORS = pathlib.Path(__file__).parent.parent / "vectors"
TOKENS = 256
FLOATS = ("F32", "F16", "BF16")
# (mean KL, share of the same arg-max)
FLOAT_BOUNDS = {"q8": (1e-9, 1)}
BOUNDS = {"q8": (0.02, 0.92), "q16": (3e-7, 0.995)}
# Rounded so plainly to two bits everywhere SmolLM2 says nothing any more, and what is left of it makes much of little.
TWO_BITS = {"q8": (0.6, 0.5), "q16": (1e-5, 0.99)}
# The error of weights like noise, relative to them: what the steps between levels come to.
ERRORS = {"F32": 0, "F16": 0.0002, "BF16": 0.0017, "Q4_0": 0.086, "Q4_1": 0.078, "Q5_0": 0.043, "Q5_1": 0.038, "Q8_0": 0.0054, "Q2_K": 0.33,
          "Q3_K": 0.155, "Q4_K": 0.078, "Q5_K": 0.038, "Q6_K": 0.019, "IQ4_NL": 0.080, "MXFP4": 0.115, "IQ4_XS": 0.08, "TQ1_0": 0.808, "TQ2_0": 0.808}
# Models are trained for these; rounded to them, SmolLM2 is noise.
TERNARY = ("TQ1_0", "TQ2_0")


def check_quantizer(name):
    values = np.random.default_rng(1).standard_normal((64, 1536)).astype(np.float32)
    rows = quantize(values, name)
    back = rows.astype(np.float32) if name in ("F32", "F16") else dequantize(rows, Type[name])
    error = np.sqrt(np.square(back - values).mean())
    good = abs(error - ERRORS[name]) <= 0.06 * ERRORS[name]
    print(f"{'ok  ' if good else 'FAIL'} {name} read back by gguf: off by {error:.3g}, {ERRORS[name]:g} expected", flush=True)
    return good


def check(title, path, tokens, bounds):
    """Whether it holds, and numpy's logits."""
    expected, results = Model(str(path)).logits(tokens, Exact()), []
    for activations, (kl_max, same_min) in bounds.items():
        logits = longhaul_logits(path, tokens, *OPTIONS, "--activations", activations)
        kl, same = divergence(expected, logits).mean(), (expected.argmax(axis=1) == logits.argmax(axis=1)).mean()
        results.append(kl <= kl_max and same >= same_min)
        print(f"{'ok  ' if results[-1] else 'FAIL'} {title}, {activations}: mean KL {kl:.2g} (<= {kl_max:g}), same arg-max {100 * same:.2f} % "
              f"(>= {100 * same_min:g} %)", flush=True)
    return all(results), expected


def check_width(logits, vectors):
    """With the weights as they were the wide model is SmolLM2."""
    kl = compare(logits, *(vectors[f"exact_q4_1_{part}"][: len(logits)] for part in ("ids", "logprobs")))[0].max()
    print(f"{'ok  ' if kl < 1e-9 else 'FAIL'} wide and not wide: max KL {kl:.2g}", flush=True)
    return kl < 1e-9


def main():
    model = default_model()
    if not model:
        print("skipped: LONGHAUL_TEST_MODEL does not name SmolLM2-135M-Instruct.Q4_1.gguf, and deploy/fetch-model gets none")
        return 77
    results = [check_quantizer(name) for name in TYPES]
    vectors = np.load(VECTORS / "fidelity.npz")
    types = [name for name in TYPES if name not in TERNARY]
    tokens, wide = vectors["tokens"][:TOKENS], WideModel(model)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "wide.gguf"
        wide.write(path, dict(zip(wide.matrices(), itertools.cycle(types))))
        results.append(check("all types in turn", path, tokens, BOUNDS)[0])
        for name in types if os.environ.get("LONGHAUL_TEST_THOROUGH") else ():
            wide.write(path, dict.fromkeys(wide.matrices(), name))
            good, logits = check(name, path, tokens, FLOAT_BOUNDS if name in FLOATS else TWO_BITS if name == "Q2_K" else BOUNDS)
            results += [good, check_width(logits, vectors)] if name == "F32" else [good]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
