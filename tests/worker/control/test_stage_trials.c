/* Trials on the stages of a tiny model: times come of them, and nothing is left behind. */
#include "common/base/clock.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/tiny_llama.h"
#include "tests/worker/support/stage_chain.h"
#include "worker/control/stage_trials.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define STAGES 3u
#define ROWS   48u
/* More than any machine takes. */
#define BUDGET_US 1e9

static _Atomic bool not_cancelled = false, is_cancelled = true;

typedef struct bench {
    uint8_t *file;
    stage_chain *chain;
} bench;

static bench open_bench(size_t kv_bytes, uint32_t context) {
    tiny_llama model = tiny_llama_default();
    model.layers = STAGES;
    model.width = 160; /* five blocks: the result has shards */
    size_t length;
    bench b = {.file = tiny_llama_bytes(&model, &length)};
    const stage_chain_options options = {
        .stages = STAGES, .threads = 2, .rows_max = ROWS, .context = context, .kv_bytes = kv_bytes};
    assert_int_equal(stage_chain_create(b.file, length, &options, &b.chain, NULL), LH_OK);
    return b;
}

static void close_bench(bench *b) {
    stage_chain_destroy(b->chain);
    free(b->file);
}

static lh_status run_trials(const bench *b, uint32_t stage, const _Atomic bool *cancelled,
                            lh_compute_profile *profile) {
    lh_error error = {.status = LH_OK};
    lh_status status = lh_stage_trials_run(stage_chain_stage(b->chain, stage), LH_WIRE_F16,
                                           BUDGET_US, cancelled, profile, &error);
    assert_int_equal(error.status, status);
    return status;
}

static void keep_digest(void *context, uint64_t sequence, const lh_row_answer *result) {
    (void)sequence;
    *(uint64_t *)context = result->digest;
}

/* Of the logits after a prompt. */
static uint64_t digest_of(bench *b, uint64_t sequence) {
    static const uint32_t tokens[] = {3, 1, 4, 1, 5, 9, 2, 6};
    uint64_t digest = 0;
    const lh_step_segment segment = {
        .sequence = sequence,
        .rows = 8,
        .ask.draws = true,
        .ask.sampling = {.top_p = 1, .repetition_penalty = 1, .want_digest = true}};
    const lh_batch batch = {.rows = 8, .tokens = tokens, .segment_count = 1, .segments = &segment};
    const stage_chain_events events = {.context = &digest, .on_sample = keep_digest};
    assert_int_equal(stage_chain_run(b->chain, &batch, &events, NULL), LH_OK);
    stage_chain_free(b->chain, sequence);
    return digest;
}

static void assert_untouched(const bench *b, uint32_t stage) {
    const lh_kv_cache *kv = lh_stage_kv(stage_chain_stage(b->chain, stage));
    assert_int_equal(lh_kv_cache_pages_free(kv), lh_kv_cache_pages_total(kv));
    assert_int_equal(lh_kv_cache_sequences(kv), 0);
}

static void test_every_stage_is_timed_and_left_as_it_was(void **state) {
    (void)state;
    bench b = open_bench(4u << 20, 0);
    uint64_t digest = digest_of(&b, 1);
    for (uint32_t stage = 0; stage < STAGES; stage++) {
        lh_compute_profile profile;
        int64_t begin_us = lh_clock_us();
        double all_us = 0;
        assert_int_equal(run_trials(&b, stage, &not_cancelled, &profile), LH_OK);
        double passed_us = (double)(lh_clock_us() - begin_us);
        assert_int_equal(profile.point_count, 6); /* 1, 2 ... 32 rows */
        for (uint32_t i = 0; i < profile.point_count; i++) {
            assert_int_equal(profile.points[i].rows, 1u << i);
            assert_true(profile.points[i].us > 0);
            all_us += profile.points[i].us;
        }
        assert_true(all_us <= passed_us); /* each was tried once at least */
        /* A step of this model takes microseconds, so of its parts only the kind is certain;
         * test_calibration has the arithmetic. */
        assert_true(profile.take_share >= 0 && profile.take_share <= (stage > 0 ? 0.5 : 0));
        assert_true(profile.give_share >= 0 && profile.give_share <= 0.5);
        assert_true(stage + 1 < STAGES ? profile.shard_us > 0 : profile.shard_us == 0);
        assert_true(stage + 1 == STAGES ? profile.draw_us >= profile.draw_more_us
                                        : profile.draw_us == 0);
        assert_untouched(&b, stage);
    }
    assert_true(digest_of(&b, UINT64_MAX) == digest);
    close_bench(&b);
}

static void test_a_small_cache_is_enough(void **state) {
    (void)state;
    bench b = open_bench(1u << 20, 1);
    lh_compute_profile profile;
    assert_int_equal(run_trials(&b, 1, &not_cancelled, &profile), LH_OK);
    assert_int_equal(profile.point_count, 1);
    assert_untouched(&b, 1);
    close_bench(&b);
}

static void test_it_can_be_cancelled(void **state) {
    (void)state;
    bench b = open_bench(4u << 20, 0);
    lh_compute_profile profile;
    assert_int_equal(run_trials(&b, 1, &is_cancelled, &profile), LH_ERR_CANCELLED);
    assert_int_equal(profile.point_count, 0);
    assert_untouched(&b, 1);
    close_bench(&b);
}

/* Neither of its own nor of a shard: what the stage held before is all that is left. */
static void test_without_memory_it_ends(void **state) {
    (void)state;
    bench b = open_bench(1u << 20, 1);
    lh_status status = LH_ERR_NO_MEMORY;
    size_t n = 0;
    while (status != LH_OK) {
        lh_compute_profile profile;
        failing_malloc_arm(++n);
        status = run_trials(&b, 1, &not_cancelled, &profile);
        bool has_failed = failing_malloc_disarm();
        assert_int_equal(status, has_failed ? LH_ERR_NO_MEMORY : LH_OK);
        assert_untouched(&b, 1);
    }
    assert_in_range(n, 4, 1000);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_stage_is_timed_and_left_as_it_was),
        cmocka_unit_test(test_a_small_cache_is_enough),
        cmocka_unit_test(test_it_can_be_cancelled),
        cmocka_unit_test(test_without_memory_it_ends),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
