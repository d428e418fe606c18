"""Floats to every type of weights that Longhaul holds. PyPI's gguf writes some; of the others it only reads blocks, and here they are written:
the nearest levels under the plainest scales, those at which a sub-block's least and greatest value fit. llama.cpp searches for better
ones; these are as honest."""
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import quants

TYPES = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL MXFP4 IQ4_XS TQ1_0 TQ2_0".split()


def ratio(a, b):
    """a / b, and 0 where b is."""
    return np.divide(a, b, out=np.zeros(np.broadcast_shapes(a.shape, b.shape), np.float32), where=b != 0)


def half(values):
    """Bytes of the binary16 numbers [blocks][1], and these as float32."""
    halves = values.astype(np.float16)
    return halves.view(np.uint8), halves.astype(np.float32)


def nearest(values, least, greatest):
    return np.clip(np.rint(values), least, greatest)


def pack(values, groups, bits):
    """values[blocks][...] -> bytes: each group is cut into rows, which lie over each other, the first one in the lowest bits."""
    rows = 8 // bits
    shaped = values.reshape(len(values), groups, rows, -1)
    return np.bitwise_or.reduce(shaped << (bits * np.arange(rows, dtype=np.uint8))[:, None], axis=2).reshape(len(values), -1)


def with_minimum(blocks, subblocks, levels, scale_max):
    """x = d s q - m t, with s and t of each sub-block: (bytes of d, bytes of m, s, t, q)."""
    x = blocks.reshape(len(blocks), subblocks, -1)
    low = np.minimum(x.min(axis=2), 0)
    step = (np.maximum(x.max(axis=2), 0) - low) / (levels - 1)
    (d_bytes, d), (m_bytes, m) = (half(parts.max(axis=1, keepdims=True) / scale_max) for parts in (step, -low))
    s, t = nearest(ratio(step, d), 0, scale_max), nearest(ratio(-low, m), 0, scale_max)
    q = nearest(ratio(x + (m * t)[:, :, None], (d * s)[:, :, None]), 0, levels - 1)
    return d_bytes, m_bytes, s.astype(np.uint8), t.astype(np.uint8), q.astype(np.uint8)


def signed(blocks, subblocks, levels, scale_max):
    """x = d s (q - levels / 2), with s of each sub-block: (bytes of d, s, q). The value farthest from 0 has the lowest level."""
    x = blocks.reshape(len(blocks), subblocks, -1)
    peak = np.take_along_axis(x, np.abs(x).argmax(axis=2, keepdims=True), axis=2)[:, :, 0]
    step = peak / -(levels // 2)
    d_bytes, d = half(np.abs(step).max(axis=1, keepdims=True) / scale_max)
    s = nearest(ratio(step, d), -scale_max, scale_max)
    q = nearest(ratio(x, (d * s)[:, :, None]), -(levels // 2), levels // 2 - 1) + levels // 2
    return d_bytes, s, q.astype(np.uint8)


def six_bits(s, t):
    """The 8 scales and 8 minima of Q4_K and Q5_K."""
    return [s[:, :4] | s[:, 4:] >> 4 << 6, t[:, :4] | t[:, 4:] >> 4 << 6, s[:, 4:] & 15 | (t[:, 4:] & 15) << 4]


def q2_k(blocks):
    d, m, s, t, q = with_minimum(blocks, 16, 4, 15)
    return [s | t << 4, pack(q, 2, 2), d, m]


def q3_k(blocks):
    d, s, q = signed(blocks, 16, 8, 31)
    s = (s + 32).astype(np.uint8)
    return [pack(q >> 2, 1, 1), pack(q & 3, 2, 2), pack(s & 15, 1, 4), pack(s >> 4, 1, 2), d]


def q4_k(blocks):
    d, m, s, t, q = with_minimum(blocks, 8, 16, 63)
    return [d, m, *six_bits(s, t), pack(q, 4, 4)]


def q5_k(blocks):
    d, m, s, t, q = with_minimum(blocks, 8, 32, 63)
    return [d, m, *six_bits(s, t), pack(q >> 4, 1, 1), pack(q & 15, 4, 4)]


def q6_k(blocks):
    d, s, q = signed(blocks, 16, 64, 127)
    return [pack(q & 15, 2, 4), pack(q >> 4, 2, 2), s.astype(np.int8).view(np.uint8), d]


def iq4_indices(x, d):
    """The levels nearest to x / d."""
    levels = np.array(quants.IQ4_NL.kvalues, np.float32)
    return np.searchsorted((levels[1:] + levels[:-1]) / 2, ratio(x, d)).astype(np.uint8)


def iq4_xs(blocks):
    x = blocks.reshape(len(blocks), 8, 32)
    peak = np.take_along_axis(x, np.abs(x).argmax(axis=2, keepdims=True), axis=2)[:, :, 0]
    step = peak / quants.IQ4_NL.kvalues[0]
    d_bytes, d = half(np.abs(step).max(axis=1, keepdims=True) / 31)
    s = nearest(ratio(step, d), -32, 31)
    q = iq4_indices(x, (d * s)[:, :, None]).reshape(-1, 8, 2, 16)
    s = (s + 32).astype(np.uint8)
    return [d_bytes, pack(s >> 4, 2, 2), pack(s & 15, 4, 4), (q[:, :, 0] | q[:, :, 1] << 4).reshape(len(blocks), -1)]


def iq4_nl(blocks):
    levels = np.array(quants.IQ4_NL.kvalues, np.float32)
    peak = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1, keepdims=True), axis=1)
    d_bytes, d = half(peak / levels[0])
    return [d_bytes, pack(iq4_indices(blocks, d), 1, 4)]


WRITERS = {"Q2_K": (256, q2_k), "Q3_K": (256, q3_k), "Q4_K": (256, q4_k), "Q5_K": (256, q5_k), "Q6_K": (256, q6_k), "IQ4_NL": (32, iq4_nl),
           "IQ4_XS": (256, iq4_xs)}


def quantize(values, name):
    """values[rows][inputs] of float32 -> rows of the type, as GGUFWriter.add_tensor takes them with raw_dtype; F32 and F16 as numpy has them."""
    if name == "F32":
        return values
    if name == "F16":
        return values.astype(np.float16)
    if name not in WRITERS:
        return quants.quantize(values, Type[name])
    size, write = WRITERS[name]
    return np.concatenate(write(np.ascontiguousarray(values, np.float32).reshape(-1, size)), axis=1).reshape(len(values), -1)
