/* Every hyper-parameter and tensor that is wrong, missing or would not be honoured is refused by
 * its name. */
#include "common/model/model.h"

#include "tests/support/tiny_llama.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct parsed {
    uint8_t *file;
    lh_gguf *gguf;
} parsed;

static parsed parse(gguf_writer *writer) {
    parsed p;
    size_t length;
    lh_error error;
    p.file = gguf_writer_finish(writer, &length);
    gguf_writer_destroy(writer);
    if (lh_gguf_parse(p.file, length, length, &p.gguf, &error) != LH_OK)
        fail_msg("%s", error.message);
    return p;
}

static void drop(parsed p) {
    lh_gguf_destroy(p.gguf);
    free(p.file);
}

static lh_model_config config_of(gguf_writer *writer) {
    parsed p = parse(writer);
    lh_model_config config;
    lh_error error;
    if (lh_model_config_read(p.gguf, &config, &error) != LH_OK)
        fail_msg("%s", error.message);
    drop(p);
    return config;
}

static void check_refused(gguf_writer *writer, lh_status status, const char *words) {
    parsed p = parse(writer);
    lh_model_config config;
    lh_error error;
    lh_status got = lh_model_config_read(p.gguf, &config, &error);
    if (got != status || !strstr(error.message, words)) {
        fail_msg("%s \"%s\", expected %s \"%s\"", lh_status_name(got),
                 got == LH_OK ? "" : error.message, lh_status_name(status), words);
    }
    assert_int_equal(lh_model_config_read(p.gguf, &config, NULL), status);
    drop(p);
}

/* ---- A file from parts ---- */

/* Metadata of a sound model, with one key left out (NULL: none); then the tensors of two layers,
 * one left out. */
static gguf_writer *metadata_without(const char *left_out) {
    static const struct {
        const char *key;
        uint32_t value;
    } counts[] = {
        {"llama.block_count", 2},          {"llama.context_length", 128},
        {"llama.embedding_length", 64},    {"llama.feed_forward_length", 96},
        {"llama.attention.head_count", 4}, {"llama.attention.head_count_kv", 2},
    };
    gguf_writer *writer = gguf_writer_create(1);
    if (!left_out || strcmp(left_out, "general.architecture") != 0)
        gguf_writer_text(writer, "general.architecture", "llama");
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (!left_out || strcmp(left_out, counts[i].key) != 0)
            gguf_writer_u32(writer, counts[i].key, counts[i].value);
    if (!left_out || strcmp(left_out, "llama.attention.layer_norm_rms_epsilon") != 0)
        gguf_writer_f32(writer, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    return writer;
}

static void add_layer(gguf_writer *writer, uint32_t layer, uint32_t kv_heads,
                      const char *left_out) {
    const struct {
        const char *name;
        uint64_t inputs, outputs; /* 0: a vector */
    } tensors[] = {
        {"attn_norm", 64, 0},          {"attn_q", 64, 64},      {"attn_k", 64, 16 * kv_heads},
        {"attn_v", 64, 16 * kv_heads}, {"attn_output", 64, 64}, {"ffn_norm", 64, 0},
        {"ffn_gate", 64, 96},          {"ffn_up", 64, 96},      {"ffn_down", 96, 64},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.%s.weight", layer, tensors[i].name);
        if (left_out && strcmp(left_out, name) == 0)
            continue;
        if (tensors[i].outputs == 0) {
            gguf_writer_gain(writer, name, tensors[i].inputs, 0.5f);
        } else {
            gguf_writer_matrix(writer, name, LH_DTYPE_Q8_0, tensors[i].inputs, tensors[i].outputs,
                               1);
        }
    }
}

static gguf_writer *with_tensors(gguf_writer *writer, uint32_t kv_heads, const char *left_out) {
    if (!left_out || strcmp(left_out, "token_embd.weight") != 0)
        gguf_writer_matrix(writer, "token_embd.weight", LH_DTYPE_F16, 64, 50, 1);
    for (uint32_t layer = 0; layer < 2; layer++)
        add_layer(writer, layer, kv_heads, left_out);
    if (!left_out || strcmp(left_out, "output_norm.weight") != 0)
        gguf_writer_gain(writer, "output_norm.weight", 64, 0.5f);
    return writer;
}

/* A whole sound model to which a test adds something. */
static gguf_writer *sound(void) {
    return with_tensors(metadata_without(NULL), 2, NULL);
}

/* ---- What is read ---- */

static void test_defaults(void **state) {
    (void)state;
    const lh_model_config c = config_of(sound());
    assert_int_equal(c.layers, 2);
    assert_int_equal(c.width, 64);
    assert_int_equal(c.feed_forward_width, 96);
    assert_int_equal(c.heads, 4);
    assert_int_equal(c.kv_heads, 2);
    assert_int_equal(c.head_dim, 16);
    assert_int_equal(c.vocabulary, 50);
    assert_int_equal(c.context, 128);
    assert_int_equal(c.rope_dims, 16);
    assert_true(c.rope_interleaved && !lh_model_has(&c, LH_TENSOR_HEAD) &&
                !lh_model_has(&c, LH_TENSOR_ROPE_FACTORS));
    assert_true(c.rope[LH_LAYER_FULL].base == 10000 && c.rope[LH_LAYER_FULL].factor == 1 &&
                c.rope[LH_LAYER_FULL].magnitude == 1);
    assert_true(c.rms_epsilon == 1e-5f);
}

static void test_kv_heads_default_to_heads(void **state) {
    (void)state;
    const lh_model_config c =
        config_of(with_tensors(metadata_without("llama.attention.head_count_kv"), 4, NULL));
    assert_int_equal(c.kv_heads, 4);
}

static void test_every_parameter(void **state) {
    (void)state;
    gguf_writer *writer = sound();
    const float factors[4] = {1, 2, 3, 4};
    gguf_writer_u32(writer, "llama.rope.dimension_count", 8);
    gguf_writer_f32(writer, "llama.rope.freq_base", 500000);
    gguf_writer_text(writer, "llama.rope.scaling.type", "linear");
    gguf_writer_f32(writer, "llama.rope.scaling.factor", 4);
    gguf_writer_u32(writer, "llama.attention.key_length", 16);
    gguf_writer_u32(writer, "llama.attention.value_length", 16);
    gguf_writer_u64(writer, "llama.vocab_size", 50);
    gguf_writer_tensor_bytes(writer, "rope_freqs.weight", LH_DTYPE_F32, 1, (const uint64_t[]){4},
                             factors, sizeof factors);
    gguf_writer_matrix(writer, "output.weight", LH_DTYPE_Q4_0, 64, 50, 1);
    const lh_model_config c = config_of(writer);
    assert_int_equal(c.rope_dims, 8);
    assert_true(c.rope[LH_LAYER_FULL].base == 500000 && c.rope[LH_LAYER_FULL].factor == 4);
    assert_true(lh_model_has(&c, LH_TENSOR_ROPE_FACTORS) && lh_model_has(&c, LH_TENSOR_HEAD));
}

static void test_scaling_factor(void **state) {
    (void)state;
    gguf_writer *writer = sound();
    gguf_writer_f32(writer, "llama.rope.scaling.factor", 4);
    assert_true(config_of(writer).rope[LH_LAYER_FULL].factor == 4);
    writer = sound();
    gguf_writer_f32(writer, "llama.rope.scale_linear", 8);
    assert_true(config_of(writer).rope[LH_LAYER_FULL].factor == 8);
    writer = sound();
    gguf_writer_text(writer, "llama.rope.scaling.type", "none");
    gguf_writer_f32(writer, "llama.rope.scaling.factor", 4);
    assert_true(config_of(writer).rope[LH_LAYER_FULL].factor == 1);
}

/* ---- What is refused ---- */

static void test_missing_keys(void **state) {
    (void)state;
    static const char *const keys[] = {
        "general.architecture",
        "llama.block_count",
        "llama.context_length",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        check_refused(with_tensors(metadata_without(keys[i]), 2, NULL), LH_ERR_MALFORMED, keys[i]);
}

static void test_missing_tensors(void **state) {
    (void)state;
    static const char *const names[] = {
        "token_embd.weight",   "output_norm.weight",       "blk.0.attn_norm.weight",
        "blk.1.attn_q.weight", "blk.1.attn_output.weight", "blk.1.ffn_down.weight",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        check_refused(with_tensors(metadata_without(NULL), 2, names[i]), LH_ERR_MALFORMED,
                      names[i]);
    }
}

static void test_other_architecture(void **state) {
    (void)state;
    gguf_writer *writer = metadata_without("general.architecture");
    gguf_writer_text(writer, "general.architecture", "mamba");
    check_refused(writer, LH_ERR_UNSUPPORTED, "\"mamba\"");
    writer = metadata_without("general.architecture");
    gguf_writer_u32(writer, "general.architecture", 3);
    check_refused(writer, LH_ERR_MALFORMED, "general.architecture");
}

static void test_unknown_tensors(void **state) {
    (void)state;
    static const char *const names[] = {"blk.0.attn_q_norm.weight",
                                        "blk.2.attn_q.weight",
                                        "blk.00.attn_q.weight",
                                        "output.bias",
                                        "blk.0.ffn_gate_inp.weight",
                                        "blk..attn_q.weight",
                                        "blk.1.",
                                        "blk.4294967296.attn_q.weight",
                                        "x"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        gguf_writer *writer = sound();
        gguf_writer_gain(writer, names[i], 64, 1);
        check_refused(writer, LH_ERR_UNSUPPORTED, names[i]);
    }
}

/* They are counted with the others, and nothing is asked of their tensors. */
static void test_layers_for_drafting_are_left_out(void **state) {
    (void)state;
    gguf_writer *writer = with_tensors(metadata_without("llama.block_count"), 2, NULL);
    gguf_writer_u32(writer, "llama.block_count", 3);
    gguf_writer_u32(writer, "llama.nextn_predict_layers", 1);
    gguf_writer_gain(writer, "blk.2.nextn.enorm.weight", 7, 1);
    const lh_model_config config = config_of(writer);
    assert_int_equal(config.layers, 2);
    assert_int_equal(config.drafting_layers, 1);
    writer = with_tensors(metadata_without("llama.block_count"), 2, NULL);
    gguf_writer_u32(writer, "llama.block_count", 3);
    gguf_writer_u32(writer, "llama.nextn_predict_layers", 1);
    gguf_writer_gain(writer, "blk.3.nextn.enorm.weight", 7, 1);
    check_refused(writer, LH_ERR_UNSUPPORTED, "blk.3.nextn.enorm.weight");
    writer = sound();
    gguf_writer_u32(writer, "llama.nextn_predict_layers", 2);
    check_refused(writer, LH_ERR_LIMIT, "llama.nextn_predict_layers = 2");
}

static void test_wrong_shapes_and_types(void **state) {
    (void)state;
    const char *q = "blk.0.attn_q.weight";
    gguf_writer *writer = with_tensors(metadata_without(NULL), 2, q);
    gguf_writer_matrix(writer, q, LH_DTYPE_Q8_0, 64, 32, 1);
    check_refused(writer, LH_ERR_MALFORMED, "blk.0.attn_q.weight: shape [64, 32, 1, 1]");
    writer = with_tensors(metadata_without(NULL), 2, q);
    gguf_writer_tensor(writer, q, LH_DTYPE_F32, 3, (const uint64_t[]){64, 64, 2}, 1);
    check_refused(writer, LH_ERR_MALFORMED, q);
    writer = with_tensors(metadata_without(NULL), 2, q);
    gguf_writer_tensor_bytes(writer, q, 9, 2, (const uint64_t[]){64, 64}, NULL, 0); /* Q8_1 */
    check_refused(writer, LH_ERR_UNSUPPORTED, "blk.0.attn_q.weight: type Q8_1");
    writer = with_tensors(metadata_without(NULL), 2, "blk.0.ffn_norm.weight");
    gguf_writer_tensor(writer, "blk.0.ffn_norm.weight", LH_DTYPE_F16, 1, (const uint64_t[]){64}, 1);
    check_refused(writer, LH_ERR_UNSUPPORTED, "blk.0.ffn_norm.weight: type F16");
    writer = sound();
    gguf_writer_tensor(writer, "rope_freqs.weight", LH_DTYPE_F32, 1, (const uint64_t[]){9}, 1);
    check_refused(writer, LH_ERR_MALFORMED, "rope_freqs.weight");
}

static void test_parameters_that_are_not_honoured(void **state) {
    (void)state;
    static const char *const numbers[] = {"llama.residual_scale", "llama.final_logit_softcapping",
                                          "llama.attention.clamp_kqv", "llama.logit_scale"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        gguf_writer *writer = sound();
        gguf_writer_f32(writer, numbers[i], 8);
        check_refused(writer, LH_ERR_UNSUPPORTED, numbers[i]);
    }
    gguf_writer *writer = sound();
    gguf_writer_bool(writer, "llama.attention.causal", false);
    check_refused(writer, LH_ERR_UNSUPPORTED, "llama.attention.causal");
    writer = sound();
    gguf_writer_bool(writer, "llama.attention.causal", true);
    config_of(writer);
}

static void test_rope_scaling_types(void **state) {
    (void)state;
    static const char *const types[] = {"longrope", "llama3", "", "linea"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char words[96];
        gguf_writer *writer = sound();
        gguf_writer_text(writer, "llama.rope.scaling.type", types[i]);
        snprintf(words, sizeof words, "llama.rope.scaling.type \"%s\"", types[i]);
        check_refused(writer, LH_ERR_UNSUPPORTED, words);
    }
}

static void check_number(const char *left_out, const char *key, uint64_t value, lh_status status,
                         const char *words) {
    gguf_writer *writer = with_tensors(metadata_without(left_out), 2, NULL);
    gguf_writer_u64(writer, key, value);
    check_refused(writer, status, words);
}

static void test_numbers_out_of_range(void **state) {
    (void)state;
#define REPLACED(key, value, status, words) check_number(key, key, value, status, words)
    REPLACED("llama.block_count", 0, LH_ERR_LIMIT, "llama.block_count = 0");
    REPLACED("llama.block_count", 1u << 20, LH_ERR_LIMIT, "llama.block_count");
    REPLACED("llama.block_count", 3, LH_ERR_MALFORMED, "blk.2.attn_norm.weight is missing");
    REPLACED("llama.embedding_length", UINT64_MAX, LH_ERR_LIMIT, "llama.embedding_length");
    REPLACED("llama.embedding_length", 66, LH_ERR_MALFORMED, "key_length is missing");
    REPLACED("llama.context_length", 0, LH_ERR_LIMIT, "llama.context_length");
    REPLACED("llama.attention.head_count", 0, LH_ERR_LIMIT, "head_count = 0");
    REPLACED("llama.attention.head_count_kv", 3, LH_ERR_MALFORMED,
             "head_count = 4 is not a multiple");
    check_number(NULL, "llama.attention.key_length", 15, LH_ERR_UNSUPPORTED,
                 "15 dimensions is odd");
    check_number(NULL, "llama.attention.value_length", 32, LH_ERR_UNSUPPORTED, "value_length = 32");
    check_number(NULL, "llama.rope.dimension_count", 7, LH_ERR_MALFORMED,
                 "llama.rope.dimension_count = 7");
    check_number(NULL, "llama.rope.dimension_count", 18, LH_ERR_LIMIT,
                 "llama.rope.dimension_count = 18");
    check_number(NULL, "llama.rope.freq_base", 0, LH_ERR_MALFORMED, "llama.rope.freq_base = 0");
    check_number(NULL, "llama.vocab_size", 51, LH_ERR_MALFORMED, "llama.vocab_size = 51");
    gguf_writer *writer = with_tensors(metadata_without("llama.attention.head_count"), 2, NULL);
    gguf_writer_i32_array(writer, "llama.attention.head_count", (const int32_t[]){4, 4}, 2);
    check_refused(writer, LH_ERR_MALFORMED, "llama.attention.head_count");
    writer = with_tensors(metadata_without("llama.attention.layer_norm_rms_epsilon"), 2, NULL);
    gguf_writer_f32(writer, "llama.attention.layer_norm_rms_epsilon", -1e-5f);
    check_refused(writer, LH_ERR_MALFORMED, "layer_norm_rms_epsilon");
}

/* ---- Ranges ---- */

typedef struct visited {
    const lh_gguf *gguf;
    size_t count;
    char names[64][40];
    size_t stop_at;
} visited;

static lh_status note(void *context, lh_tensor_role role, uint32_t layer,
                      const lh_gguf_tensor *tensor, lh_error *error) {
    visited *v = context;
    assert_ptr_equal(tensor, lh_model_tensor(v->gguf, role, layer));
    snprintf(v->names[v->count++], sizeof v->names[0], "%.*s", (int)tensor->name.length,
             tensor->name.bytes);
    return v->count == v->stop_at ? lh_fail(error, LH_ERR_IO, "stopped") : LH_OK;
}

static visited visit(gguf_writer *writer, uint32_t first, uint32_t last) {
    parsed p = parse(writer);
    lh_model_config config;
    visited v = {.gguf = p.gguf};
    assert_int_equal(lh_model_config_read(p.gguf, &config, NULL), LH_OK);
    assert_int_equal(
        lh_model_visit_tensors(p.gguf, &config, (lh_layer_range){first, last}, note, &v, NULL),
        LH_OK);
    drop(p);
    return v;
}

static void test_tensors_of_ranges(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_default();
    visited v = visit(tiny_llama_writer(&model), 0, 1);
    assert_int_equal(v.count, 1 + 9);
    assert_string_equal(v.names[0], "token_embd.weight");
    assert_string_equal(v.names[1], "blk.0.attn_norm.weight");
    v = visit(tiny_llama_writer(&model), 1, 2); /* tied: the last stage needs the embedding, too */
    assert_int_equal(v.count, 1 + 1 + 9);
    assert_string_equal(v.names[0], "token_embd.weight");
    assert_string_equal(v.names[1], "output_norm.weight");
    assert_string_equal(v.names[10], "blk.1.ffn_down.weight");
    v = visit(tiny_llama_writer(&model), 0, 2);
    assert_int_equal(v.count, 2 + 18);
    model.head_tied = false;
    v = visit(tiny_llama_writer(&model), 1, 2);
    assert_int_equal(v.count, 2 + 9);
    assert_string_equal(v.names[1], "output.weight");
    gguf_writer *writer = sound();
    gguf_writer_tensor(writer, "rope_freqs.weight", LH_DTYPE_F32, 1, (const uint64_t[]){8}, 1);
    v = visit(writer, 0, 1); /* every range needs the factors */
    assert_string_equal(v.names[1], "rope_freqs.weight");
}

static void test_visitor_stops(void **state) {
    (void)state;
    parsed p = parse(sound());
    lh_model_config config;
    visited v = {.gguf = p.gguf, .stop_at = 5};
    assert_int_equal(lh_model_config_read(p.gguf, &config, NULL), LH_OK);
    assert_int_equal(
        lh_model_visit_tensors(p.gguf, &config, (lh_layer_range){0, 2}, note, &v, NULL), LH_ERR_IO);
    assert_int_equal(v.count, 5);
    drop(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_kv_heads_default_to_heads),
        cmocka_unit_test(test_every_parameter),
        cmocka_unit_test(test_scaling_factor),
        cmocka_unit_test(test_missing_keys),
        cmocka_unit_test(test_missing_tensors),
        cmocka_unit_test(test_other_architecture),
        cmocka_unit_test(test_unknown_tensors),
        cmocka_unit_test(test_layers_for_drafting_are_left_out),
        cmocka_unit_test(test_wrong_shapes_and_types),
        cmocka_unit_test(test_parameters_that_are_not_honoured),
        cmocka_unit_test(test_rope_scaling_types),
        cmocka_unit_test(test_numbers_out_of_range),
        cmocka_unit_test(test_tensors_of_ranges),
        cmocka_unit_test(test_visitor_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
