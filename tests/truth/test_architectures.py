"""Every architecture and kind of rope scaling beside numpy_model.py, on small files of random weights that PyPI's gguf
writes: with F32 matrices against float64, with quantized ones against the arithmetic of kernels.h, operation for operation.
Sizes are awkward on purpose. The C code runs as several stages with column shards and chunks.

  test_architectures.py MODEL.gguf...      compares given files with float64 on their dequantized weights instead (minutes each)
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter
from gguf.quants import quantize

from numpy_model import Exact, Int8, Model, log_softmax

TOKENS = 80
# name: (architecture, layers, extra keys, what it has besides)
BIASES, HEAD_NORMS, POST_NORMS, FACTORS, HEAD = "biases", "head norms", "post norms", "rope factors", "head"
YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64}
GEMMA = {"attention.sliding_window": 11, "attention.sliding_window_pattern": 3, "rope.freq_base": 1e6}
MODELS = {
    "llama": ("llama", 2, {}, {HEAD}),
    "llama 3": ("llama", 2, {"rope.freq_base": 5e5}, {FACTORS}),
    "llama with biases, linear": ("llama", 2, {"rope.scaling.type": "linear", "rope.scaling.factor": 2.5}, {BIASES}),
    "llama with yarn": ("llama", 2, dict(YARN, **{"rope.scaling.attn_factor": 1.19}), {HEAD}),
    "qwen2": ("qwen2", 2, {"rope.freq_base": 1e6}, {BIASES}),
    "qwen2 with yarn": ("qwen2", 2, dict(YARN, **{"rope.freq_base": 1e6}), {BIASES, HEAD}),
    "qwen3": ("qwen3", 3, {"rope.freq_base": 1e6}, {HEAD_NORMS}),
    "qwen3 with yarn": ("qwen3", 2, dict(YARN, **{"rope.scaling.yarn_beta_fast": 8.0}), {HEAD_NORMS}),
    "gemma3": ("gemma3", 4, GEMMA, {HEAD_NORMS, POST_NORMS}),
    "gemma3, linear": ("gemma3", 7, {"attention.sliding_window": 33, "rope.scaling.type": "linear", "rope.scaling.factor": 8.0},
                       {HEAD_NORMS, POST_NORMS}),
}


class Writer:
    """A model file of one kind of matrices."""

    def __init__(self, path, seed, kind):
        self.random, self.kind, self.path = np.random.default_rng(seed), kind, path

    def write(self, architecture, layers, keys, has):
        exact = self.kind == Type.F32
        # Quantized rows are whole blocks of 32; floats may have any width.
        width, wide, dims, heads, kv_heads, vocabulary = (100, 150, 22, 6, 2, 301) if exact else (96, 160, 32, 6, 2, 301)
        self.file = GGUFWriter(str(self.path), architecture)
        self.file.add_block_count(layers)
        self.file.add_context_length(256)
        self.file.add_embedding_length(width)
        self.file.add_feed_forward_length(wide)
        self.file.add_head_count(heads)
        self.file.add_head_count_kv(kv_heads)
        self.file.add_key_length(dims)
        self.file.add_value_length(dims)
        self.file.add_layer_norm_rms_eps(1e-6)
        for key, value in keys.items():
            name = f"{architecture}.{key}"
            add = {str: self.file.add_string, float: self.file.add_float32, int: self.file.add_uint32}[type(value)]
            add(name, value)
        self.matrix("token_embd.weight", vocabulary, width, 3 / np.sqrt(width))
        for layer in range(layers):
            self.layer(f"blk.{layer}.", width, wide, heads * dims, kv_heads * dims, dims, has)
        self.gain("output_norm.weight", width)
        if HEAD in has:
            self.matrix("output.weight", vocabulary, width, 1 / np.sqrt(width))
        if FACTORS in has:
            self.file.add_tensor("rope_freqs.weight", np.linspace(1, 8, dims // 2, dtype=np.float32))
        self.file.write_header_to_file()
        self.file.write_kv_data_to_file()
        self.file.write_tensors_to_file()
        self.file.close()

    def layer(self, prefix, width, wide, queries, keys, dims, has):
        self.gain(prefix + "attn_norm.weight", width)
        for name, outputs in (("attn_q", queries), ("attn_k", keys), ("attn_v", keys)):
            self.matrix(f"{prefix}{name}.weight", outputs, width, 2 / np.sqrt(width))
            if BIASES in has:
                self.file.add_tensor(f"{prefix}{name}.bias", self.random.normal(0, 0.5, outputs).astype(np.float32))
        if HEAD_NORMS in has:
            self.gain(prefix + "attn_q_norm.weight", dims)
            self.gain(prefix + "attn_k_norm.weight", dims)
        self.matrix(prefix + "attn_output.weight", width, queries, 1 / np.sqrt(queries))
        self.gain(prefix + "ffn_norm.weight", width)
        self.matrix(prefix + "ffn_gate.weight", wide, width, 2 / np.sqrt(width))
        self.matrix(prefix + "ffn_up.weight", wide, width, 1 / np.sqrt(width))
        self.matrix(prefix + "ffn_down.weight", width, wide, 1 / np.sqrt(wide))
        if POST_NORMS in has:
            self.gain(prefix + "post_attention_norm.weight", width)
            self.gain(prefix + "post_ffw_norm.weight", width)

    def gain(self, name, width):
        self.file.add_tensor(name, self.random.uniform(0.5, 1.5, width).astype(np.float32))

    def matrix(self, name, outputs, inputs, deviation):
        values = self.random.normal(0, deviation, (outputs, inputs)).astype(np.float32)
        if self.kind == Type.F32:
            self.file.add_tensor(name, values)
        else:
            self.file.add_tensor(name, quantize(values, self.kind), raw_dtype=self.kind)


def longhaul_logits(path, tokens, folder, options):
    (folder / "tokens.txt").write_text(" ".join(map(str, tokens)))
    out = folder / "logits.f32"
    command = [os.environ["LONGHAUL_BUILD"] + "/tests/logits", "--model", path, "--tokens", folder / "tokens.txt", "--out", out]
    subprocess.run(command + options, check=True, stderr=subprocess.DEVNULL)
    return np.fromfile(out, dtype="<f4").reshape(len(tokens), -1)


def divergence(reference, logits):
    p, q = log_softmax(reference), log_softmax(logits)
    return (np.exp(p) * (p - q)).sum(axis=1)


def check(title, path, arithmetic, bounds, folder):
    tokens = np.random.default_rng(5).integers(0, 301, TOKENS)
    expected = Model(str(path)).logits(tokens, arithmetic)
    good = True
    for options in (["--stages", "1"], ["--stages", "2", "--column-shards", "3", "--chunk-rows", "23", "--threads", "2"]):
        logits = longhaul_logits(path, tokens, folder, options)
        error, kl = np.abs(logits - expected).max() / np.abs(expected).max(), divergence(expected, logits).max()
        good = good and error <= bounds[0] and kl <= bounds[1]
    print(f"{'ok  ' if good else 'FAIL'} {title}: error {error:.2g} of the greatest logit (<= {bounds[0]:g}), max KL {kl:.2g} (<= {bounds[1]:g})",
          flush=True)
    return good


def check_given(paths):
    """Bounds that a sound file keeps, whatever its types: quantized activations alone give a KL of some 1e-2."""
    with tempfile.TemporaryDirectory() as name:
        return 0 if all([check(path, path, Exact(), (0.2, 0.5), pathlib.Path(name)) for path in paths]) else 1


def main():
    good = True
    if len(sys.argv) > 1:
        return check_given(sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        path = folder / "model.gguf"
        for seed, (title, (architecture, layers, keys, has)) in enumerate(MODELS.items()):
            for kind, arithmetic, bounds in ((Type.F32, Exact(), (2e-5, 1e-8)), (Type.Q8_0, Int8(), (1e-6, 1e-10))):
                Writer(path, seed, kind).write(architecture, layers, keys, has)
                good = check(f"{title}, {kind.name}", path, arithmetic, bounds, folder) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
