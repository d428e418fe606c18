#!/usr/bin/env python3
"""What a lossy wire costs in quality: next-token distributions with f16 and q8 between stages beside those with f32, over two
contexts of public text (tests/vectors), 4,000 tokens in all. The stages run in one process, with the very codec between them
(tests/worker/tool_logits.c).

  tests/python tests/bench/wire_quality.py MODEL.gguf [--f16]     (2 minutes on two cores; 9 with --f16; LONGHAUL_BUILD: build)
  tests/python tests/bench/wire_quality.py MODEL.gguf --kv        the same of f16 and q8 in the KV cache, whatever the split

--f16: the same model with its matrices as F16. Products of quantized matrices round activations to 8 bits in each layer, and the
least change before a rounding may tip it over, so that beside such a model even f16 shows the size of that rounding's own noise.
F16 matrices multiply floats: what is left is the wire's.

Prints a table: KL divergence f32 || wire in nats, mean and 99th percentile over positions; how often the most probable token
is the same; perplexity."""
import argparse
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from gguf import GGUFReader

TESTS = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(TESTS / "truth"))

import make_f16_model  # noqa: E402
import make_fidelity_vectors  # noqa: E402
from numpy_model import log_softmax  # noqa: E402

TEXTS = ("constitution.txt", "constitution_rest.txt")
SPLITS, WIRES, KV_TYPES = (2, 3, 5), ("f16", "q8"), ("f16", "q8")
ROWS = 64  # of logits that are looked at together
BUILD = pathlib.Path(os.environ.get("LONGHAUL_BUILD", TESTS.parent / "build"))


@dataclasses.dataclass
class Quality:
    divergence: np.ndarray  # [positions], nats
    same: np.ndarray  # [positions]: the most probable token is f32's
    surprise: np.ndarray  # [positions - 1]: -log p of the token that follows

    @property
    def perplexity(self):
        return float(np.exp(self.surprise.mean()))


def join(parts):
    return Quality(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in dataclasses.fields(Quality)))


def contexts(model):
    """Token ids of each text."""
    return [make_fidelity_vectors.tokenize(model, (TESTS / "vectors" / name).read_text()) for name in TEXTS]


def run(model, tokens, stages, wire, kv_type="f32"):
    """Log probabilities [rows][vocabulary], ROWS rows at a time, as the C code computes them."""
    with tempfile.NamedTemporaryFile(suffix=".u32") as file:
        tokens.astype("<u4").tofile(file.name)
        command = [BUILD / "tests" / "logits", "--model", model, "--tokens", file.name, "--stages", str(stages)]
        command += ["--wire", wire, "--kv-type", kv_type, "--chunk-rows", str(ROWS), "--threads", str(os.cpu_count()), "--out", "/dev/stdout"]
        vocabulary = read_vocabulary(model)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            for first in range(0, len(tokens), ROWS):
                rows = min(ROWS, len(tokens) - first)
                block = np.frombuffer(process.stdout.read(rows * vocabulary * 4), dtype="<f4")
                yield first, log_softmax(block.reshape(rows, vocabulary))
        if process.returncode != 0:
            sys.exit(f"{command[0]} failed")


def read_vocabulary(model):
    return len(GGUFReader(model).fields["tokenizer.ggml.tokens"].data)


def reference(model, tokens):
    """With wire f32, which no split changes: log probabilities [positions][vocabulary]."""
    return np.concatenate([block.astype(np.float32) for _, block in run(model, tokens, 1, "f32")])


def measure(exact, blocks, tokens):
    """The quality of `blocks` (first row, log probabilities) beside the reference."""
    parts = []
    for first, block in blocks:
        rows = slice(first, first + len(block))
        beside = exact[rows].astype(np.float64)
        following = tokens[first + 1 : first + len(block) + 1].astype(np.int64)
        parts.append(
            Quality(
                (np.exp(beside) * (beside - block)).sum(axis=1),
                beside.argmax(axis=1) == block.argmax(axis=1),
                -block[np.arange(len(following)), following],
            )
        )
    return join(parts)


def settings(of_cache):
    """(what the table says in two columns, what `run` takes) of each lossy format."""
    if of_cache:
        return [(("any", kv_type), (1, "f32", kv_type)) for kv_type in KV_TYPES]
    return [((stages, wire), (stages, wire)) for stages in SPLITS for wire in WIRES]


def print_table(model, of_cache):
    print(f"| stages | {'KV cache' if of_cache else 'wire'} | mean KL | 99th percentile | same arg-max | perplexity |")
    print("| --- | --- | --- | --- | --- | --- |")
    texts = contexts(model)
    exact = [reference(model, tokens) for tokens in texts]
    same = join([measure(e, [(0, e.astype(np.float64))], tokens) for e, tokens in zip(exact, texts)])
    print(f"| any | f32 | 0 | 0 | 100 % | {same.perplexity:.3f} |", flush=True)
    for (stages, name), setting in settings(of_cache):
        q = join([measure(e, run(model, t, *setting), t) for e, t in zip(exact, texts)])
        print(
            f"| {stages} | {name} | {q.divergence.mean():.2g} | {np.percentile(q.divergence, 99):.2g} | "
            f"{100 * q.same.mean():.2f} % | {q.perplexity:.3f} |",
            flush=True,
        )
    print(f"{sum(len(t) for t in texts)} tokens in {len(texts)} contexts")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--f16", action="store_true")
    parser.add_argument("--kv", action="store_true", help="of the KV cache, not of the wire")
    arguments = parser.parse_args()
    if not arguments.f16:
        return print_table(arguments.model, arguments.kv)
    with tempfile.TemporaryDirectory() as folder:
        converted = pathlib.Path(folder) / "f16.gguf"
        make_f16_model.convert(arguments.model, converted)
        print_table(converted, arguments.kv)


if __name__ == "__main__":
    main()
