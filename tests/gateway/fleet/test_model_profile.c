/* What the planner learns of a model: bytes of layers and ends, of which a row meets some, and that
 * a file of which workers cannot compute a stage has no profile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/model_profile.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/tiny_llama.h"

#include <stdlib.h>
#include <string.h>

/* Of one file, whose bytes outlive it. */
static lh_status read_file(gguf_writer *writer, lh_model_profile *profile, lh_error *error) {
    size_t length;
    lh_gguf *gguf;
    uint8_t *bytes = gguf_writer_finish(writer, &length);
    gguf_writer_destroy(writer);
    assert_int_equal(lh_gguf_parse(bytes, length, length, &gguf, NULL), LH_OK);
    lh_status status = lh_model_profile_read(gguf, profile, error);
    lh_gguf_destroy(gguf);
    free(bytes);
    return status;
}

static lh_model_profile profile_of(const tiny_llama *model) {
    lh_model_profile profile;
    lh_error error;
    if (read_file(tiny_llama_writer(model), &profile, &error) != LH_OK)
        fail_msg("%s", error.message);
    return profile;
}

static void layers_and_ends_hold_what_a_stage_of_them_loads(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_default();
    model.type = model.embedding_type = LH_DTYPE_F32;
    lh_model_profile profile = profile_of(&model);
    assert_int_equal(profile.layers, 2);
    assert_int_equal(profile.context, 256);
    assert_int_equal(profile.width, 64);
    assert_int_equal(profile.vocabulary, 288);
    const uint64_t layer = 4 * (64 * 64 * 2 + 64 * 32 * 2 + 64 * 128 * 3 + 64 * 2),
                   embedding = 4 * 64 * 288;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(profile.layer_bytes[i], layer);
        assert_int_equal(profile.row_bytes[i], layer);
    }
    assert_int_equal(profile.embedding_bytes, embedding);
    assert_int_equal(profile.head_bytes, embedding + 4 * 64); /* the embedding is the head, too */
    /* what build/tests/member_times counts as posted, of all members together */
    assert_int_equal(profile.gather_row_bytes, (64 + 128) * 36 / 32 + 2 * 4 * 64);
    assert_int_equal(profile.layer_gathers, 4);
    model.head_tied = false;
    profile = profile_of(&model);
    assert_int_equal(profile.head_bytes, embedding + 4 * 64);
}

/* All experts are held; a row meets those that it goes through. */
static void a_row_meets_some_of_the_experts(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_of("qwen3moe");
    model.type = LH_DTYPE_F32;
    lh_model_profile profile = profile_of(&model);
    const uint64_t expert = 4 * 3 * 64 * 96;
    assert_int_equal(profile.layer_bytes[1] - profile.row_bytes[1], (7 - 3) * expert);
    assert_true(profile.row_bytes[1] > 3 * expert);
    assert_int_equal(profile.gather_row_bytes, (64 + 3 * 96) * 36 / 32 + 2 * 4 * 64);
}

/* OLMo 2's q and k come together before their norms, as floats: one more gather. */
static void norms_of_whole_rows_gather_more(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_of("olmo2");
    lh_model_profile profile = profile_of(&model);
    assert_int_equal(profile.gather_row_bytes, (64 + 128) * 36 / 32 + 2 * 4 * 64 + 4 * (64 + 32));
    assert_int_equal(profile.layer_gathers, 5);
}

static void it_says_what_stages_are_to_have_room_for(void **state) {
    (void)state;
    tiny_llama tiny = tiny_llama_default();
    lh_model_profile profile = profile_of(&tiny);
    assert_int_equal(profile.kv.position_bytes, 0);
    lh_model_profile_want_kv(&profile, "f32", 0, 3);
    assert_int_equal(profile.kv.position_bytes, 2 * 2 * 16 * 4);
    assert_int_equal(profile.kv.heads, 2);
    assert_int_equal(profile.kv.pages, 256 / 64 + 2); /* its context is less than usual */
    lh_model_profile_want_kv(&profile, "f16", 65, 1);
    assert_int_equal(profile.kv.position_bytes, 2 * 2 * 16 * 2);
    assert_int_equal(profile.kv.pages, 2);
    lh_model_profile_want_kv(&profile, "q8", 64, 0);
    assert_int_equal(profile.kv.position_bytes, 2 * 2 * (16 + 4));
    assert_int_equal(profile.kv.pages, 1);
    profile.context = 131072;
    lh_model_profile_want_kv(&profile, "f32", 0, 1);
    assert_int_equal(profile.kv.pages, LH_KV_USUAL_POSITIONS / 64);
}

static void assert_refused(gguf_writer *writer, const char *named) {
    lh_model_profile profile;
    lh_error error = {0};
    assert_int_equal(read_file(writer, &profile, &error), LH_ERR_UNSUPPORTED);
    if (!strstr(error.message, named))
        fail_msg("\"%s\" is not named: %s", named, error.message);
}

/* By the description that workers compute by, so that nobody plans what none of them loads. */
static void what_workers_cannot_compute_is_refused_by_name(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_of("mamba");
    assert_refused(tiny_llama_writer(&model), "\"mamba\" is not supported (docs/");
    model = tiny_llama_default();
    gguf_writer *writer = tiny_llama_writer(&model);
    gguf_writer_tensor_bytes(writer, "strange", 1234, 2, (const uint64_t[]){8, 1},
                             (const float[8]){0}, 32);
    assert_refused(writer, "strange is not known");
    writer = tiny_llama_writer(&model);
    gguf_writer_f32(writer, "llama.attn_logit_softcapping", 50);
    assert_refused(writer, "llama.attn_logit_softcapping = 50");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_and_ends_hold_what_a_stage_of_them_loads),
        cmocka_unit_test(a_row_meets_some_of_the_experts),
        cmocka_unit_test(norms_of_whole_rows_gather_more),
        cmocka_unit_test(it_says_what_stages_are_to_have_room_for),
        cmocka_unit_test(what_workers_cannot_compute_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
