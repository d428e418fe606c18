"""A llama-architecture model in numpy, independent of the C code: the judge of the fidelity figures.

Two arithmetics:
  exact   float64 throughout, on the weights as the file's types define them (dequantized by PyPI's `gguf`)
  int8    what kernels/kernels.h promises for quantized weights, in float32: activations as int8 in blocks of 32 with a
          float32 scale, an exact integer dot for each block, one fused multiply-add per block, blocks in ascending order
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
    """fma(a, b, c) of float32, rounded once: the product is exact in float64, and where rounding the sum to float64 first
    could matter (it lies halfway between two float32), its lost part decides."""
    product = a.astype(np.float64) * b.astype(np.float64)
    c = np.asarray(c, dtype=np.float64)
    total = product + c
    halfway = (total.view(np.int64) & 0x1FFFFFFF) == 0x10000000
    if halfway.any():
        x, y = product[halfway], np.broadcast_to(c, total.shape)[halfway]
        z = total[halfway]
        back = z - x
        lost = (x - (z - back)) + (y - back)
        total[halfway] = np.where(lost == 0, z, np.nextafter(z, np.where(lost > 0, np.inf, -np.inf)))
    return total.astype(np.float32)


def chain(a, b, axis):
    """sum over `axis` of a * b as a chain of fused multiply-adds in ascending order."""
    a, b = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    y = np.zeros(np.broadcast_shapes(a.shape[1:], b.shape[1:]), dtype=np.float32)
    for i in range(a.shape[0]):
        y = fused(a[i], b[i], y)
    return y


def lane_tree(lanes):
    """lanes[16][...] added by the tree of kernels.h."""
    for width in (8, 4, 2, 1):
        lanes = lanes[:width] + lanes[width : 2 * width]
    return lanes[0]


def exp(x):
    """exp in float32, operation for operation (kernels/exp.h)."""
    f = np.float32
    x = np.clip(x, f(-104), f(89))
    n = fused(x, f(float.fromhex("0x1.715476p0")), f(12582912)) - f(12582912)
    r = fused(n, f(-float.fromhex("0x1.62e430p-1")), x)
    r = fused(n, f(float.fromhex("0x1.05c610p-29")), r)
    p = np.full_like(x, f(1.9875691500e-4))
    for c in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1.0, 1.0):
        p = fused(p, r, f(c))
    return np.ldexp(p.astype(np.float64), n.astype(np.int32)).astype(np.float32)


class Int8:
    """The arithmetic that kernels.h states, operation for operation in float32: what comes out is what the C code computes,
    to the bit, so that no rounding of an activation to int8 falls the other way."""

    dtype = np.float32

    def embed(self, matrix, tokens):
        return matrix.dense()[tokens].astype(np.float32)

    def norm(self, h, gain, epsilon):
        width = h.shape[1]
        lanes = np.zeros((16, h.shape[0]), dtype=np.float32)
        for column in range(0, width, 16):
            x = h[:, column : column + 16].T
            lanes[: len(x)] = fused(x, x, lanes[: len(x)])
        mean = lane_tree(lanes) / np.float32(width)
        return h * gain.astype(np.float32), (np.float32(1) / np.sqrt(mean + np.float32(epsilon)))[:, None]

    def product(self, x, matrix, y=None):
        """y + x[rows][inputs] W^T; y is 0 where it is not given."""
        rows = x.shape[0]
        if y is None:
            y = np.zeros((rows, matrix.outputs), dtype=np.float32)
        values = x.reshape(rows, -1, BLOCK)
        greatest = np.abs(values).max(axis=2)
        scale = greatest / np.float32(127)
        with np.errstate(divide="ignore"):
            inverse = np.where(greatest > 0, np.float32(127) / greatest, np.float32(0))
        q = np.rint(values * inverse[:, :, None]).astype(np.float32)
        sums = q.sum(axis=2)
        weights, d, m = matrix.blocks()
        for block in range(values.shape[1]):
            dot = q[:, block] @ weights[:, block].T  # exact: below 2^24
            y = fused(dot, scale[:, block, None] * d[None, :, block], y)
            if m is not None:
                y = fused(sums[:, block, None], scale[:, block, None] * m[None, :, block], y)
        return y

    def rope(self, x, cosine, sine):
        cosine, sine = cosine.astype(np.float32), sine.astype(np.float32)
        even, odd = x[..., 0::2], x[..., 1::2]
        y = np.empty_like(x)
        y[..., 0::2] = fused(even, cosine, -(odd * sine))
        y[..., 1::2] = fused(even, sine, odd * cosine)
        return y

    def attend(self, q, k, v):
        """q, k, v [rows][head_dim] of one head -> [rows][head_dim], keys up to the own row."""
        rows, head_dim = q.shape
        scale = np.float32(1) / np.sqrt(np.float32(head_dim))
        scores = scale * chain(q[:, None, :], k[None, :, :], axis=2)
        seen = np.tril(np.ones((rows, rows), dtype=bool))
        greatest = np.where(seen, scores, -np.inf).max(axis=1, keepdims=True).astype(np.float32)
        p = np.where(seen, exp(np.where(seen, scores - greatest, np.float32(0))), np.float32(0))
        lanes = np.zeros((16, rows), dtype=np.float32)
        for key in range(0, rows, 16):
            part = p[:, key : key + 16].T
            lanes[: len(part)] += part
        return chain(p.T[:, :, None], v[:, None, :], axis=0) * (np.float32(1) / lane_tree(lanes))[:, None]

    def gated(self, gate, up):
        return gate / (np.float32(1) + exp(-gate)) * up


class Exact:
    """float64 throughout."""

    dtype = np.float64

    def embed(self, matrix, tokens):
        return matrix.dense()[tokens]

    def norm(self, h, gain, epsilon):
        return h * gain, 1 / np.sqrt((h**2).mean(axis=1, keepdims=True) + epsilon)

    def product(self, x, matrix, y=0):
        return y + x @ matrix.dense().T

    def rope(self, x, cosine, sine):
        y = np.empty_like(x)
        y[..., 0::2] = x[..., 0::2] * cosine - x[..., 1::2] * sine
        y[..., 1::2] = x[..., 0::2] * sine + x[..., 1::2] * cosine
        return y

    def attend(self, q, k, v):
        rows = q.shape[0]
        scores = np.where(np.tril(np.ones((rows, rows), dtype=bool)), q @ k.T / np.sqrt(q.shape[1]), -np.inf)
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True) @ v

    def gated(self, gate, up):
        return gate / (1 + np.exp(-gate)) * up


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
        self.head_dim = int(get("embedding_length")) // self.heads
        self.epsilon = float(get("attention.layer_norm_rms_epsilon"))
        self.base = float(get("rope.freq_base", 10000.0))

    def angles(self, rows):
        """cosine, sine [rows][1][head_dim / 2]; row = position; pairs are (2i, 2i + 1), as GGUF's llama stores them."""
        angle = np.arange(rows)[:, None] * self.base ** (-2 * np.arange(self.head_dim // 2) / self.head_dim)
        return np.cos(angle)[:, None], np.sin(angle)[:, None]

    def logits(self, tokens, arithmetic):
        """tokens [rows] from position 0 -> [rows][vocabulary]."""
        a, rows, group = arithmetic, len(tokens), self.heads // self.kv_heads
        cosine, sine = self.angles(rows)
        gain = lambda name: self.tensors[name].raw.astype(a.dtype)
        h = a.embed(self.tensors["token_embd.weight"], np.asarray(tokens))
        for layer in range(self.layers):
            part = lambda name: self.tensors[f"blk.{layer}.{name}.weight"]
            # The norm is deferred: the rows are divided by their rms behind the product, as everywhere in Longhaul.
            x, scale = a.norm(h, gain(f"blk.{layer}.attn_norm.weight"), self.epsilon)
            q, k, v = (
                (a.product(x, part(name)) * scale).reshape(rows, -1, self.head_dim)
                for name in ("attn_q", "attn_k", "attn_v")
            )
            q, k = a.rope(q, cosine, sine), a.rope(k, cosine, sine)
            attended = [a.attend(q[:, i], k[:, i // group], v[:, i // group]) for i in range(self.heads)]
            h = a.product(np.concatenate(attended, axis=1), part("attn_output"), h)
            x, scale = a.norm(h, gain(f"blk.{layer}.ffn_norm.weight"), self.epsilon)
            gate, up = (a.product(x, part(name)) * scale for name in ("ffn_gate", "ffn_up"))
            h = a.product(a.gated(gate, up), part("ffn_down"), h)
        x, scale = a.norm(h, gain("output_norm.weight"), self.epsilon)
        head = self.tensors.get("output.weight", self.tensors["token_embd.weight"])
        return a.product(x, head) * scale


def log_softmax(logits):
    logits = np.asarray(logits, dtype=np.float64)
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
