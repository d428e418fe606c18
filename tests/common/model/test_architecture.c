/* What each architecture's row makes of a file's metadata and tensors. */
#include "common/model/architecture.h"
#include "common/model/model_widths.h"

#include "tests/support/tiny_llama.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Reads and frees; the status, and the message where it is not LH_OK. */
static lh_status read(gguf_writer *writer, lh_model_config *config, lh_error *error) {
    size_t length;
    uint8_t *file = gguf_writer_finish(writer, &length);
    lh_gguf *gguf;
    gguf_writer_destroy(writer);
    lh_status status = lh_gguf_parse(file, length, length, &gguf, error);
    if (status == LH_OK) {
        status = lh_model_config_read(gguf, config, error);
        lh_gguf_destroy(gguf);
    }
    free(file);
    return status;
}

static lh_model_config config_of(gguf_writer *writer) {
    lh_model_config config;
    lh_error error;
    if (read(writer, &config, &error) != LH_OK)
        fail_msg("%s", error.message);
    return config;
}

static void check_refused(gguf_writer *writer, lh_status status, const char *words) {
    lh_model_config config;
    lh_error error = {0};
    lh_status got = read(writer, &config, &error);
    if (got != status || !strstr(error.message, words)) {
        fail_msg("%s \"%s\", expected %s \"%s\"", lh_status_name(got), error.message,
                 lh_status_name(status), words);
    }
}

static gguf_writer *writer_of(const char *architecture) {
    tiny_llama model = tiny_llama_of(architecture);
    return tiny_llama_writer(&model);
}

static void test_what_each_one_has(void **state) {
    (void)state;
    const lh_model_config llama = config_of(writer_of("llama")),
                          qwen2 = config_of(writer_of("qwen2")),
                          qwen3 = config_of(writer_of("qwen3")),
                          gemma3 = config_of(writer_of("gemma3"));
    assert_true(llama.rope_interleaved && !qwen2.rope_interleaved && !qwen3.rope_interleaved &&
                !gemma3.rope_interleaved);
    assert_false(lh_model_has(&llama, LH_TENSOR_ATTN_Q_BIAS));
    assert_true(lh_model_has(&qwen2, LH_TENSOR_ATTN_V_BIAS) &&
                !lh_model_has(&qwen2, LH_TENSOR_ATTN_Q_NORM));
    assert_true(lh_model_has(&qwen3, LH_TENSOR_ATTN_Q_NORM) &&
                !lh_model_has(&qwen3, LH_TENSOR_ATTN_POST_NORM));
    assert_true(lh_model_has(&gemma3, LH_TENSOR_ATTN_K_NORM) &&
                lh_model_has(&gemma3, LH_TENSOR_FFN_POST_NORM));
    assert_true(llama.gate == LH_GATE_SILU && qwen3.gate == LH_GATE_SILU &&
                gemma3.gate == LH_GATE_GELU);
    assert_true(llama.embedding_scale == 1 && gemma3.embedding_scale == 8);
    assert_true(llama.attention_scale == 0.25f && gemma3.attention_scale == 0.25f);
}

static void test_mixtures_of_experts(void **state) {
    (void)state;
    const lh_model_config qwen2 = config_of(writer_of("qwen2moe")),
                          qwen3 = config_of(writer_of("qwen3moe")),
                          olmoe = config_of(writer_of("olmoe")),
                          granite = config_of(writer_of("granitemoe"));
    assert_true(qwen3.experts == 7 && qwen3.experts_used == 3 && qwen3.expert_width == 96);
    assert_true(qwen3.experts_normalized && granite.experts_normalized &&
                !qwen2.experts_normalized && !olmoe.experts_normalized);
    assert_true(lh_model_has(&qwen2, LH_TENSOR_SHARED_ROUTER) && qwen2.shared_expert_width == 64);
    assert_true(lh_model_has(&granite, LH_TENSOR_SHARED_UP) &&
                !lh_model_has(&granite, LH_TENSOR_SHARED_ROUTER));
    assert_true(olmoe.norms_whole_rows && !lh_model_has(&olmoe, LH_TENSOR_FFN_UP) &&
                lh_model_has(&olmoe, LH_TENSOR_EXPERTS_UP));
    tiny_llama mixtral = tiny_llama_default();
    mixtral.experts = 4;
    mixtral.experts_used = 2;
    mixtral.expert_width = 128;
    assert_int_equal(config_of(tiny_llama_writer(&mixtral)).expert_width, 128);
}

static void test_gpt_oss(void **state) {
    (void)state;
    const lh_model_config c = config_of(writer_of("gpt-oss"));
    assert_true(c.gate == LH_GATE_SWIGLU_CLAMPED && c.routing == LH_ROUTING_SOFTMAX_OF_CHOSEN);
    assert_true(!c.experts_normalized && lh_model_has(&c, LH_TENSOR_ATTN_SINKS));
    assert_true(lh_model_has(&c, LH_TENSOR_FFN_NORM_BEHIND) &&
                !lh_model_has(&c, LH_TENSOR_FFN_NORM) &&
                !lh_model_has(&c, LH_TENSOR_ATTN_POST_NORM));
    assert_true(!lh_model_is_matrix(LH_TENSOR_EXPERTS_DOWN_BIAS) &&
                lh_model_is_matrix(LH_TENSOR_EXPERTS_DOWN));
    assert_int_equal(lh_model_layer_kind(&c, 0), LH_LAYER_WINDOW);
    assert_int_equal(lh_model_layer_kind(&c, 1), LH_LAYER_FULL);
    gguf_writer *writer = writer_of("gpt-oss");
    gguf_writer_text(writer, "gpt-oss.rope.scaling.type", "yarn");
    gguf_writer_f32(writer, "gpt-oss.rope.scaling.factor", 32);
    const lh_model_config scaled = config_of(writer); /* windows or not */
    assert_true(scaled.windows_turn_alike && scaled.rope[LH_LAYER_FULL].is_yarn &&
                scaled.rope[LH_LAYER_FULL].factor == 32);
    writer = writer_of("gpt-oss");
    gguf_writer_gain(writer, "blk.0.ffn_norm.weight", 64, 0.5f);
    check_refused(writer, LH_ERR_UNSUPPORTED, "blk.0.ffn_norm.weight is not known");
}

static void test_mixtures_that_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *key;
        uint32_t value;
        lh_status status;
        const char *words;
    } cases[] = {
        {"qwen3moe.expert_group_count", 3, LH_ERR_MALFORMED, "3 of 3 groups of 7 experts"},
        {"qwen3moe.expert_group_count", 65, LH_ERR_LIMIT, "expert_group_count = 65"},
        {"qwen3moe.leading_dense_block_count", 1, LH_ERR_UNSUPPORTED, "blk.0.ffn_gate_inp.weight"},
        {"qwen3moe.expert_gating_func", 4, LH_ERR_UNSUPPORTED, "expert_gating_func = 4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gguf_writer *writer = writer_of("qwen3moe");
        gguf_writer_u32(writer, cases[i].key, cases[i].value);
        check_refused(writer, cases[i].status, cases[i].words);
    }
    tiny_llama model = tiny_llama_of("qwen3moe");
    model.experts_used = 8;
    check_refused(tiny_llama_writer(&model), LH_ERR_LIMIT, "expert_used_count = 8 is not in 1..7");
    model = tiny_llama_of("qwen3");
    model.experts = 7;
    model.expert_width = 96;
    check_refused(tiny_llama_writer(&model), LH_ERR_UNSUPPORTED, "qwen3.expert_count = 7");
}

static void test_latent_attention(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_of("deepseek2");
    model.layers = 3;
    const lh_model_config c = config_of(tiny_llama_writer(&model));
    assert_true(c.latent.rank == 32 && c.latent.query_rank == 64 && c.kv_heads == 1);
    assert_true(c.head_dim == 40 && c.rope_dims == 8 && c.latent.value_dim == 24);
    assert_true(lh_model_key_width(&c) == 40 && lh_model_attended_width(&c) == 96);
    assert_true(lh_model_has(&c, LH_TENSOR_ATTN_K_B) && !lh_model_has(&c, LH_TENSOR_ATTN_KV_B));
    assert_false(lh_model_has(&c, LH_TENSOR_ATTN_Q) || lh_model_has(&c, LH_TENSOR_ATTN_K));
    assert_true(lh_model_is_of_heads(LH_TENSOR_ATTN_V_B) &&
                !lh_model_is_of_experts(LH_TENSOR_ATTN_V_B));
    model.has_whole_kv = true;
    model.query_rank = 0;
    const lh_model_config whole = config_of(tiny_llama_writer(&model));
    assert_true(whole.head_dim == 40 && whole.latent.value_dim == 24);
    assert_true(lh_model_has(&whole, LH_TENSOR_ATTN_KV_B) &&
                lh_model_has(&whole, LH_TENSOR_ATTN_Q));
    gguf_writer *writer = tiny_llama_writer(&model);
    gguf_writer_u32(writer, "deepseek2.attention.temperature_scale", 1);
    check_refused(writer, LH_ERR_UNSUPPORTED, "attention.temperature_scale = 1");
}

static void test_dense_layers_before_a_mixture(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_of("deepseek2");
    model.layers = 3;
    model.leading_dense = 2;
    const lh_model_config c = config_of(tiny_llama_writer(&model));
    assert_true(c.expert_groups == 4 && c.expert_groups_used == 2 && c.shared_expert_width == 64);
    assert_false(lh_model_layer_is_mixture(&c, 1));
    assert_true(lh_model_layer_is_mixture(&c, 2));
    assert_true(lh_model_layer_has(&c, LH_TENSOR_FFN_UP, 1) &&
                !lh_model_layer_has(&c, LH_TENSOR_FFN_UP, 2));
    assert_true(lh_model_layer_has(&c, LH_TENSOR_SHARED_UP, 2) &&
                !lh_model_layer_has(&c, LH_TENSOR_EXPERTS_UP, 1));
}

static void test_where_yarns_growth_is(void **state) {
    (void)state;
    gguf_writer *writer = writer_of("deepseek2");
    gguf_writer_text(writer, "deepseek2.rope.scaling.type", "yarn");
    gguf_writer_f32(writer, "deepseek2.rope.scaling.factor", 40);
    gguf_writer_f32(writer, "deepseek2.rope.scaling.yarn_log_multiplier", 0.0625f);
    assert_true(config_of(writer).rope[LH_LAYER_FULL].attention_growth == 0.0625);
    writer = writer_of("qwen2");
    gguf_writer_f32(writer, "qwen2.rope.scaling.yarn_log_multiplier", 0.0625f);
    check_refused(writer, LH_ERR_UNSUPPORTED, "yarn_log_multiplier = 0.0625");
}

static void test_scales(void **state) {
    (void)state;
    gguf_writer *writer = writer_of("granite");
    gguf_writer_f32(writer, "granite.residual_scale", 0.25f);
    gguf_writer_f32(writer, "granite.logit_scale", 8);
    gguf_writer_f32(writer, "granite.embedding_scale", 12);
    const lh_model_config c = config_of(writer);
    assert_true(c.residual_scale == 0.25f && c.logit_scale == 0.125f && c.embedding_scale == 12);
    writer = writer_of("llama");
    gguf_writer_f32(writer, "llama.residual_scale", 0.25f);
    check_refused(writer, LH_ERR_UNSUPPORTED, "llama.residual_scale = 0.25");
}

static void test_layers_with_a_window(void **state) {
    (void)state;
    const lh_model_config gemma3 = config_of(writer_of("gemma3")),
                          llama = config_of(writer_of("llama"));
    static const lh_layer_kind kinds[] = {LH_LAYER_WINDOW, LH_LAYER_WINDOW, LH_LAYER_FULL};
    assert_int_equal(gemma3.window, 12);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(lh_model_layer_kind(&gemma3, i), kinds[i]);
        assert_int_equal(lh_model_layer_kind(&llama, i), LH_LAYER_FULL);
    }
    tiny_llama model = tiny_llama_of("gemma3");
    model.layers = 7;
    model.window_period = 0; /* not in the file: the architecture's own */
    const lh_model_config plain = config_of(tiny_llama_writer(&model));
    assert_int_equal(plain.window_period, 6);
    assert_int_equal(lh_model_layer_kind(&plain, 4), LH_LAYER_WINDOW);
    assert_int_equal(lh_model_layer_kind(&plain, 5), LH_LAYER_FULL);
    model.window = 0;
    assert_int_equal(lh_model_layer_kind(&(lh_model_config){.window = 0}, 0), LH_LAYER_FULL);
    assert_int_equal(config_of(tiny_llama_writer(&model)).window, 0);
}

static void test_the_angles_of_both_kinds_of_layers(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_of("gemma3");
    gguf_writer *writer = tiny_llama_writer(&model);
    gguf_writer_text(writer, "gemma3.rope.scaling.type", "linear");
    gguf_writer_f32(writer, "gemma3.rope.scaling.factor", 8);
    const lh_model_config c = config_of(writer);
    assert_true(c.rope[LH_LAYER_FULL].factor == 8 && c.rope[LH_LAYER_WINDOW].factor == 1);
    assert_true(c.rope[LH_LAYER_WINDOW].base == 10000);
    writer = tiny_llama_writer(&model);
    gguf_writer_f32(writer, "gemma3.rope.freq_base_swa", 500);
    assert_true(config_of(writer).rope[LH_LAYER_WINDOW].base == 500);
}

static void test_the_scale_of_attention(void **state) {
    (void)state;
    gguf_writer *writer = writer_of("llama");
    gguf_writer_f32(writer, "llama.attention.scale", 0.5f);
    assert_true(config_of(writer).attention_scale == 0.5f);
    writer = writer_of("llama");
    gguf_writer_f32(writer, "llama.attention.scale", -1);
    check_refused(writer, LH_ERR_UNSUPPORTED, "llama.attention.scale = -1");
    tiny_llama model = tiny_llama_of("gemma3");
    model.layers = 62;
    model.head_dim = 32;
    /* 64 columns over 4 heads */
    assert_true(config_of(tiny_llama_writer(&model)).attention_scale == 0.25f);
    model.layers = 6;
    assert_true(config_of(tiny_llama_writer(&model)).attention_scale == 1 / sqrtf(32));
}

static void test_yarn(void **state) {
    (void)state;
    gguf_writer *writer = writer_of("qwen2");
    gguf_writer_text(writer, "qwen2.rope.scaling.type", "yarn");
    gguf_writer_f32(writer, "qwen2.rope.scaling.factor", 4);
    gguf_writer_u32(writer, "qwen2.rope.scaling.original_context_length", 64);
    gguf_writer_f32(writer, "qwen2.rope.scaling.attn_factor", 2);
    const lh_rope_scaling rope = config_of(writer).rope[LH_LAYER_FULL];
    assert_true(rope.is_yarn && rope.factor == 4 && rope.original_context == 64);
    assert_true(rope.beta_fast == 32 && rope.beta_slow == 1);
    assert_true(rope.magnitude == 2);
    writer = writer_of("qwen2");
    gguf_writer_text(writer, "qwen2.rope.scaling.type", "yarn");
    gguf_writer_f32(writer, "qwen2.rope.scaling.yarn_beta_fast", 0.5f);
    check_refused(writer, LH_ERR_MALFORMED, "beta_fast = 0.5");
    writer = writer_of("qwen2");
    gguf_writer_text(writer, "qwen2.rope.scaling.type", "yarn");
    gguf_writer_f32(writer, "qwen2.rope.scaling.yarn_log_multiplier", 0.1f);
    check_refused(writer, LH_ERR_UNSUPPORTED, "yarn_log_multiplier");
}

static void test_windows_where_there_are_none(void **state) {
    (void)state;
    gguf_writer *writer = writer_of("qwen2");
    gguf_writer_u32(writer, "qwen2.attention.sliding_window", 4096);
    check_refused(writer, LH_ERR_UNSUPPORTED, "qwen2.attention.sliding_window = 4096");
    tiny_llama model = tiny_llama_of("gemma3");
    model.window_period = 1u << 20;
    check_refused(tiny_llama_writer(&model), LH_ERR_LIMIT,
                  "gemma3.attention.sliding_window_pattern");
}

static void test_windows_by_an_array(void **state) {
    (void)state;
    static const bool thirds[] = {true, true, false, true, true},
                      odd[] = {true, false, false, true}, all[] = {true, true, true, true};
    static const char key[] = "olmo2.attention.sliding_window_pattern";
    tiny_llama model = tiny_llama_of("olmo2");
    model.window = 12;
    model.layers = 5;
    gguf_writer *writer = tiny_llama_writer(&model);
    gguf_writer_bool_array(writer, key, thirds, 5);
    const lh_model_config c = config_of(writer);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(lh_model_layer_kind(&c, i), thirds[i] ? LH_LAYER_WINDOW : LH_LAYER_FULL);
    writer = tiny_llama_writer(&model);
    gguf_writer_bool_array(writer, key, odd, 4);
    check_refused(writer, LH_ERR_MALFORMED, "has 4 elements for 5 layers");
    model.layers = 4;
    writer = tiny_llama_writer(&model);
    gguf_writer_bool_array(writer, key, odd, 4);
    check_refused(writer, LH_ERR_UNSUPPORTED, key);
    writer = tiny_llama_writer(&model);
    gguf_writer_bool_array(writer, key, all, 4);
    const lh_model_config everywhere = config_of(writer);
    assert_int_equal(lh_model_layer_kind(&everywhere, 3), LH_LAYER_WINDOW);
}

static void test_layers_that_are_not_rotated(void **state) {
    (void)state;
    const lh_model_config smollm3 = config_of(writer_of("smollm3"));
    assert_true(lh_model_layer_is_rotated(&smollm3, 2) && !lh_model_layer_is_rotated(&smollm3, 3) &&
                lh_model_layer_is_rotated(&smollm3, 4));
    tiny_llama model = tiny_llama_of("exaone4"); /* where there are windows: those alone */
    const lh_model_config plain = config_of(tiny_llama_writer(&model));
    assert_true(lh_model_layer_is_rotated(&plain, 3));
    model.window = 12;
    const lh_model_config c = config_of(tiny_llama_writer(&model));
    assert_true(lh_model_layer_is_rotated(&c, 2) && !lh_model_layer_is_rotated(&c, 3));
    assert_true(c.windows_turn_alike);
    gguf_writer *writer = tiny_llama_writer(&model);
    gguf_writer_f32(writer, "exaone4.rope.freq_base_swa", 500);
    check_refused(writer, LH_ERR_UNSUPPORTED, "rope.freq_base_swa = 500");
}

static void test_several_matrices_in_one_tensor(void **state) {
    (void)state;
    lh_tensor_part parts[LH_TENSOR_PARTS_MAX];
    tiny_llama model = tiny_llama_of("phi3");
    const lh_model_config phi3 = config_of(tiny_llama_writer(&model));
    assert_true(lh_model_has(&phi3, LH_TENSOR_ATTN_QKV) && !lh_model_has(&phi3, LH_TENSOR_ATTN_K));
    assert_int_equal(lh_model_tensor_parts(&phi3, LH_TENSOR_ATTN_QKV, parts), 3);
    assert_true(parts[1].role == LH_TENSOR_ATTN_K && parts[1].first == 64 && parts[1].count == 32);
    assert_true(parts[2].role == LH_TENSOR_ATTN_V && parts[2].first == 96 && parts[2].count == 32);
    assert_int_equal(lh_model_tensor_parts(&phi3, LH_TENSOR_FFN_GATE_UP, parts), 2);
    assert_true(parts[1].role == LH_TENSOR_FFN_UP && parts[1].first == 128);
    assert_int_equal(lh_model_tensor_parts(&phi3, LH_TENSOR_FFN_DOWN, parts), 1);
    assert_true(parts[0].role == LH_TENSOR_FFN_DOWN && parts[0].count == 64);
    model.is_up_fused = false;
    check_refused(tiny_llama_writer(&model), LH_ERR_UNSUPPORTED, "blk.0.ffn_gate.weight");
    model = tiny_llama_of("llama"); /* where nobody's rows are mixed up, any may have it */
    model.is_qkv_fused = true;
    const lh_model_config llama = config_of(tiny_llama_writer(&model));
    assert_true(lh_model_has(&llama, LH_TENSOR_ATTN_QKV) && lh_model_has(&llama, LH_TENSOR_FFN_UP));
    gguf_writer *writer = tiny_llama_writer(&model);
    gguf_writer_tensor(writer, "blk.0.attn_q.weight", LH_DTYPE_F32, 2, (const uint64_t[]){64, 64},
                       1);
    check_refused(writer, LH_ERR_UNSUPPORTED, "blk.0.attn_q.weight is not known");
}

static void test_long_and_short_factors(void **state) {
    (void)state;
    const uint64_t pairs[] = {8};
    gguf_writer *writer = writer_of("phi3");
    gguf_writer_text(writer, "phi3.rope.scaling.type", "longrope");
    gguf_writer_u32(writer, "phi3.rope.scaling.original_context_length", 64);
    gguf_writer_f32(writer, "phi3.rope.scaling.attn_factor", 1.5f);
    gguf_writer_tensor(writer, "rope_factors_long.weight", LH_DTYPE_F32, 1, pairs, 1);
    gguf_writer_tensor(writer, "rope_factors_short.weight", LH_DTYPE_F32, 1, pairs, 1);
    const lh_model_config c = config_of(writer);
    assert_true(lh_model_has(&c, LH_TENSOR_ROPE_LONG_FACTORS));
    assert_true(c.rope[LH_LAYER_FULL].original_context == 64 && c.rope[LH_LAYER_FULL].factor == 1);
    assert_true(c.rope[LH_LAYER_FULL].magnitude == 1.5);
    writer = writer_of("phi3");
    gguf_writer_tensor(writer, "rope_factors_long.weight", LH_DTYPE_F32, 1, pairs, 1);
    check_refused(writer, LH_ERR_MALFORMED, "rope_factors_short.weight is missing");
}

static void test_what_would_be_computed_otherwise(void **state) {
    (void)state;
    static const int32_t sections[] = {2, 3, 3, 0};
    gguf_writer *writer = writer_of("glm4");
    gguf_writer_i32_array(writer, "glm4.rope.dimension_sections", sections, 4);
    check_refused(writer, LH_ERR_UNSUPPORTED, "glm4.rope.dimension_sections");
    tiny_llama model = tiny_llama_of("minicpm");
    check_refused(tiny_llama_writer(&model), LH_ERR_MALFORMED,
                  "minicpm.embedding_scale is missing");
}

static void test_tensors_that_are_missing_or_too_many(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_of("qwen2");
    model.has_biases = false;
    check_refused(tiny_llama_writer(&model), LH_ERR_MALFORMED, "blk.0.attn_q.bias is missing");
    model = tiny_llama_of("qwen3");
    model.has_biases = true;
    check_refused(tiny_llama_writer(&model), LH_ERR_UNSUPPORTED, "blk.0.attn_q.bias is not known");
    model = tiny_llama_of("gemma3");
    model.has_post_norms = false;
    check_refused(tiny_llama_writer(&model), LH_ERR_MALFORMED,
                  "post_attention_norm.weight is missing");
    model = tiny_llama_of("llama");
    model.has_biases = true;
    const lh_model_config c = config_of(tiny_llama_writer(&model));
    assert_true(lh_model_has(&c, LH_TENSOR_ATTN_K_BIAS));
    gguf_writer *writer = writer_of("llama"); /* in one layer of two */
    gguf_writer_tensor(writer, "blk.0.attn_q.bias", LH_DTYPE_F32, 1, (const uint64_t[]){64}, 1);
    check_refused(writer, LH_ERR_MALFORMED, "blk.1.attn_q.bias is missing");
    writer = writer_of("llama");
    gguf_writer_tensor(writer, "blk.1.attn_q.bias", LH_DTYPE_F32, 1, (const uint64_t[]){64}, 1);
    check_refused(writer, LH_ERR_UNSUPPORTED, "blk.1.attn_q.bias is not known");
}

static void test_the_message_names_those_that_are(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_default();
    model.architecture = "bert";
    check_refused(tiny_llama_writer(&model), LH_ERR_UNSUPPORTED,
                  "\"bert\" is not supported (docs/OPERATING.md names the ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_each_one_has),
        cmocka_unit_test(test_mixtures_of_experts),
        cmocka_unit_test(test_gpt_oss),
        cmocka_unit_test(test_mixtures_that_are_refused),
        cmocka_unit_test(test_latent_attention),
        cmocka_unit_test(test_dense_layers_before_a_mixture),
        cmocka_unit_test(test_where_yarns_growth_is),
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_layers_with_a_window),
        cmocka_unit_test(test_the_angles_of_both_kinds_of_layers),
        cmocka_unit_test(test_the_scale_of_attention),
        cmocka_unit_test(test_yarn),
        cmocka_unit_test(test_windows_where_there_are_none),
        cmocka_unit_test(test_windows_by_an_array),
        cmocka_unit_test(test_layers_that_are_not_rotated),
        cmocka_unit_test(test_several_matrices_in_one_tensor),
        cmocka_unit_test(test_long_and_short_factors),
        cmocka_unit_test(test_what_would_be_computed_otherwise),
        cmocka_unit_test(test_tensors_that_are_missing_or_too_many),
        cmocka_unit_test(test_the_message_names_those_that_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
