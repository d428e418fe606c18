/* The table. Facts are those of the converters that write the files and of llama.cpp, which reads
 * them. */
#include "common/model/architecture.h"

#include <stdio.h>
#include <string.h>

#define QKV_BIASES                                                                                 \
    (LH_ROLE_BIT(LH_TENSOR_ATTN_Q_BIAS) | LH_ROLE_BIT(LH_TENSOR_ATTN_K_BIAS) |                     \
     LH_ROLE_BIT(LH_TENSOR_ATTN_V_BIAS))
#define QK_NORMS   (LH_ROLE_BIT(LH_TENSOR_ATTN_Q_NORM) | LH_ROLE_BIT(LH_TENSOR_ATTN_K_NORM))
#define POST_NORMS (LH_ROLE_BIT(LH_TENSOR_ATTN_POST_NORM) | LH_ROLE_BIT(LH_TENSOR_FFN_POST_NORM))

#define PRE_NORMS (LH_ROLE_BIT(LH_TENSOR_ATTN_NORM) | LH_ROLE_BIT(LH_TENSOR_FFN_NORM))
#define GATE_UP   LH_ROLE_BIT(LH_TENSOR_FFN_GATE_UP)
#define LONG_SHORT_FACTORS                                                                         \
    (LH_ROLE_BIT(LH_TENSOR_ROPE_LONG_FACTORS) | LH_ROLE_BIT(LH_TENSOR_ROPE_SHORT_FACTORS))

#define SHARED_EXPERT                                                                              \
    (LH_ROLE_BIT(LH_TENSOR_SHARED_GATE) | LH_ROLE_BIT(LH_TENSOR_SHARED_UP) |                       \
     LH_ROLE_BIT(LH_TENSOR_SHARED_DOWN))

#define EXPERT_BIASES                                                                              \
    (LH_ROLE_BIT(LH_TENSOR_ROUTER_LOGIT_BIAS) | LH_ROLE_BIT(LH_TENSOR_EXPERTS_GATE_BIAS) |         \
     LH_ROLE_BIT(LH_TENSOR_EXPERTS_UP_BIAS) | LH_ROLE_BIT(LH_TENSOR_EXPERTS_DOWN_BIAS))

static const lh_architecture architectures[] = {
    /* Llama, Mistral, SmolLM and what else is made like them; Llama 3 has rope_freqs.weight */
    {.name = "llama",
     .rope_interleaved = true,
     .optional = LH_ROLE_BIT(LH_TENSOR_ROPE_FACTORS) | QKV_BIASES,
     .experts = LH_EXPERTS_PERHAPS,
     .experts_normalized = true,
     .experts_are_wide = true},
    {.name = "qwen2", .required = QKV_BIASES},
    {.name = "qwen2moe",
     .required = QKV_BIASES | SHARED_EXPERT | LH_ROLE_BIT(LH_TENSOR_SHARED_ROUTER),
     .experts = LH_EXPERTS_ALWAYS},
    {.name = "qwen3", .required = QK_NORMS},
    {.name = "qwen3moe",
     .required = QK_NORMS,
     .experts = LH_EXPERTS_ALWAYS,
     .experts_normalized = true},
    /* its text alone, as qwen3vl below */
    {.name = "qwen3vlmoe",
     .required = QK_NORMS,
     .experts = LH_EXPERTS_ALWAYS,
     .experts_normalized = true},
    /* GLM 4.5 to 4.7, Solar Open; norms of heads in the large ones alone */
    {.name = "glm4moe",
     .required = LH_ROLE_BIT(LH_TENSOR_FFN_NORM_BEHIND) | LH_ROLE_BIT(LH_TENSOR_ROUTER_BIAS),
     .lacking = LH_ROLE_BIT(LH_TENSOR_FFN_NORM),
     .optional = QKV_BIASES | QK_NORMS | SHARED_EXPERT,
     .experts = LH_EXPERTS_ALWAYS,
     .routing = LH_ROUTING_SIGMOID},
    {.name = "dots1",
     .required = QK_NORMS,
     .optional = SHARED_EXPERT,
     .experts = LH_EXPERTS_ALWAYS},
    {.name = "hunyuan-moe",
     .required = QK_NORMS | SHARED_EXPERT,
     .norms_are_late = true,
     .experts = LH_EXPERTS_ALWAYS,
     .experts_normalized = true,
     .experts_are_wide = true},
    {.name = "bailingmoe",
     .rope_interleaved = true,
     .required = SHARED_EXPERT,
     .optional = LH_ROLE_BIT(LH_TENSOR_ROPE_FACTORS),
     .experts = LH_EXPERTS_ALWAYS},
    {.name = "bailingmoe2", .required = QK_NORMS | SHARED_EXPERT, .experts = LH_EXPERTS_ALWAYS},
    {.name = "ernie4_5-moe",
     .rope_interleaved = true,
     .optional = SHARED_EXPERT | LH_ROLE_BIT(LH_TENSOR_ATTN_OUTPUT_BIAS),
     .experts = LH_EXPERTS_ALWAYS,
     .experts_normalized = true},
    {.name = "minimax-m2",
     .required = QK_NORMS | LH_ROLE_BIT(LH_TENSOR_ROUTER_BIAS),
     .norms_whole_rows = true,
     .experts = LH_EXPERTS_ALWAYS,
     .experts_normalized = true,
     .experts_are_wide = true},
    {.name = "exaone-moe",
     .required = QK_NORMS,
     .optional = SHARED_EXPERT | LH_ROLE_BIT(LH_TENSOR_ROPE_FACTORS),
     .window_period = 4,
     .window_rope = LH_WINDOW_ROPE_ONLY,
     .experts = LH_EXPERTS_ALWAYS},
    {.name = "olmoe",
     .required = QK_NORMS,
     .norms_whole_rows = true,
     .experts = LH_EXPERTS_ALWAYS,
     .experts_are_wide = true},
    {.name = "granite", .rope_interleaved = true, .has_scales = true},
    {.name = "granitemoe",
     .rope_interleaved = true,
     .has_scales = true,
     .optional = SHARED_EXPERT,
     .experts = LH_EXPERTS_ALWAYS,
     .experts_normalized = true,
     .experts_are_wide = true},
    {.name = "gpt-oss",
     .gate = LH_GATE_SWIGLU_CLAMPED,
     .required = QKV_BIASES | EXPERT_BIASES | LH_ROLE_BIT(LH_TENSOR_ATTN_OUTPUT_BIAS) |
                 LH_ROLE_BIT(LH_TENSOR_ATTN_SINKS) | LH_ROLE_BIT(LH_TENSOR_FFN_NORM_BEHIND),
     .lacking = LH_ROLE_BIT(LH_TENSOR_FFN_NORM),
     .window_period = 2,
     .window_rope = LH_WINDOW_ROPE_SAME,
     .experts = LH_EXPERTS_ALWAYS,
     .routing = LH_ROUTING_SOFTMAX_OF_CHOSEN},
    /* of MiniCPM's files the old ones do not say what its scales are */
    {.name = "minicpm",
     .rope_interleaved = true,
     .has_scales = true,
     .requires_scales = true,
     .optional = LONG_SHORT_FACTORS},
    {.name = "phi3",
     .required = GATE_UP,
     .optional = LONG_SHORT_FACTORS,
     .window_period = LH_WINDOW_EVERYWHERE,
     .window_rope = LH_WINDOW_ROPE_SAME},
    {.name = "glm4",
     .rope_interleaved = true,
     .required = GATE_UP | POST_NORMS,
     .optional = QKV_BIASES},
    /* OLMo 2, and OLMo 3 where there is a window */
    {.name = "olmo2",
     .required = QK_NORMS | POST_NORMS,
     .lacking = PRE_NORMS,
     .norms_whole_rows = true,
     .window_period = 4},
    {.name = "smollm3", .rope_interleaved = true, .rope_period = 4},
    {.name = "exaone", .optional = LH_ROLE_BIT(LH_TENSOR_ROPE_FACTORS)},
    {.name = "exaone4",
     .required = QK_NORMS | POST_NORMS,
     .optional = LH_ROLE_BIT(LH_TENSOR_ROPE_FACTORS),
     .lacking = PRE_NORMS,
     .window_period = 4,
     .window_rope = LH_WINDOW_ROPE_ONLY},
    {.name = "seed_oss",
     .required = LH_ROLE_BIT(LH_TENSOR_FFN_NORM_BEHIND),
     .lacking = LH_ROLE_BIT(LH_TENSOR_FFN_NORM),
     .optional = QKV_BIASES},
    {.name = "internlm2", .rope_interleaved = true},
    {.name = "hunyuan-dense", .required = QK_NORMS, .norms_are_late = true},
    {.name = "ernie4_5", .rope_interleaved = true},
    {.name = "maincoder", .rope_interleaved = true, .required = QK_NORMS},
    /* their text alone: positions of images are what their rotary sections are for */
    {.name = "qwen2vl", .required = QKV_BIASES},
    {.name = "qwen3vl", .required = QK_NORMS},
    {.name = "gemma", .embedding_scaled = true, .gate = LH_GATE_GELU},
    /* DeepSeek's first mixture */
    {.name = "deepseek",
     .rope_interleaved = true,
     .optional = SHARED_EXPERT,
     .experts = LH_EXPERTS_ALWAYS},
    /* DeepSeek V2, V3, R1, Kimi K2 and what is made like them */
    {.name = "deepseek2",
     .rope_interleaved = true,
     .is_latent = true,
     .optional = SHARED_EXPERT,
     .experts = LH_EXPERTS_PERHAPS},
    /* gains are stored as they multiply (the converter has added the 1); the one of 27 billion
     * parameters has 62 layers */
    {.name = "gemma3",
     .embedding_scaled = true,
     .gate = LH_GATE_GELU,
     .required = QK_NORMS | POST_NORMS,
     .window_period = 6,
     .window_rope_base = 10000,
     .per_width_layers = 62},
};
#define ARCHITECTURES (sizeof architectures / sizeof architectures[0])

lh_status lh_architecture_find(const lh_gguf *gguf, const lh_architecture **architecture,
                               lh_error *error) {
    lh_text name;
    lh_status status = lh_gguf_get_text(gguf, "general.architecture", &name, error);
    if (status == LH_ERR_NOT_FOUND)
        return lh_fail(error, LH_ERR_MALFORMED, "GGUF metadata: general.architecture is missing");
    if (status != LH_OK)
        return status;
    for (size_t i = 0; i < ARCHITECTURES; i++) {
        const lh_architecture *row = &architectures[i];
        if (name.length == strlen(row->name) && memcmp(name.bytes, row->name, name.length) == 0) {
            *architecture = row;
            return LH_OK;
        }
    }
    return lh_fail(error, LH_ERR_UNSUPPORTED,
                   "GGUF metadata: general.architecture \"%.*s\" is not supported "
                   "(docs/OPERATING.md names the %zu that are)",
                   name.length < 64 ? (int)name.length : 64, name.bytes, ARCHITECTURES);
}
