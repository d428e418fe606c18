"""The models that Longhaul computes in numpy, independent of the C code: the judge of the fidelity figures.

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
ATTENTION_BLOCK = 256  # keys that are summed together (kernels.h)
# Architectures whose files store the pairs that turn together as (2i, 2i + 1).
INTERLEAVED = ("llama", "granite", "granitemoe", "minicpm", "glm4", "smollm3", "internlm2", "ernie4_5", "maincoder", "deepseek", "deepseek2", "bailingmoe",
               "ernie4_5-moe")
# Of so many layers the last one sees all, where there is a window; 0: none does.
WINDOW_PERIODS = {"gemma3": 6, "phi3": 0, "olmo2": 4, "exaone4": 4, "exaone-moe": 4, "gpt-oss": 2}


class Matrix:
    """W[outputs][inputs] of one tensor, dequantized and, for quantized types, as integers and scales."""

    def __init__(self, tensor):
        self.type = tensor.tensor_type
        self.name = tensor.name
        self.inputs, self.outputs = int(tensor.shape[0]), int(tensor.shape[1]) if len(tensor.shape) > 1 else 1
        self.raw = np.asarray(tensor.data)
        self._dense = None

    def one(self, number):
        """The matrix of one expert or head, of a tensor that has one for each."""
        part = object.__new__(Matrix)
        part.__dict__ = {**self.__dict__, "raw": self.raw[number], "_dense": None}
        return part

    def rows(self, first, outputs):
        """Some of its rows."""
        part = object.__new__(Matrix)
        part.__dict__ = {**self.__dict__, "outputs": outputs, "raw": self.raw[first : first + outputs], "_dense": None}
        return part

    def turned(self):
        """The matrix turned over, in floats as GGUF's types define them."""
        part = object.__new__(Matrix)
        values = np.ascontiguousarray(self.dense().T.astype(np.float32))
        part.__dict__ = {**self.__dict__, "type": Type.F32, "raw": values, "outputs": self.inputs, "inputs": self.outputs, "_dense": None}
        return part

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
        size = {Type.Q4_0: 18, Type.Q4_1: 20, Type.Q8_0: 34, Type.MXFP4: 17}[self.type]
        blocks = rows.reshape(self.outputs, self.inputs // BLOCK, size)
        half = lambda at: np.ascontiguousarray(blocks[:, :, at : at + 2]).view(np.float16)[:, :, 0].astype(np.float32)
        if self.type == Type.Q8_0:
            return np.ascontiguousarray(blocks[:, :, 2:]).view(np.int8).astype(np.float32), half(0), None
        packed = blocks[:, :, size - 16 :]
        q = np.concatenate([packed & 15, packed >> 4], axis=2).astype(np.float32)
        if self.type == Type.MXFP4:
            twice = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], dtype=np.float32)
            return twice[q.astype(int)], np.ldexp(np.float32(1), blocks[:, :, 0].astype(int) - 128).astype(np.float32), None
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
    to the bit, so that no rounding of an activation to int8 falls the other way. Of `parts` 2 activations are rounded twice,
    the second time what the first left (q16)."""

    dtype = np.float32

    def __init__(self, parts=1):
        self.parts = parts

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

    def scaled(self, x, scale, bias):
        return x * scale if bias is None else fused(x, scale, bias)

    def head_norm(self, x, gain, epsilon):
        """x[rows][heads][head_dim], each head alone."""
        flat = x.reshape(-1, x.shape[2])
        scale = self.norm(flat, gain, epsilon)[1]
        return ((flat * scale) * gain).reshape(x.shape)

    def norm_add(self, h, x, gain, epsilon):
        weighted, scale = self.norm(x, gain, epsilon)
        return fused(weighted, scale, h)

    def product(self, x, matrix, y=None):
        """y + x[rows][inputs] W^T; y is 0 where it is not given."""
        rows = x.shape[0]
        if matrix.type == Type.F32:
            assert y is None
            return chain(x[:, None, :], matrix.raw.reshape(1, matrix.outputs, -1), axis=2)
        if y is None:
            y = np.zeros((rows, matrix.outputs), dtype=np.float32)
        values, parts = x.reshape(rows, -1, BLOCK), []
        for _ in range(self.parts):
            q, scale = self.rounded(values)
            parts.append((q, scale, q.sum(axis=2)))
            values = fused(-scale[:, :, None], q, values)
        weights, d, m = matrix.blocks()
        for block in range(values.shape[1]):
            for q, scale, sums in parts:
                dot = q[:, block] @ weights[:, block].T  # exact: below 2^24
                if m is None:
                    y = fused(dot, scale[:, block, None] * d[None, :, block], y)
                else:
                    both = fused(dot, d[None, :, block], sums[:, block, None] * m[None, :, block])
                    y = fused(both, scale[:, block, None], y)
        return y

    def rounded(self, values):
        """values[rows][blocks][32] to (int8 as floats, scales[rows][blocks])."""
        greatest = np.abs(values).max(axis=2)
        with np.errstate(divide="ignore", over="ignore"):
            inverse = np.float32(127) / greatest
        inverse[~np.isfinite(inverse)] = 0
        return np.rint(values * inverse[:, :, None]).astype(np.float32), greatest / np.float32(127)

    def rope(self, x, cosine, sine, first, second):
        cosine, sine = cosine.astype(np.float32), sine.astype(np.float32)
        a, b = x[..., first], x[..., second]
        y = x.copy()
        y[..., first] = fused(a, cosine, -(b * sine))
        y[..., second] = fused(a, sine, b * cosine)
        return y

    def attend(self, q, k, v, scale, seen, sink):
        """q, k, v [rows][head_dim] of one head -> [rows][head_dim]; seen[rows][keys]; sink: of the head, -inf for none."""
        rows = q.shape[0]
        scores = np.float32(scale) * chain(q[:, None, :], k[None, :, :], axis=2)
        sums = np.full(rows, -np.inf, np.float32), np.zeros(rows, np.float32), np.zeros((rows, v.shape[1]), np.float32)
        for first in range(0, rows, ATTENTION_BLOCK):
            block = slice(first, first + ATTENTION_BLOCK)
            sums = self.join(seen[:, block].any(axis=1), sums, self.block(scores[:, block], v[block], seen[:, block]))
        greatest, total, o = sums
        if sink > -np.inf:
            everything = np.maximum(greatest, np.float32(sink))
            own = exp(greatest - everything)
            total, o = fused(total, own, exp(np.float32(sink) - everything)), o * own[:, None]
        return o * (np.float32(1) / total)[:, None]

    def block(self, scores, v, seen):
        """The greatest score, the sum of weights and that of values of one block of keys; of none: 0, nonsense and 0."""
        greatest = np.where(seen, scores, -np.inf).max(axis=1).astype(np.float32)
        greatest[~seen.any(axis=1)] = 0
        p = np.where(seen, exp(np.where(seen, scores - greatest[:, None], np.float32(0))), np.float32(0))
        lanes = np.zeros((16, len(p)), dtype=np.float32)
        for t in range(p.shape[1]):
            lanes[t % 16] += p[:, t]
        return greatest, lane_tree(lanes), chain(p.T[:, :, None], v[:, None, :], axis=0)

    def join(self, meets, sums, block):
        """Sums with a later block, in the rows that see some of it; the first one of a row is its sums."""
        (m, z, o), (block_m, block_z, block_o) = sums, block
        begins, both = meets & np.isinf(m), meets & ~np.isinf(m)
        greatest = np.maximum(m, block_m)
        a, c = (exp(np.where(both, x - greatest, np.float32(0))) for x in (m, block_m))
        later = greatest, fused(z, a, block_z * c), fused(o, a[:, None], block_o * c[:, None])
        choose = lambda old, new, joined: np.where(both, joined.T, np.where(begins, new.T, old.T)).T
        return tuple(choose(*three) for three in zip(sums, block, later))

    def softmax(self, logits):
        p = exp(logits - logits.max(axis=1, keepdims=True))
        lanes = np.zeros((16, len(p)), dtype=np.float32)
        for i in range(p.shape[1]):
            lanes[i % 16] += p[:, i]
        return p / lane_tree(lanes)[:, None]

    def sigmoid(self, x):
        return np.float32(1) / (np.float32(1) + exp(-x))

    def silu(self, gate):
        return gate / (np.float32(1) + exp(-gate))

    def gelu(self, gate):
        linear, cubic = (np.float32(float.fromhex(c)) for c in ("-0x1.988454p0", "-0x1.2444f2p-4"))
        return gate / (np.float32(1) + exp(gate * fused(gate * gate, cubic, linear)))

    def swiglu(self, gate, up):
        f = np.float32
        gate = np.minimum(gate, f(7))
        return gate / (f(1) + exp(gate * f(-1.702))) * (np.clip(up, f(-7), f(7)) + f(1))

    def add_rows(self, h, scale, bias):
        """h[rows][width] + scale[rows][1] * bias[width]."""
        return fused(scale, bias, h)


class Exact:
    """float64 throughout."""

    dtype = np.float64

    def embed(self, matrix, tokens):
        return matrix.dense()[tokens]

    def norm(self, h, gain, epsilon):
        return h * gain, 1 / np.sqrt((h**2).mean(axis=1, keepdims=True) + epsilon)

    def scaled(self, x, scale, bias):
        return x * scale if bias is None else x * scale + bias

    def head_norm(self, x, gain, epsilon):
        return x / np.sqrt((x**2).mean(axis=2, keepdims=True) + epsilon) * gain

    def norm_add(self, h, x, gain, epsilon):
        return h + x / np.sqrt((x**2).mean(axis=1, keepdims=True) + epsilon) * gain

    def product(self, x, matrix, y=None):
        return x @ matrix.dense().T + (0 if y is None else y)

    def rope(self, x, cosine, sine, first, second):
        y = x.copy()
        y[..., first] = x[..., first] * cosine - x[..., second] * sine
        y[..., second] = x[..., first] * sine + x[..., second] * cosine
        return y

    def attend(self, q, k, v, scale, seen, sink):
        scores = np.where(seen, q @ k.T * scale, -np.inf)
        greatest = np.maximum(scores.max(axis=1, keepdims=True), sink)
        p = np.exp(scores - greatest)
        return p / (p.sum(axis=1, keepdims=True) + np.exp(sink - greatest)) @ v

    def softmax(self, logits):
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    def sigmoid(self, x):
        return 1 / (1 + np.exp(-x))

    def silu(self, gate):
        return gate / (1 + np.exp(-gate))

    def gelu(self, gate):
        return gate / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))

    def swiglu(self, gate, up):
        gate = np.minimum(gate, 7)
        return gate / (1 + np.exp(-1.702 * gate)) * (np.clip(up, -7, 7) + 1)

    def add_rows(self, h, scale, bias):
        return h + scale * bias


def correction(turns, dims, base, context):
    """The number of the pair of dimensions that turns so often within the context (YaRN, arXiv:2309.00071)."""
    return dims * np.log(context / (turns * 2 * np.pi)) / (2 * np.log(base))


class Model:
    def __init__(self, path):
        reader = GGUFReader(path)
        field = lambda key, default=None: reader.fields[key].contents() if key in reader.fields else default
        self.tensors = {tensor.name: Matrix(tensor) for tensor in reader.tensors}
        self.architecture = field("general.architecture")
        get = lambda key, default=None: field(f"{self.architecture}.{key}", default)
        self.get = get
        self.layers = int(get("block_count")) - int(get("nextn_predict_layers", 0))
        self.width = int(get("embedding_length"))
        self.heads = int(get("attention.head_count"))
        self.kv_heads = int(get("attention.head_count_kv", self.heads))
        self.head_dim = int(get("attention.key_length", self.width // self.heads))
        self.rotated = int(get("rope.dimension_count", self.head_dim))
        self.epsilon = float(get("attention.layer_norm_rms_epsilon"))
        self.is_gemma = self.architecture in ("gemma", "gemma3")
        self.is_gpt_oss = self.architecture == "gpt-oss"
        self.second_norm = "post_attention_norm" if self.architecture in ("gpt-oss", "seed_oss", "glm4moe") else "ffn_norm"
        self.window = int(get("attention.sliding_window", 0)) if self.architecture in WINDOW_PERIODS else 0
        self.pattern = get("attention.sliding_window_pattern", WINDOW_PERIODS.get(self.architecture, 0))
        self.rank, self.query_rank = int(get("attention.kv_lora_rank", 0)), int(get("attention.q_lora_rank", 0))
        if self.rank:
            self.head_dim = int(get("attention.key_length_mla", self.head_dim))
            self.value_dim = int(get("attention.value_length_mla", get("attention.value_length")))
        self.scale = float(get("attention.scale", 0)) or 1 / np.sqrt(self.head_dim)
        growth = float(get("rope.scaling.yarn_log_multiplier", 0.0))
        self.scale = float(np.float32(self.scale)) * (1 + growth * np.log(float(get("rope.scaling.factor", 1.0)))) ** 2
        self.leading_dense = int(get("leading_dense_block_count", 0))
        self.groups, self.groups_used = int(get("expert_group_count", 1)), int(get("expert_group_used_count", 1))
        self.split(int(get("feed_forward_length")))
        self.experts, self.used = int(get("expert_count", 0)), int(get("expert_used_count", 0))
        normalized = self.architecture in ("llama", "qwen3moe", "qwen3vlmoe", "granitemoe", "hunyuan-moe", "ernie4_5-moe", "minimax-m2")
        self.normalized = bool(get("expert_weights_norm", normalized))
        self.residual_scale = float(get("residual_scale", 1.0))

    def split(self, wide):
        """Tensors that hold several matrices or biases, into these."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        for name, tensor in list(self.tensors.items()):
            names, sizes = (), (queries, keys, keys)
            if "attn_qkv" in name:
                names = [name.replace("attn_qkv", f"attn_{part}") for part in "qkv"]
            elif name.endswith("ffn_up.weight") and tensor.outputs == 2 * wide:
                names, sizes = (name.replace("ffn_up", "ffn_gate"), name), (wide, wide)
            for i, part in enumerate(names):
                self.tensors[part] = tensor.rows(sum(sizes[:i]), sizes[i])

    def has_window(self, layer):
        if isinstance(self.pattern, list):
            return self.window > 0 and self.pattern[layer]
        return self.window > 0 and (self.pattern == 0 or layer % self.pattern < self.pattern - 1)

    def is_rotated(self, layer):
        if self.architecture in ("exaone4", "exaone-moe") and self.window > 0:
            return self.has_window(layer)
        return self.architecture != "smollm3" or layer % 4 < 3

    def angles(self, rows, near):
        """cosine, sine [rows][1][rotated / 2]; row = position. `near`: of a layer with a window."""
        pair = np.arange(self.rotated // 2)
        near = near and self.architecture in ("gemma3", "olmo2")  # the others turn alike
        base = float(self.get("rope.freq_base", 10000.0))
        if near:
            base = float(self.get("rope.freq_base_swa", 10000.0 if self.is_gemma else base))
        frequency, magnitude = base ** (-2 * pair / self.rotated), 1.0
        kind = self.get("rope.scaling.type", "linear")
        factor = float(self.get("rope.scaling.factor", 1.0))
        if not near and kind == "linear":
            frequency = frequency / factor
        if not near and kind == "yarn":
            context = int(self.get("rope.scaling.original_context_length"))
            low = max(np.floor(correction(float(self.get("rope.scaling.yarn_beta_fast", 32.0)), self.rotated, base, context)), 0)
            high = np.ceil(correction(float(self.get("rope.scaling.yarn_beta_slow", 1.0)), self.rotated, base, context))
            high = min(high, self.rotated - 1)
            stretched = np.clip((pair - low) / max(high - low, 1e-3), 0, 1)
            frequency = frequency / factor * stretched + frequency * (1 - stretched)
            magnitude = 1 if self.get("rope.scaling.yarn_log_multiplier") else 1 + 0.1 * np.log(factor)
        if not near:
            magnitude *= float(self.get("rope.scaling.attn_factor", 1.0))
            if "rope_freqs.weight" in self.tensors:
                frequency = frequency / self.tensors["rope_freqs.weight"].raw.astype(np.float64)
            if "rope_factors_long.weight" in self.tensors:
                context = int(self.get("context_length"))
                length = "long" if context > int(self.get("rope.scaling.original_context_length", context)) else "short"
                frequency = frequency / self.tensors[f"rope_factors_{length}.weight"].raw.astype(np.float64)
        angle = np.arange(rows)[:, None] * frequency
        return magnitude * np.cos(angle)[:, None], magnitude * np.sin(angle)[:, None]

    def rotated_pairs(self):
        """Indices of the pairs: (2i, 2i + 1) as GGUF's llama stores them, or (i, i + half)."""
        if self.architecture in INTERLEAVED:
            return slice(0, self.rotated, 2), slice(1, self.rotated, 2)
        return slice(0, self.rotated // 2), slice(self.rotated // 2, self.rotated)

    def vector(self, name, a):
        return self.tensors[name].raw.astype(a.dtype).reshape(-1) if name in self.tensors else None

    def norm(self, a, h, name):
        """h without its scale, and the scale; h itself where there is no such norm."""
        gain = self.vector(name, a)
        return (h, a.dtype(1)) if gain is None else a.norm(h, gain, self.epsilon)

    def latent_matrices(self, layer):
        """Of each head: what takes a query's first part to the latent space, and what takes a result back from there."""
        part = lambda name: self.tensors[f"blk.{layer}.{name}.weight"]
        own, size = self.head_dim - self.rotated, self.head_dim - self.rotated + self.value_dim
        if f"blk.{layer}.attn_kv_b.weight" not in self.tensors:
            return [(part("attn_k_b").one(i), part("attn_v_b").one(i)) for i in range(self.heads)]
        whole = part("attn_kv_b")
        return [(whole.rows(i * size, own).turned(), whole.rows(i * size + own, self.value_dim)) for i in range(self.heads)]

    def latent_attention(self, a, layer, h, angles, seen):
        """As attention, of what is kept of a row: c, the same for all heads, and one rotated key."""
        part = lambda name: self.tensors[f"blk.{layer}.{name}.weight"]
        gain = lambda name: self.vector(f"blk.{layer}.{name}.weight", a)
        rows, own = len(h), self.head_dim - self.rotated
        x, scale = a.norm(h, gain("attn_norm"), self.epsilon)
        if self.query_rank:
            ranked, ranked_scale = a.norm(a.product(x, part("attn_q_a")) * scale, gain("attn_q_a_norm"), self.epsilon)
            q = a.product(ranked, part("attn_q_b")) * ranked_scale
        else:
            q = a.product(x, part("attn_q")) * scale
        q = q.reshape(rows, self.heads, self.head_dim)
        kept = a.product(x, part("attn_kv_a_mqa")) * scale
        c = a.head_norm(kept[:, None, : self.rank], gain("attn_kv_a_norm"), self.epsilon)[:, 0]
        rotate = lambda x: a.rope(x, *angles, *self.rotated_pairs())
        key = np.concatenate([c, rotate(kept[:, None, self.rank :])[:, 0]], axis=1)
        rotated, heads = rotate(q[:, :, own:]), []
        for i, (down, up) in enumerate(self.latent_matrices(layer)):
            query = np.concatenate([a.product(np.ascontiguousarray(q[:, i, :own]), down), rotated[:, i]], axis=1)
            heads.append(a.product(a.attend(query, key, c, self.scale, seen, -np.inf), up))
        return self.scaled_branch(a, np.concatenate(heads, axis=1)), part("attn_output")

    def attention(self, a, layer, h, angles, seen):
        """(x, W): attention's result is x W^T."""
        if self.rank:
            return self.latent_attention(a, layer, h, angles, seen)
        rows, group = len(h), self.heads // self.kv_heads
        part = lambda name: self.tensors[f"blk.{layer}.{name}.weight"]
        # The norm is deferred: the rows are divided by their rms behind the product, as everywhere in Longhaul.
        x, scale = self.norm(a, h, f"blk.{layer}.attn_norm.weight")
        q, k, v = (
            a.scaled(a.product(x, part(name)), scale, self.vector(f"blk.{layer}.{name}.bias", a)).reshape(rows, -1, self.head_dim)
            for name in ("attn_q", "attn_k", "attn_v")
        )
        has_norms, late = f"blk.{layer}.attn_q_norm.weight" in self.tensors, self.architecture.startswith("hunyuan")
        if has_norms and not late:
            q, k = self.normed_heads(a, layer, q, k)
        if self.is_rotated(layer):
            q, k = (a.rope(x, *angles, *self.rotated_pairs()) for x in (q, k))
        if has_norms and late:
            q, k = self.normed_heads(a, layer, q, k)
        sinks = self.vector(f"blk.{layer}.attn_sinks.weight", a)
        heads = [a.attend(q[:, i], k[:, i // group], v[:, i // group], self.scale, seen, -np.inf if sinks is None else sinks[i])
                 for i in range(self.heads)]
        return self.scaled_branch(a, np.concatenate(heads, axis=1)), part("attn_output")

    def normed_heads(self, a, layer, *parts):
        """Of each head, or of all heads of a row together."""
        gains = [self.vector(f"blk.{layer}.attn_{name}_norm.weight", a) for name in "qk"]
        return [a.head_norm(x.reshape(len(x), -1, len(gain)), gain, self.epsilon).reshape(x.shape) for x, gain in zip(parts, gains)]

    def feed_forward(self, a, layer, h):
        """(x, W), as above."""
        part = lambda name: self.tensors[f"blk.{layer}.{name}.weight"]
        x, scale = self.norm(a, h, f"blk.{layer}.{self.second_norm}.weight")
        gate, up = (a.product(x, part(name)) * scale for name in ("ffn_gate", "ffn_up"))
        return self.scaled_branch(a, (a.gelu if self.is_gemma else a.silu)(gate) * up), part("ffn_down")

    def scaled_branch(self, a, x):
        return x * a.dtype(self.residual_scale)

    def of_best_groups(self, rated):
        """A group is as good as its best expert (softmax), or as its two best together (sigmoid); those of the others count for nothing."""
        if self.groups == 1:
            return rated
        groups = rated.reshape(len(rated), self.groups, -1)
        best = -np.sort(-groups, axis=2)
        score = best[:, :, 0] + best[:, :, 1] if int(self.get("expert_gating_func", 1)) == 2 else best[:, :, 0]
        chosen = np.argsort(-score, axis=1, kind="stable")[:, : self.groups_used]
        counts = np.zeros(score.shape, dtype=bool)
        np.put_along_axis(counts, chosen, True, axis=1)
        return np.where(counts[:, :, None], groups, -np.inf).reshape(rated.shape).astype(rated.dtype)

    def shares(self, a, layer, logits):
        """logits[rows][experts] -> chosen[rows][used], ascending, and their shares."""
        gating = int(self.get("expert_gating_func", {"gpt-oss": 3, "glm4moe": 2}.get(self.architecture, 1)))
        p = {1: a.softmax, 2: a.sigmoid, 3: np.copy}[gating](logits)
        bias = self.vector(f"blk.{layer}.exp_probs_b.bias", a)
        rated = self.of_best_groups(p if bias is None else p + bias)
        chosen = np.sort(np.argsort(-rated, axis=1, kind="stable")[:, : self.used], axis=1)
        shares = np.take_along_axis(p, chosen, axis=1)
        if gating == 3:
            shares = a.softmax(shares)
        if self.normalized:
            total = np.zeros(len(p), dtype=p.dtype)
            for i in range(self.used):
                total = total + shares[:, i]
            shares = shares / np.maximum(total, p.dtype.type(2**-14))[:, None]
        return chosen, shares * p.dtype.type(self.get("expert_weights_scale", 1.0))

    def mixture(self, a, layer, h):
        """h and what the experts of each row add to it, in ascending order, the shared one last."""
        part = lambda name: self.tensors[f"blk.{layer}.{name}.weight"]
        x, scale = a.norm(h, self.vector(f"blk.{layer}.{self.second_norm}.weight", a), self.epsilon)
        bias = lambda name, expert: None if (b := self.vector(f"blk.{layer}.ffn_{name}_exps.bias", a)) is None else b.reshape(self.experts, -1)[expert]

        def gated(rows, gate, up, share, *biases):
            gate, up = (a.scaled(a.product(x[rows], w), scale[rows], b) for w, b in zip((gate, up), biases or (None, None)))
            y = a.swiglu(gate, up) if self.is_gpt_oss else a.silu(gate) * up
            return self.scaled_branch(a, y if share is None else y * share[:, None])

        chosen, shares = self.shares(a, layer, a.scaled(a.product(x, part("ffn_gate_inp")), scale, self.vector(f"blk.{layer}.ffn_gate_inp.bias", a)))
        gates, ups, downs = (part(f"ffn_{name}_exps") for name in ("gate", "up", "down"))
        h = h.copy()
        for expert in range(self.experts):
            rows, place = np.nonzero(chosen == expert)
            if len(rows):
                share = shares[rows, place]
                y = gated(rows, gates.one(expert), ups.one(expert), share, bias("gate", expert), bias("up", expert))
                h[rows] = a.product(y, downs.one(expert), h[rows])
                if (b := bias("down", expert)) is not None:
                    h[rows] = a.add_rows(h[rows], share[:, None], b)
        if f"blk.{layer}.ffn_gate_shexp.weight" in self.tensors:
            own = f"blk.{layer}.ffn_gate_inp_shexp.weight" in self.tensors
            share = a.sigmoid(a.product(x, part("ffn_gate_inp_shexp")) * scale)[:, 0] if own else None
            y = gated(slice(None), part("ffn_gate_shexp"), part("ffn_up_shexp"), share)
            h = a.product(y, part("ffn_down_shexp"), h)
        return h

    def add(self, a, h, x, matrix, norm):
        """h + x W^T, or h + norm(x W^T) where there is such a norm."""
        gain = self.vector(norm, a)
        return a.product(x, matrix, h) if gain is None else a.norm_add(h, a.product(x, matrix), gain, self.epsilon)

    def states(self, tokens, arithmetic):
        """tokens [rows] from position 0 -> [rows][width], before the final norm."""
        a, rows = arithmetic, len(tokens)
        angles = {near: self.angles(rows, near) for near in (False, True)}
        distance = np.arange(rows)[:, None] - np.arange(rows)
        h = a.embed(self.tensors["token_embd.weight"], np.asarray(tokens))
        if self.is_gemma:
            h = h * a.dtype(np.sqrt(self.width))
        h = h * a.dtype(self.get("embedding_scale", 1.0))
        for layer in range(self.layers):
            near = self.has_window(layer)
            seen = (distance >= 0) & (distance < (self.window if near else rows))
            x, matrix = self.attention(a, layer, h, angles[near], seen)
            h = self.add(a, h, x, matrix, "" if self.second_norm == "post_attention_norm" else f"blk.{layer}.post_attention_norm.weight")
            if (bias := self.vector(f"blk.{layer}.attn_output.bias", a)) is not None:
                h = h + bias
            if self.experts and layer >= self.leading_dense:
                h = self.mixture(a, layer, h)
                continue
            x, matrix = self.feed_forward(a, layer, h)
            h = self.add(a, h, x, matrix, f"blk.{layer}.post_ffw_norm.weight")
        return h

    def embedding(self, tokens, arithmetic, wanted=slice(None)):
        """The sum of the wanted rows' states after the final norm, of length 1."""
        a, h = arithmetic, self.states(tokens, arithmetic)[wanted]
        gain = self.vector("output_norm.weight", a)
        values = (h * gain * a.norm(h, gain, self.epsilon)[1].reshape(-1, 1)).astype(np.float64)
        total = np.rint(values * 2.0**24).astype(np.int64).sum(axis=0).astype(np.float64)
        return (total / np.sqrt(np.dot(total, total))).astype(np.float32)

    def logits(self, tokens, arithmetic, wanted=slice(None)):
        """tokens [rows] from position 0 -> [rows][vocabulary], of the wanted rows."""
        a, h = arithmetic, self.states(tokens, arithmetic)
        x, scale = a.norm(h[wanted], self.vector("output_norm.weight", a), self.epsilon)
        head = self.tensors.get("output.weight", self.tensors["token_embd.weight"])
        return a.product(x, head) * (scale * a.dtype(1 / float(self.get("logit_scale", 1.0))))


def log_softmax(logits):
    logits = np.asarray(logits, dtype=np.float64)
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def divergence(reference, logits):
    """KL divergence reference || logits of each row, in nats."""
    p, q = log_softmax(reference), log_softmax(logits)
    return (np.exp(p) * (p - q)).sum(axis=1)
