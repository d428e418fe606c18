"""A stage on a GPU gives the logits of the same stage on processors, byte for byte: every architecture on the files of small_model.py, whole
models and single stages of a chain whose others are on processors, shards, chunks, types of KV cache and of activations; contexts of more
than one block of keys. The GPU is an emulated one (tests/cuda/emulation), which carries out what it is asked in an order of chance as far
as events allow; with LONGHAUL_TEST_CUDA=PATH it is a real one, by the library of that path.

  test_stage.py [PART OF A NAME]      of those architectures alone
"""
import os
import pathlib
import sys
import tempfile

import numpy as np
from gguf import GGMLQuantizationType as Type

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "truth"), str(ROOT / "tests" / "system")]
from longhaul_logits import longhaul_logits  # noqa: E402
from programs import IS_QUICK, build_folder, is_sanitized  # noqa: E402
from small_model import MODELS, VOCABULARY, Writer  # noqa: E402

BUILD = build_folder()
LIBRARY = os.environ.get("LONGHAUL_TEST_CUDA") or BUILD / "tests" / "longhaul-cuda-emulated.so"
GPU = ["--device", "cuda", "--cuda-library", str(LIBRARY)]
ROWS = 40
# What both do, and what the GPU does besides.
WAYS = [
    (["--chunk-rows", "40"], []),
    (["--chunk-rows", "17", "--activations", "q16", "--kv-type", "q8"], ["--stages", "2", "--device-stage", "1", "--column-shards", "3"]),
    # What leaves the first stage is packed, there by the GPU.
    (["--chunk-rows", "23", "--kv-type", "f16", "--stages", "2", "--wire", "q8"], ["--device-stage", "0", "--column-shards", "2"]),
    (["--chunk-rows", "19", "--stages", "2", "--wire", "f16"], ["--device-stage", "0", "--column-shards", "3"]),
]
# Models that are computed by other kernels where rows are few.
FEW_ROWS = ("mixtral", "deepseek2 as V2-Lite")
# A block of keys has 256: the small models' context. This one goes beyond.
BEYOND = 290


def same(title, path, rows, common, besides):
    common = ["--kv-bytes", "16M", *common]
    tokens = np.random.default_rng(6).integers(0, VOCABULARY, rows)
    expected = longhaul_logits(path, tokens, *common)
    logits = longhaul_logits(path, tokens, *common, *besides, *GPU)
    differing = np.flatnonzero((expected.view(np.uint32) != logits.view(np.uint32)).any(axis=1))
    words = f"{title} {' '.join(common + besides)}"
    if differing.size == 0:
        print(f"ok   {words}", flush=True)
        return True
    print(f"FAIL {words}: rows {differing[:8]} of {rows} differ, by {np.abs(expected - logits).max():.3g} at most", flush=True)
    return False


def main():
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    passed, failed = 0, 0
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "model.gguf"
        for seed, (title, shape) in enumerate(MODELS.items()):
            # A sanitizer takes minutes for all of them, whose ways through the kernels are those of a few.
            if part not in title or (is_sanitized() and title not in ("llama", *FEW_ROWS)) or (
                    IS_QUICK and seed % 8 and title not in ("llama", "gemma3", *FEW_ROWS)):
                continue
            Writer(path, seed, Type.Q8_0).write(*shape)
            # Ways take turns among the models that tests/truth and the kernels' tests tell apart already.
            ways = WAYS if title in ("llama", "gemma3") else [WAYS[seed % len(WAYS)]]
            results = [same(title, path, ROWS, *way) for way in ways]
            if title in ("llama", "gemma3"):
                Writer(path, seed, Type.F32).write(*shape)
                results.append(same(f"{title}, F32", path, ROWS, *WAYS[0]))
                Writer(path, seed, Type.Q4_0).write(*shape, context=512)
                results.append(same(f"{title}, long", path, BEYOND, ["--chunk-rows", "100"], []))
            if title in FEW_ROWS:
                results.append(same(f"{title}, few rows", path, ROWS, ["--chunk-rows", "3"], []))
                Writer(path, seed, Type.F32).write(*shape)
                results.append(same(f"{title}, F32", path, ROWS, ["--chunk-rows", "3"], []))
            passed, failed = passed + sum(results), failed + results.count(False)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
