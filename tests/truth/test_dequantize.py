"""Rows of packed matrices, bit for bit what gguf's numpy code makes of the same random blocks: every type that we hold."""
import os
import subprocess
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from quantizer import TYPES

# Read, but not written here: their codebooks ask for a search.
READ_ONLY = "IQ3_XXS IQ3_S IQ2_XXS IQ2_XS IQ2_S IQ1_S IQ1_M".split()

# Where the binary16 scales of a block lie; all else may be any bits.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0], "MXFP4": [], "Q2_K": [80, 82]} | {
    "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64]} | dict.fromkeys(READ_ONLY, [0]) | {"IQ1_M": []}
OUTPUTS, INPUTS = 37, 768


def random_rows(random, name):
    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    count = OUTPUTS * INPUTS // elements
    if elements == 1:
        return random.standard_normal(count).astype(np.float32).view(np.uint8).reshape(count, 4)[:, 4 - size :].reshape(OUTPUTS, -1)
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    for offset in HALVES[name]:
        halves = random.integers(0, 0x7C00, count, dtype=np.uint16)  # every finite one, subnormals too
        halves |= random.integers(0, 2, count, dtype=np.uint16) << 15
        blocks[:, offset : offset + 2] = halves.view(np.uint8).reshape(count, 2)
    if name == "IQ1_M":
        blocks[:, 55] &= 0xBF  # the scale's bits lie apart: its highest exponents are not
    return blocks.reshape(OUTPUTS, -1)


def expected_rows(rows, name):
    if name == "F16":
        return rows.view(np.float16).astype(np.float32)
    return dequantize(rows, GGMLQuantizationType[name])


def main():
    random = np.random.default_rng(1)
    failed = []
    for name in (*TYPES, *READ_ONLY):
        rows = np.ascontiguousarray(random_rows(random, name))
        command = [os.environ["LONGHAUL_BUILD"] + "/tests/dequantize", name, str(OUTPUTS), str(INPUTS)]
        out = subprocess.run(command, input=rows.tobytes(), stdout=subprocess.PIPE, check=True).stdout
        ours, theirs = np.frombuffer(out, "<u4"), np.ascontiguousarray(expected_rows(rows, name)).view(np.uint32).ravel()
        same = len(ours) == len(theirs) and bool((ours == theirs).all())
        print(f"{name:7s} {len(ours)} weights: {'the same bits' if same else 'DIFFERENT'}")
        failed += [] if same else [name]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
