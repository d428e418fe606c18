/* What the planner learns of a model: bytes of layers and ends, and which files are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/model_profile.h"
#include "tests/support/gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A sound file of two layers, and what may be wrong with it. */
typedef struct plan_of_file {
    const char *architecture; /* NULL: no key */
    uint64_t layers, context, width;
    const char *left_out;                /* a tensor that is not there */
    const char *added;                   /* one more tensor of 8 x 1 floats */
    uint32_t embedding_dimensions, type; /* of the embedding */
} plan_of_file;

/* "t\0y", with its length before it. */
static const char with_a_zero[] = "\3\0\0\0\0\0\0\0t\0y";

static const plan_of_file sound = {
    .architecture = "toy", .layers = 2, .context = 64, .width = 8, .embedding_dimensions = 2};

static void add_matrix(gguf_writer *writer, const plan_of_file *plan, const char *name,
                       uint64_t outputs) {
    if (!plan->left_out || strcmp(plan->left_out, name) != 0)
        gguf_writer_matrix(writer, name, LH_DTYPE_F32, 8, outputs, 1);
}

static lh_status read_file(const plan_of_file *plan, lh_model_profile *profile, lh_error *error) {
    gguf_writer *writer = gguf_writer_create(1);
    const uint64_t embedding[] = {8, 10};
    char key[128];
    size_t length;
    lh_gguf *gguf;
    if (plan->architecture == with_a_zero)
        gguf_writer_raw(writer, "general.architecture", 20, GGUF_TYPE_TEXT, with_a_zero, 11);
    else if (plan->architecture)
        gguf_writer_text(writer, "general.architecture", plan->architecture);
    const struct {
        const char *name;
        uint64_t value;
    } keys[] = {{"block_count", plan->layers},
                {"context_length", plan->context},
                {"embedding_length", plan->width}};
    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof key, "toy.%s", keys[i].name);
        if (!plan->left_out || strcmp(plan->left_out, keys[i].name) != 0)
            gguf_writer_u64(writer, key, keys[i].value);
    }
    if (!plan->left_out || strcmp(plan->left_out, "token_embd.weight") != 0)
        gguf_writer_tensor(writer, "token_embd.weight", LH_DTYPE_F32, plan->embedding_dimensions,
                           embedding, 1);
    add_matrix(writer, plan, "blk.0.attn_q.weight", 3);
    add_matrix(writer, plan, "blk.0.ffn_up.weight", 4);
    add_matrix(writer, plan, "blk.1.attn_q.weight", 5);
    add_matrix(writer, plan, "output.weight", 6);
    if (plan->added)
        gguf_writer_tensor_bytes(writer, plan->added, plan->type, 2, (const uint64_t[]){8, 1},
                                 (const float[8]){0}, 32);
    uint8_t *bytes = gguf_writer_finish(writer, &length);
    assert_int_equal(lh_gguf_parse(bytes, length, length, &gguf, NULL), LH_OK);
    lh_status status = lh_model_profile_read(gguf, profile, error);
    lh_gguf_destroy(gguf);
    free(bytes);
    gguf_writer_destroy(writer);
    return status;
}

static lh_model_profile profile_of(const plan_of_file *plan) {
    lh_model_profile profile;
    assert_int_equal(read_file(plan, &profile, NULL), LH_OK);
    return profile;
}

static void layers_and_ends_hold_what_is_named_after_them(void **state) {
    (void)state;
    plan_of_file plan = sound;
    lh_model_profile profile = profile_of(&plan);
    assert_int_equal(profile.layers, 2);
    assert_int_equal(profile.context, 64);
    assert_int_equal(profile.width, 8);
    assert_int_equal(profile.vocabulary, 10);
    assert_int_equal(profile.layer_bytes[0], (3 + 4) * 32);
    assert_int_equal(profile.layer_bytes[1], 5 * 32);
    assert_int_equal(profile.embedding_bytes, 10 * 32);
    assert_int_equal(profile.head_bytes, 6 * 32);
    lh_model_profile_reset(&profile);
    assert_null(profile.layer_bytes);
    plan.left_out = "output.weight"; /* the embedding is the head, too */
    profile = profile_of(&plan);
    assert_int_equal(profile.head_bytes, 10 * 32);
    lh_model_profile_reset(&profile);
}

/* Names that only look like a layer's are of the last stage. */
static void what_is_no_layers_belongs_to_the_head(void **state) {
    (void)state;
    static const char *const names[] = {
        "output_norm.weight", "blk.", "blk.x.weight", "blk.0", "blk..weight", "block.0.weight"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        plan_of_file plan = sound;
        plan.added = names[i];
        lh_model_profile profile = profile_of(&plan);
        assert_int_equal(profile.head_bytes, (6 + 1) * 32);
        lh_model_profile_reset(&profile);
    }
}

static void assert_refused(plan_of_file plan, lh_status status, const char *named) {
    lh_model_profile profile;
    lh_error error;
    assert_int_equal(read_file(&plan, &profile, &error), status);
    if (!strstr(error.message, named))
        fail_msg("\"%s\" is not named: %s", named, error.message);
    assert_null(profile.layer_bytes);
}

static void a_key_that_is_missing_or_no_size_is_named(void **state) {
    (void)state;
    static const char *const keys[] = {"block_count", "context_length", "embedding_length"};
    plan_of_file plan = sound;
    for (int i = 0; i < 3; i++) {
        plan.left_out = keys[i];
        assert_refused(plan, LH_ERR_MALFORMED, keys[i]);
    }
    plan = sound;
    plan.architecture = NULL;
    assert_refused(plan, LH_ERR_MALFORMED, "general.architecture is missing");
    plan.architecture = "";
    assert_refused(plan, LH_ERR_MALFORMED, "general.architecture is not a name");
    plan.architecture = "x234567890123456789012345678901234567890123456789012345678901234";
    assert_refused(plan, LH_ERR_MALFORMED, "general.architecture is not a name");
    plan.architecture = with_a_zero;
    assert_refused(plan, LH_ERR_MALFORMED, "general.architecture is missing or not a text");
    plan = sound;
    plan.width = 0;
    assert_refused(plan, LH_ERR_MALFORMED, "toy.embedding_length is 0");
    plan.width = (uint64_t)UINT32_MAX + 1;
    assert_refused(plan, LH_ERR_MALFORMED, "toy.embedding_length is 4294967296");
    plan.width = UINT32_MAX;
    lh_model_profile profile = profile_of(&plan);
    assert_int_equal(profile.width, UINT32_MAX);
    lh_model_profile_reset(&profile);
}

static void a_model_has_a_bound_of_layers(void **state) {
    (void)state;
    plan_of_file plan = sound;
    plan.layers = LH_MODEL_LAYERS_MAX;
    assert_refused(plan, LH_ERR_MALFORMED, "layer 2 has no tensors");
    plan.layers++;
    assert_refused(plan, LH_ERR_LIMIT, "1025 layers");
}

static void tensors_that_do_not_fit_are_named(void **state) {
    (void)state;
    plan_of_file plan = sound;
    plan.added = "blk.2.weight";
    assert_refused(plan, LH_ERR_MALFORMED, "blk.2.weight is of a layer");
    plan.added = "blk.99999999999999999999.weight";
    assert_refused(plan, LH_ERR_MALFORMED, "is of a layer");
    plan.added = "blk.18446744073709551616.weight"; /* 2^64 */
    assert_refused(plan, LH_ERR_MALFORMED, "is of a layer");
    plan.added = "strange";
    plan.type = 1234; /* of a later format */
    assert_refused(plan, LH_ERR_UNSUPPORTED, "strange has the type");
    plan = sound;
    plan.left_out = "blk.1.attn_q.weight";
    assert_refused(plan, LH_ERR_MALFORMED, "layer 1 has no tensors");
    plan.left_out = "token_embd.weight";
    assert_refused(plan, LH_ERR_MALFORMED, "token_embd.weight is missing");
    plan = sound;
    plan.embedding_dimensions = 1;
    assert_refused(plan, LH_ERR_MALFORMED, "token_embd.weight is missing or not a matrix");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_and_ends_hold_what_is_named_after_them),
        cmocka_unit_test(what_is_no_layers_belongs_to_the_head),
        cmocka_unit_test(a_key_that_is_missing_or_no_size_is_named),
        cmocka_unit_test(a_model_has_a_bound_of_layers),
        cmocka_unit_test(tensors_that_do_not_fit_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
