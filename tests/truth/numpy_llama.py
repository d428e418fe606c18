"""A llama-architecture model in numpy, independent of the C code: the judge of the fidelity figures.

Two arithmetics:
  exact   float64 throughout, on the weights as the file's types define them (dequantized by PyPI's `gguf`)
  int8    what kernels/kernels.h promises for quantized weights: activations as int8 in blocks of 32 with a float32 scale,
          an exact integer dot for each block, one fused multiply-add per block in float32, blocks in ascending order; the
          rest (norms, attention, gates) in float64, rounded to float32 where the C code stores float32
"""
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader
from gguf.quants import dequantize

BLOCK = 32


class Matrix:
    """W[outputs][inputs] of one tensor, dequantized and, for quantized types, as integers and scales."""

    def __init__(self, tensor):
        self.type = tensor.tensor_type
        self.name = tensor.name
        self.inputs, self.outputs = int(tensor.shape[0]), int(tensor.shape[1]) if len(tensor.shape) > 1 else 1
        self.raw = np.asarray(tensor.data)
        self._dense = None

    def dense(self):
        if self._dense is None:
            if self.type == Type.F32:
                values = self.raw
            elif self.type == Type.F16:
                values = self.raw.astype(np.float64)
            else:
                values = dequantize(self.raw, self.type)
            self._dense = np.asarray(values, dtype=np.float64).reshape(self.outputs, self.inputs)
        return self._dense

    def blocks(self):
        """q[outputs][blocks][32], d[outputs][blocks], m[outputs][blocks] or None (float32)."""
        rows = self.raw.reshape(self.outputs, -1).view(np.uint8)
        size = {Type.Q4_0: 18, Type.Q4_1: 20, Type.Q8_0: 34}[self.type]
        blocks = rows.reshape(self.outputs, self.inputs // BLOCK, size)
        half = lambda at: np.ascontiguousarray(blocks[:, :, at : at + 2]).view(np.float16)[:, :, 0].astype(np.float32)
        if self.type == Type.Q8_0:
            return np.ascontiguousarray(blocks[:, :, 2:]).view(np.int8).astype(np.float32), half(0), None
        packed = blocks[:, :, size - 16 :]
        q = np.concatenate([packed & 15, packed >> 4], axis=2).astype(np.float32)
        if self.type == Type.Q4_0:
            return q - 8, half(0), None
        return q, half(0), half(2)


def fused(a, b, c):
    """fma in float32: the product of two float32 is exact in float64."""
    return (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(np.float32)


class Int8:
    """The arithmetic that kernels.h states."""

    dtype = np.float32

    def round(self, x):
        return np.asarray(x, dtype=np.float32)

    def product(self, x, matrix):
        """x[rows][inputs] float32 W^T -> [rows][outputs] float32."""
        x = np.asarray(x, dtype=np.float32)
        if matrix.type in (Type.F32, Type.F16, Type.BF16):
            return (x.astype(np.float64) @ matrix.dense().T).astype(np.float32)
        rows = x.shape[0]
        values = x.reshape(rows, -1, BLOCK)
        greatest = np.abs(values).max(axis=2)
        scale = (greatest / np.float32(127)).astype(np.float32)
        with np.errstate(divide="ignore"):
            inverse = np.where(greatest > 0, np.float32(127) / greatest, np.float32(0)).astype(np.float32)
        q = np.rint(values * inverse[:, :, None]).astype(np.float32)
        sums = q.sum(axis=2)
        weights, d, m = matrix.blocks()
        y = np.zeros((rows, matrix.outputs), dtype=np.float32)
        for block in range(values.shape[1]):
            dot = q[:, block] @ weights[:, block].T  # exact: below 2^24
            y = fused(dot, scale[:, block, None] * d[None, :, block], y)
            if m is not None:
                y = fused(sums[:, block, None] + np.zeros_like(y), scale[:, block, None] * m[None, :, block], y)
        return y


class Exact:
    dtype = np.float64

    def round(self, x):
        return np.asarray(x, dtype=np.float64)

    def product(self, x, matrix):
        return x @ matrix.dense().T


class Llama:
    def __init__(self, path):
        reader = GGUFReader(path)
        field = lambda key, default=None: reader.fields[key].contents() if key in reader.fields else default
        self.tensors = {tensor.name: Matrix(tensor) for tensor in reader.tensors}
        architecture = field("general.architecture")
        get = lambda key, default=None: field(f"{architecture}.{key}", default)
        self.layers = int(get("block_count"))
        self.heads = int(get("attention.head_count"))
        self.kv_heads = int(get("attention.head_count_kv", self.heads))
        self.width = int(get("embedding_length"))
        self.head_dim = self.width // self.heads
        self.epsilon = float(get("attention.layer_norm_rms_epsilon"))
        self.base = float(get("rope.freq_base", 10000.0))

    def gain(self, name):
        return self.tensors[name].raw.astype(np.float64)

    def norm(self, x, name, arithmetic):
        """x * gain and 1/rms: the norm is deferred behind the product, as everywhere in Longhaul."""
        scale = 1 / np.sqrt((x.astype(np.float64) ** 2).mean(axis=1, keepdims=True) + self.epsilon)
        return arithmetic.round(x * self.gain(name).astype(arithmetic.dtype)), arithmetic.round(scale)

    def rope(self, x):
        """x[rows][heads][head_dim], row = position; pairs are (2i, 2i + 1), as GGUF's llama stores them."""
        half = self.head_dim // 2
        angle = np.arange(x.shape[0])[:, None] * self.base ** (-2 * np.arange(half) / self.head_dim)
        cosine, sine = np.cos(angle)[:, None], np.sin(angle)[:, None]
        even, odd = x[..., 0::2].astype(np.float64), x[..., 1::2].astype(np.float64)
        y = np.empty(x.shape)
        y[..., 0::2] = even * cosine - odd * sine
        y[..., 1::2] = even * sine + odd * cosine
        return y

    def attention(self, q, k, v):
        rows, group = q.shape[0], self.heads // self.kv_heads
        k, v = np.repeat(k, group, axis=1).astype(np.float64), np.repeat(v, group, axis=1).astype(np.float64)
        scores = np.einsum("qhd,khd->hqk", q.astype(np.float64), k, optimize=True) / np.sqrt(self.head_dim)
        scores = np.where(np.tril(np.ones((rows, rows), dtype=bool)), scores, -np.inf)
        scores = np.exp(scores - scores.max(axis=2, keepdims=True))
        scores /= scores.sum(axis=2, keepdims=True)
        return np.einsum("hqk,khd->qhd", scores, v, optimize=True).reshape(rows, -1)

    def logits(self, tokens, arithmetic):
        """tokens [rows] from position 0 -> [rows][vocabulary]."""
        a, rows = arithmetic, len(tokens)
        h = a.round(self.tensors["token_embd.weight"].dense()[np.asarray(tokens)])
        for layer in range(self.layers):
            part = lambda name: self.tensors[f"blk.{layer}.{name}.weight"]
            x, scale = self.norm(h, f"blk.{layer}.attn_norm.weight", a)
            q, k, v = (a.round(a.product(x, part(name)) * scale) for name in ("attn_q", "attn_k", "attn_v"))
            q = a.round(self.rope(q.reshape(rows, self.heads, self.head_dim)))
            k = a.round(self.rope(k.reshape(rows, self.kv_heads, self.head_dim)))
            v = v.reshape(rows, self.kv_heads, self.head_dim)
            h = a.round(h + a.product(a.round(self.attention(q, k, v)), part("attn_output")))
            x, scale = self.norm(h, f"blk.{layer}.ffn_norm.weight", a)
            gate = a.round(a.product(x, part("ffn_gate")) * scale).astype(np.float64)
            up = a.round(a.product(x, part("ffn_up")) * scale).astype(np.float64)
            h = a.round(h + a.product(a.round(gate / (1 + np.exp(-gate)) * up), part("ffn_down")))
        x, scale = self.norm(h, "output_norm.weight", a)
        head = self.tensors.get("output.weight", self.tensors["token_embd.weight"])
        return a.round(a.product(x, head) * scale)


def log_softmax(logits):
    logits = np.asarray(logits, dtype=np.float64)
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
