"""A stage whose products are cuBLAS's (--gpu-math fast), emulated: its logits are near those of the same stage that computes exactly, for each
type of weights that differs in how they are rounded, in chunks of many rows and of few; and they are others, or nothing was rounded.

The distance is the root of the mean square of what differs, by that of the logits' own spread."""
import pathlib
import sys
import tempfile

import numpy as np
from gguf import GGMLQuantizationType as Type

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "truth"), str(ROOT / "tests" / "system")]
from longhaul_logits import longhaul_logits  # noqa: E402
from programs import IS_QUICK, build_folder  # noqa: E402
from small_model import MODELS, VOCABULARY, Writer  # noqa: E402

LIBRARY = str(build_folder() / "tests" / "longhaul-cuda-emulated.so")
GPU = ["--device", "cuda", "--cuda-library", LIBRARY]
FAST = ["--gpu-math", "fast", "--cublas-library", LIBRARY]
ROWS = 40
# The emulation takes 24 rows for many. Quantized weights in fewer are multiplied exactly.
CHUNKS = {"many rows": "40", "few rows": "3"}
# Types by the most that they may be off: a rounding of 2^-11 or 2^-9 in each product of some layers. Activations of quantized weights are q16:
# q8 would be tipped over by any of these roundings, and what is off would be its own.
TYPES = {Type.F32: 4e-3, Type.F16: 4e-3, Type.BF16: 24e-3, Type.Q8_0: 4e-3}


def distance(logits, expected):
    return float(np.sqrt(np.mean(np.square(logits - expected)) / np.var(expected)))


def check(path, kind, most, chunk):
    tokens = np.random.default_rng(8).integers(0, VOCABULARY, ROWS)
    ways = ["--kv-bytes", "16M", "--chunk-rows", CHUNKS[chunk], "--activations", "q16"]
    exact, fast = longhaul_logits(path, tokens, *ways), longhaul_logits(path, tokens, *ways, *GPU, *FAST)
    far = distance(fast, exact)
    wants_same = kind == Type.Q8_0 and chunk == "few rows"
    good = far == 0 if wants_same else 0 < far < most
    print(f"{'ok  ' if good else 'FAIL'} {kind.name} in {chunk}: {far:.2g} off" + ("" if wants_same else f", at most {most}"), flush=True)
    return good


def main():
    passed, failed = 0, 0
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "model.gguf"
        for title in ("llama",) if IS_QUICK else ("llama", "gemma3"):
            for kind, most in TYPES.items():
                Writer(path, 9, kind).write(*MODELS[title])
                for chunk in CHUNKS:
                    good = check(path, kind, most, chunk)
                    passed, failed = passed + good, failed + (not good)
    print(f"{passed} passed, {failed} failed")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
