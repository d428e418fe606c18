"""Small files of random weights, of every architecture and kind of rope scaling, that PyPI's gguf writes. Sizes are awkward on purpose."""
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter, TokenType
from gguf.quants import quantize

VOCABULARY = 301
# name: (architecture, layers, extra keys, what it has besides)
BIASES, HEAD_NORMS, POST_NORMS, FACTORS, HEAD = "biases", "head norms", "post norms", "rope factors", "head"
NORM_BEHIND = "the second norm by another name"
NO_PRE_NORMS, FUSED_QKV, FUSED_UP, LONG_SHORT = "no norms before", "one matrix for q, k and v", "one for gate and up", "long and short factors"
DRAFTING = "a layer for drafting, which nothing needs"
ROW_NORMS, EXPERTS, SHARED, SHARED_ROUTER, ROUTER_BIAS = "row norms", "experts", "shared expert", "its share", "router bias"
GPT_OSS, MXFP4 = "more biases, sinks, and a norm of another name", "experts of that type"
YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64}
GEMMA = {"attention.sliding_window": 11, "attention.sliding_window_pattern": 3, "rope.freq_base": 1e6}
MIXTURE = {"expert_count": 11, "expert_used_count": 3}
NARROW = dict(MIXTURE, expert_feed_forward_length=64)
PHI = {"attention.sliding_window": 19, "rope.dimension_count": 12, "rope.scaling.attn_factor": 1.19}
LONG = {"rope.scaling.type": "longrope", "rope.scaling.original_context_length": 64}
LATENT, WHOLE = "latent attention", "keys and values in one matrix"
GROUPS = {"expert_count": 12, "expert_used_count": 4, "expert_group_count": 4, "expert_group_used_count": 2, "expert_feed_forward_length": 64}
SIGMOID = {"expert_gating_func": 2, "expert_weights_scale": 2.5, "expert_weights_norm": True}
DEEPSEEK = {"attention.kv_lora_rank": 64, "leading_dense_block_count": 1, "expert_shared_count": 2}
SCALES = {"embedding_scale": 6.5, "residual_scale": 0.22, "attention.scale": 0.11, "logit_scale": 3.5}
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
    "granite": ("granite", 2, SCALES, {HEAD}),
    "minicpm, long": ("minicpm", 2, dict(SCALES, **LONG, **{"attention.scale": 0.0}), {LONG_SHORT}),
    "phi3": ("phi3", 2, {"attention.sliding_window": 0}, {FUSED_QKV, FUSED_UP, HEAD}),
    "phi3 with a window, short": ("phi3", 2, dict(PHI, **{"rope.scaling.original_context_length": 256}), {FUSED_QKV, FUSED_UP, LONG_SHORT}),
    "phi3 with a window, long": ("phi3", 2, dict(PHI, **LONG), {FUSED_QKV, FUSED_UP, LONG_SHORT}),
    "glm4": ("glm4", 2, {"rope.dimension_count": 16}, {FUSED_UP, BIASES, POST_NORMS, HEAD}),
    "glm4, all fused": ("glm4", 2, {"rope.dimension_count": 8}, {FUSED_UP, FUSED_QKV, BIASES, POST_NORMS, HEAD}),
    "olmo2": ("olmo2", 2, {"rope.freq_base": 5e5}, {ROW_NORMS, POST_NORMS, NO_PRE_NORMS, HEAD}),
    "olmo2 with windows, yarn": ("olmo2", 5, dict(YARN, **{"attention.sliding_window": 17, "rope.freq_base": 5e5,
                                                            "attention.sliding_window_pattern": [True, True, True, False, True]}),
                                 {ROW_NORMS, POST_NORMS, NO_PRE_NORMS, HEAD}),
    "smollm3": ("smollm3", 5, {"rope.freq_base": 5e6}, set()),
    "exaone": ("exaone", 2, {"rope.freq_base": 1e6}, {FACTORS, HEAD}),
    "exaone4": ("exaone4", 2, {}, {HEAD_NORMS, POST_NORMS, NO_PRE_NORMS, FACTORS}),
    "exaone4 with windows": ("exaone4", 5, {"attention.sliding_window": 17}, {HEAD_NORMS, POST_NORMS, NO_PRE_NORMS, FACTORS, HEAD}),
    "seed_oss": ("seed_oss", 2, {"rope.freq_base": 1e7}, {BIASES, NORM_BEHIND, HEAD}),
    "internlm2, one matrix": ("internlm2", 2, {"rope.freq_base": 1e6}, {FUSED_QKV, HEAD}),
    "ernie4_5": ("ernie4_5", 2, {"rope.freq_base": 5e5}, set()),
    "maincoder": ("maincoder", 2, {"rope.freq_base": 1e6}, {HEAD_NORMS}),
    "qwen2vl": ("qwen2vl", 2, {"rope.dimension_sections": [2, 3, 3, 0]}, {BIASES, HEAD}),
    "qwen3vl": ("qwen3vl", 2, {"rope.dimension_sections": [2, 3, 3, 0]}, {HEAD_NORMS}),
    "gemma": ("gemma", 2, {}, set()),
    "mixtral": ("llama", 2, dict(MIXTURE, expert_used_count=2), {EXPERTS, HEAD}),
    "qwen2moe": ("qwen2moe", 2, dict(NARROW, expert_shared_feed_forward_length=128), {BIASES, EXPERTS, SHARED, SHARED_ROUTER, HEAD}),
    "qwen3moe": ("qwen3moe", 3, NARROW, {HEAD_NORMS, EXPERTS}),
    "qwen3moe, sigmoid, bias and scale": ("qwen3moe", 2, dict(NARROW, expert_gating_func=2, expert_weights_scale=2.5), {HEAD_NORMS, EXPERTS, ROUTER_BIAS}),
    "qwen3vlmoe": ("qwen3vlmoe", 2, dict(NARROW, **{"rope.dimension_sections": [2, 3, 3, 0]}), {HEAD_NORMS, EXPERTS, HEAD}),
    "glm4moe as the Air ones": ("glm4moe", 3, dict(NARROW, **SIGMOID, **{"leading_dense_block_count": 1, "expert_shared_count": 1, "rope.dimension_count": 16}),
                                {BIASES, EXPERTS, SHARED, ROUTER_BIAS, NORM_BEHIND, DRAFTING, HEAD}),
    "glm4moe as the large ones": ("glm4moe", 2, dict(NARROW, **{"expert_shared_count": 1, "rope.dimension_count": 8, "expert_weights_norm": True}),
                                  {BIASES, HEAD_NORMS, EXPERTS, SHARED, ROUTER_BIAS, NORM_BEHIND, HEAD}),
    "dots1": ("dots1", 2, dict(NARROW, **SIGMOID, **{"leading_dense_block_count": 1, "expert_shared_count": 2}),
              {HEAD_NORMS, EXPERTS, SHARED, ROUTER_BIAS, HEAD}),
    "hunyuan-dense": ("hunyuan-dense", 2, {"rope.freq_base": 1.1e7, "rope.scaling.type": "none", "rope.scaling.factor": 1.0}, {HEAD_NORMS}),
    "hunyuan-moe": ("hunyuan-moe", 2, dict(NARROW, **{"rope.freq_base": 1.1e7, "expert_shared_feed_forward_length": 96, "expert_shared_count": 1}),
                    {HEAD_NORMS, EXPERTS, SHARED}),
    "bailingmoe": ("bailingmoe", 2, dict(NARROW, **{"expert_shared_count": 2, "expert_weights_norm": True, "expert_weights_scale": 1.0}),
                   {EXPERTS, SHARED, HEAD}),
    "bailingmoe2": ("bailingmoe2", 3, dict(GROUPS, **SIGMOID, **{"leading_dense_block_count": 1, "expert_shared_count": 1,
                                                                 "expert_shared_feed_forward_length": 64, "rope.dimension_count": 16}),
                    {FUSED_QKV, HEAD_NORMS, EXPERTS, SHARED, ROUTER_BIAS, DRAFTING, HEAD}),
    "ernie4_5-moe": ("ernie4_5-moe", 3, dict(NARROW, **{"leading_dense_block_count": 1, "interleave_moe_layer_step": 1, "expert_shared_count": 2,
                                                         "expert_shared_feed_forward_length": 128}), {EXPERTS, SHARED, ROUTER_BIAS}),
    "minimax-m2": ("minimax-m2", 2, dict(MIXTURE, **{"expert_gating_func": 2, "rope.dimension_count": 16}), {ROW_NORMS, EXPERTS, ROUTER_BIAS, HEAD}),
    "exaone-moe": ("exaone-moe", 5, dict(NARROW, **SIGMOID, **{"attention.sliding_window": 17, "leading_dense_block_count": 1, "expert_shared_count": 1,
                                                               "expert_shared_feed_forward_length": 64}),
                   {HEAD_NORMS, EXPERTS, SHARED, ROUTER_BIAS, DRAFTING, HEAD}),
    "deepseek": ("deepseek", 2, dict(NARROW, **{"leading_dense_block_count": 1, "expert_shared_count": 2}), {EXPERTS, SHARED, HEAD}),
    "olmoe": ("olmoe", 2, MIXTURE, {ROW_NORMS, EXPERTS, HEAD}),
    "granitemoe": ("granitemoe", 2, dict(MIXTURE, **SCALES), {EXPERTS}),
    "deepseek2 as V2-Lite": ("deepseek2", 3, dict(DEEPSEEK, **NARROW, **YARN, **{"rope.scaling.yarn_log_multiplier": 0.0707}),
                             {LATENT, WHOLE, EXPERTS, SHARED, HEAD}),
    "deepseek2 as V2": ("deepseek2", 2, dict(DEEPSEEK, **GROUPS, **{"attention.q_lora_rank": 32, "expert_weights_scale": 16.0}),
                        {LATENT, EXPERTS, SHARED, HEAD}),
    "deepseek2 as V3": ("deepseek2", 3, dict(DEEPSEEK, **GROUPS, **YARN, **{
        "attention.q_lora_rank": 96, "expert_gating_func": 2, "expert_weights_scale": 2.5, "expert_weights_norm": True,
        "rope.scaling.yarn_log_multiplier": 0.1}), {LATENT, EXPERTS, SHARED, ROUTER_BIAS, HEAD}),
    "deepseek2, whole, dense": ("deepseek2", 2, {"attention.kv_lora_rank": 32, "attention.q_lora_rank": 64}, {LATENT, WHOLE}),
    "granitemoe, shared": ("granitemoe", 2, dict(MIXTURE, **SCALES, expert_shared_feed_forward_length=96), {EXPERTS, SHARED}),
    "gpt-oss": ("gpt-oss", 4, dict(NARROW, **YARN, **{"attention.sliding_window": 11, "rope.freq_base": 150000.0}),
                {BIASES, EXPERTS, GPT_OSS, MXFP4, HEAD}),
    "gpt-oss, one base for windows": ("gpt-oss", 3, dict(NARROW, **{"attention.sliding_window": 5, "attention.sliding_window_pattern": 3}),
                                      {BIASES, EXPERTS, GPT_OSS}),
}


def byte_names():
    """Of the 256 bytes, in GPT-2's alphabet: printable characters for what has none."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(byte if byte in plain else 256 + sum(other not in plain for other in range(byte))) for byte in range(256)]


class Writer:
    """A model file of one kind of matrices."""

    def __init__(self, path, seed, kind):
        self.random, self.kind, self.path = np.random.default_rng(seed), kind, path

    def write(self, architecture, layers, keys, has, context=256):
        exact = self.kind == Type.F32
        # Quantized rows are whole blocks of 32; floats may have any width.
        width, wide, dims, heads, kv_heads = (100, 150, 22, 6, 2) if exact else (96, 160, 32, 6, 2)
        self.file = GGUFWriter(str(self.path), architecture)
        self.file.add_block_count(layers + (DRAFTING in has))
        if DRAFTING in has:
            self.file.add_uint32(f"{architecture}.nextn_predict_layers", 1)
        self.file.add_context_length(context)
        self.file.add_embedding_length(width)
        self.file.add_feed_forward_length(wide)
        self.file.add_head_count(heads)
        if LATENT in has:
            self.latent_sizes(heads, dims, keys["attention.kv_lora_rank"], has)
        else:
            self.file.add_head_count_kv(kv_heads)
            self.file.add_key_length(dims)
            self.file.add_value_length(dims)
        self.file.add_layer_norm_rms_eps(1e-6)
        for key, value in keys.items():
            name = f"{architecture}.{key}"
            add = {str: self.file.add_string, float: self.file.add_float32, int: self.file.add_uint32, list: self.file.add_array, bool: self.file.add_bool}[type(value)]
            add(name, value)
        self.keys = keys
        self.tokenizer()
        self.matrix("token_embd.weight", VOCABULARY, width, 3 / np.sqrt(width))
        for layer in range(layers):
            self.layer(f"blk.{layer}.", width, wide, heads * dims, kv_heads * dims, dims, has)
        if DRAFTING in has:
            self.matrix(f"blk.{layers}.nextn.eh_proj.weight", width, 2 * width, 1)
            self.layer(f"blk.{layers}.", width, wide, heads * dims, kv_heads * dims, dims, has)
        self.gain("output_norm.weight", width)
        if HEAD in has:
            self.matrix("output.weight", VOCABULARY, width, 1 / np.sqrt(width))
        if FACTORS in has:
            self.file.add_tensor("rope_freqs.weight", np.linspace(1, 8, dims // 2, dtype=np.float32))
        if LONG_SHORT in has:
            pairs = keys.get("rope.dimension_count", dims) // 2
            self.file.add_tensor("rope_factors_long.weight", np.linspace(1, 30, pairs, dtype=np.float32))
            self.file.add_tensor("rope_factors_short.weight", np.linspace(1, 1.5, pairs, dtype=np.float32))
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
        if NO_PRE_NORMS not in has:
            self.gain(prefix + "attn_norm.weight", width)
            self.gain(prefix + ("post_attention_norm.weight" if NORM_BEHIND in has or GPT_OSS in has else "ffn_norm.weight"), width)
        if LATENT in has:
            queries = self.latent(prefix, width, queries // dims, dims, has)
        else:
            self.keys_and_values(prefix, width, queries, keys, has)
        if HEAD_NORMS in has or ROW_NORMS in has:
            self.gain(prefix + "attn_q_norm.weight", queries if ROW_NORMS in has else dims)
            self.gain(prefix + "attn_k_norm.weight", keys if ROW_NORMS in has else dims)
        self.matrix(prefix + "attn_output.weight", width, queries, 1 / np.sqrt(queries))
        if GPT_OSS in has:
            self.bias(prefix + "attn_output.bias", width)
            self.bias(prefix + "attn_sinks.weight", queries // dims)
        if EXPERTS in has and int(prefix.split(".")[1]) >= self.keys.get("leading_dense_block_count", 0):
            self.mixture(prefix, width, wide, has)
        elif FUSED_UP in has:
            self.matrix(f"{prefix}ffn_up.weight", 2 * wide, width, 1.5 / np.sqrt(width))
            self.matrix(f"{prefix}ffn_down.weight", width, wide, 1 / np.sqrt(wide))
        else:
            self.feed_forward(prefix, "", width, wide)
        if POST_NORMS in has:
            self.gain(prefix + "post_attention_norm.weight", width)
            self.gain(prefix + "post_ffw_norm.weight", width)

    def keys_and_values(self, prefix, width, queries, keys, has):
        separate = (("attn_q", queries), ("attn_k", keys), ("attn_v", keys))
        for name, outputs in (("attn_qkv", queries + 2 * keys),) if FUSED_QKV in has else separate:
            self.matrix(f"{prefix}{name}.weight", outputs, width, 2 / np.sqrt(width))
            if BIASES in has:
                self.bias(f"{prefix}{name}.bias", outputs)

    def latent_sizes(self, heads, dims, rank, has):
        """A head's key has `dims` of the latent row and half as many that are rotated; its value is as long, or 8 longer."""
        rotated = dims // 2 // 2 * 2
        self.sizes = dims + rotated, dims + (8 if self.kind == Type.F32 else 0)
        self.file.add_rope_dimension_count(rotated)
        self.file.add_head_count_kv(heads if WHOLE in has else 1)
        own, newer = (self.sizes, None) if WHOLE in has else ((rank + rotated, rank), self.sizes)
        self.file.add_key_length(own[0])
        self.file.add_value_length(own[1])
        if newer:
            self.file.add_key_length_mla(newer[0])
            self.file.add_value_length_mla(newer[1])

    def latent(self, prefix, width, heads, dims, has):
        """Returns how many numbers attention makes of a row."""
        rank, query_rank = self.keys["attention.kv_lora_rank"], self.keys.get("attention.q_lora_rank", 0)
        key, value = self.sizes
        if query_rank:
            self.matrix(prefix + "attn_q_a.weight", query_rank, width, 2 / np.sqrt(width))
            self.gain(prefix + "attn_q_a_norm.weight", query_rank)
            self.matrix(prefix + "attn_q_b.weight", heads * key, query_rank, 1 / np.sqrt(query_rank))
        else:
            self.matrix(prefix + "attn_q.weight", heads * key, width, 2 / np.sqrt(width))
        self.matrix(prefix + "attn_kv_a_mqa.weight", rank + key - dims, width, 2 / np.sqrt(width))
        self.gain(prefix + "attn_kv_a_norm.weight", rank)
        if WHOLE in has:
            self.matrix(prefix + "attn_kv_b.weight", heads * (dims + value), rank, 2 / np.sqrt(rank))
        else:
            self.matrix(prefix + "attn_k_b.weight", rank, dims, 2 / np.sqrt(rank), heads)
            self.matrix(prefix + "attn_v_b.weight", value, rank, 2 / np.sqrt(rank), heads)
        return heads * value

    def feed_forward(self, prefix, suffix, width, wide, *experts):
        self.matrix(f"{prefix}ffn_gate{suffix}.weight", wide, width, 2 / np.sqrt(width), *experts)
        self.matrix(f"{prefix}ffn_up{suffix}.weight", wide, width, 1 / np.sqrt(width), *experts)
        self.matrix(f"{prefix}ffn_down{suffix}.weight", width, wide, 1 / np.sqrt(wide), *experts)

    def mixture(self, prefix, width, wide, has):
        experts = self.keys["expert_count"]
        self.file.add_tensor(f"{prefix}ffn_gate_inp.weight", self.random.normal(0, 1.5 / np.sqrt(width), (experts, width)).astype(np.float32))
        if ROUTER_BIAS in has:
            self.file.add_tensor(f"{prefix}exp_probs_b.bias", self.random.normal(0, 0.2, experts).astype(np.float32))
        wide = self.keys.get("expert_feed_forward_length", wide)
        kind = self.kind
        if MXFP4 in has and kind != Type.F32:
            self.kind = Type.MXFP4
        self.feed_forward(prefix, "_exps", width, wide, experts)
        self.kind = kind
        if GPT_OSS in has:
            self.bias(f"{prefix}ffn_gate_inp.bias", experts)
            for name, outputs in (("gate", wide), ("up", wide), ("down", width)):
                self.bias(f"{prefix}ffn_{name}_exps.bias", experts, outputs)
        if SHARED in has:
            shared = self.keys.get("expert_shared_count", 0) * self.keys.get("expert_feed_forward_length", 0)
            self.feed_forward(prefix, "_shexp", width, self.keys.get("expert_shared_feed_forward_length", shared))
        if SHARED_ROUTER in has:
            self.file.add_tensor(f"{prefix}ffn_gate_inp_shexp.weight", self.random.normal(0, 1 / np.sqrt(width), width).astype(np.float32))

    def bias(self, name, *shape):
        self.file.add_tensor(name, self.random.normal(0, 0.5, shape).astype(np.float32))

    def gain(self, name, width):
        self.file.add_tensor(name, self.random.uniform(0.5, 1.5, width).astype(np.float32))

    def matrix(self, name, outputs, inputs, deviation, *experts):
        values = self.random.normal(0, deviation, (*experts, outputs, inputs)).astype(np.float32)
        if self.kind == Type.F32:
            self.file.add_tensor(name, values)
        else:
            self.file.add_tensor(name, quantize(values, self.kind), raw_dtype=self.kind)
