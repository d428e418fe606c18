"""Small files of random weights, of every architecture and kind of rope scaling, that PyPI's gguf writes. Sizes are awkward on purpose."""
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter, TokenType
from gguf.quants import quantize

VOCABULARY = 301
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


def byte_names():
    """Of the 256 bytes, in GPT-2's alphabet: printable characters for what has none."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(byte if byte in plain else 256 + sum(other not in plain for other in range(byte))) for byte in range(256)]


class Writer:
    """A model file of one kind of matrices."""

    def __init__(self, path, seed, kind):
        self.random, self.kind, self.path = np.random.default_rng(seed), kind, path

    def write(self, architecture, layers, keys, has):
        exact = self.kind == Type.F32
        # Quantized rows are whole blocks of 32; floats may have any width.
        width, wide, dims, heads, kv_heads = (100, 150, 22, 6, 2) if exact else (96, 160, 32, 6, 2)
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
        self.tokenizer()
        self.matrix("token_embd.weight", VOCABULARY, width, 3 / np.sqrt(width))
        for layer in range(layers):
            self.layer(f"blk.{layer}.", width, wide, heads * dims, kv_heads * dims, dims, has)
        self.gain("output_norm.weight", width)
        if HEAD in has:
            self.matrix("output.weight", VOCABULARY, width, 1 / np.sqrt(width))
        if FACTORS in has:
            self.file.add_tensor("rope_freqs.weight", np.linspace(1, 8, dims // 2, dtype=np.float32))
        self.file.write_header_to_file()
        self.file.write_kv_data_to_file()
        self.file.write_tensors_to_file()
        self.file.close()

    def tokenizer(self):
        """A byte's token is its number: what is merged besides begins with a byte that no text has."""
        names, end = byte_names(), "<|endoftext|>"
        merged = [names[0xFF] + name for name in names[: VOCABULARY - 257]]
        self.file.add_tokenizer_model("gpt2")
        self.file.add_tokenizer_pre("qwen2")
        self.file.add_token_list([*names, *merged, end])
        self.file.add_token_types([TokenType.NORMAL] * (VOCABULARY - 1) + [TokenType.CONTROL])
        self.file.add_token_merges([f"{names[0xFF]} {token[1]}" for token in merged])
        self.file.add_eos_token_id(VOCABULARY - 1)

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
