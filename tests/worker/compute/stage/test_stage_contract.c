/* What lh_stage promises about the life of steps: refusals change nothing, failed steps take their
 * positions back, freed sequences do not hurt the others. One stage in the middle of a model,
 * fed by hand. */
#include "tests/support/failing_malloc.h"
#include "tests/support/tiny_llama.h"
#include "worker/compute/stage/head.h"
#include "worker/compute/stage/stage_memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 64, ROWS_MAX = 8, STEPS_MAX = 3 };

static uint8_t *file;
static lh_gguf *gguf;
static lh_model_config config;
static lh_thread_pool *pool;
static lh_stage *stage;
static lh_error error;

static lh_status acquire(void *context, const lh_gguf_tensor *tensor, lh_error *e) {
    (void)context;
    (void)tensor;
    (void)e;
    return LH_OK;
}

static lh_status read_tensor(void *context, const lh_gguf_tensor *tensor, uint64_t offset,
                             void *bytes, size_t length, lh_error *e) {
    (void)context;
    (void)e;
    memcpy(bytes, file + tensor->offset + offset, length);
    return LH_OK;
}

static void release(void *context, const lh_gguf_tensor *tensor) {
    (void)context;
    (void)tensor;
}

static const lh_weight_source source = {NULL, acquire, read_tensor, release};

static lh_stage_options options_for(uint32_t first, uint32_t last) {
    return (lh_stage_options){.range = {first, last},
                              .kv_bytes = 4 * 16384, /* four pages of one layer */
                              .rows_max = ROWS_MAX,
                              .steps_max = STEPS_MAX,
                              .kernels = lh_kernels_at(0),
                              .pool = pool};
}

static void open_stage(uint32_t first, uint32_t last) {
    const lh_stage_options options = options_for(first, last);
    lh_stage_destroy(stage);
    stage = NULL;
    if (lh_stage_create(gguf, &config, &source, &options, NULL, NULL, &stage, &error) != LH_OK)
        fail_msg("%s", error.message);
}

static int set_up(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_default();
    model.layers = 3;
    size_t length;
    file = tiny_llama_bytes(&model, &length);
    assert_int_equal(lh_gguf_parse(file, length, length, &gguf, NULL), LH_OK);
    assert_int_equal(lh_model_config_read(gguf, &config, NULL), LH_OK);
    assert_int_equal(lh_thread_pool_create(1, &pool, NULL), LH_OK);
    open_stage(1, 2);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    lh_stage_destroy(stage);
    stage = NULL;
    lh_thread_pool_destroy(pool);
    lh_gguf_destroy(gguf);
    free(file);
    return 0;
}

/* ---- Steps by hand ---- */

static const uint32_t tokens[ROWS_MAX] = {1, 2, 3, 4, 5, 6, 7, 8};

static lh_status begin(const lh_step_segment *segments, uint32_t count, lh_stage_step **step) {
    lh_batch batch = {0, tokens, count, segments, {2, {32, WIDTH}}, false};
    for (uint32_t i = 0; i < count; i++)
        batch.rows += segments[i].rows;
    return lh_stage_begin(stage, &batch, step, &error);
}

static lh_step_segment segment(uint64_t sequence, uint32_t first_position, uint32_t rows) {
    return (lh_step_segment){.sequence = sequence, .first_position = first_position, .rows = rows};
}

static lh_stage_step *begun(uint64_t sequence, uint32_t first_position, uint32_t rows) {
    lh_stage_step *step;
    const lh_step_segment one = segment(sequence, first_position, rows);
    if (begin(&one, 1, &step) != LH_OK)
        fail_msg("%s", error.message);
    return step;
}

static lh_status accept(lh_stage_step *step, uint32_t first_row, uint32_t rows,
                        uint32_t first_column, uint32_t columns, float value) {
    float values[ROWS_MAX * WIDTH];
    for (size_t i = 0; i < ROWS_MAX * WIDTH; i++)
        values[i] = value + (float)(i % 7);
    const lh_stage_shard shard = {first_row, rows, first_column, columns, values, NULL};
    return lh_stage_accept(step, &shard, &error);
}

static void feed(lh_stage_step *step, uint32_t rows) {
    assert_int_equal(accept(step, 0, rows, 0, WIDTH, 1), LH_OK);
    assert_true(lh_stage_is_ready(step));
}

typedef struct outcome {
    uint32_t shards, columns, samples, token, polls, cancel_at;
} outcome;

static void on_shard(void *context, const lh_stage_shard *shard) {
    outcome *o = context;
    assert_int_equal(shard->first_column, o->columns);
    o->columns += shard->columns;
    o->shards++;
}

static void on_answer(void *context, uint32_t segment, const lh_row_answer *result) {
    outcome *o = context;
    (void)segment;
    o->token = result->token;
    o->samples++;
}

static bool is_cancelled(void *context) {
    outcome *o = context;
    return ++o->polls == o->cancel_at;
}

static lh_status finish(lh_stage_step *step, outcome *o) {
    const lh_stage_output output = {
        .context = o, .on_shard = on_shard, .on_answer = on_answer, .is_cancelled = is_cancelled};
    return lh_stage_finish(step, &output, &error);
}

static void finish_and_end(lh_stage_step *step, lh_status expected) {
    outcome o = {0};
    lh_status status = finish(step, &o);
    if (status != expected)
        fail_msg("%s: %s", lh_status_name(status), status == LH_OK ? "" : error.message);
    lh_stage_end(step);
}

/* A whole step. */
static void advance(uint64_t sequence, uint32_t first_position, uint32_t rows) {
    lh_stage_step *step = begun(sequence, first_position, rows);
    feed(step, rows);
    finish_and_end(step, LH_OK);
}

static size_t pages_used(void) {
    return lh_kv_cache_pages_total(lh_stage_kv(stage)) - lh_kv_cache_pages_free(lh_stage_kv(stage));
}

/* ---- Create ---- */

static void check_not_created(lh_stage_options options, const char *words) {
    lh_stage *none;
    assert_int_equal(lh_stage_create(gguf, &config, &source, &options, NULL, NULL, &none, &error),
                     LH_ERR_INVALID);
    assert_non_null(strstr(error.message, words));
}

static void test_options_are_checked(void **state) {
    (void)state;
    check_not_created(options_for(1, 1), "from layer 1 on, before layer 1,");
    check_not_created(options_for(3, 3), "from layer 3 on, before layer 3,");
    check_not_created(options_for(2, 4), "from layer 2 on, before layer 4,");
    lh_stage_options options = options_for(0, 1);
    options.rows_max = 0;
    check_not_created(options, "at least 1");
    options = options_for(0, 1);
    options.kv_bytes = 100;
    check_not_created(options, "--kv-bytes");
    options = options_for(0, 1);
    options.context = config.context + 1;
    check_not_created(options, "context");
}

static lh_status refuse_third(void *context, const lh_gguf_tensor *tensor, lh_error *e) {
    int *calls = context;
    return ++*calls == 3 ? lh_fail(e, LH_ERR_CORRUPT, "digest differs") : acquire(NULL, tensor, e);
}

/* As a file does that has been cut. */
static lh_status read_front(void *context, const lh_gguf_tensor *tensor, uint64_t offset,
                            void *bytes, size_t length, lh_error *e) {
    const uint64_t *end = context;
    return tensor->offset + offset + length > *end
               ? lh_fail(e, LH_ERR_IO, "it ends at offset %u", (unsigned)*end)
               : read_tensor(NULL, tensor, offset, bytes, length, e);
}

static void test_source_error_comes_through(void **state) {
    (void)state;
    int calls = 0;
    lh_stage *none;
    const lh_weight_source bad = {&calls, refuse_third, read_tensor, release};
    const lh_stage_options options = options_for(0, 3);
    assert_int_equal(lh_stage_create(gguf, &config, &bad, &options, NULL, NULL, &none, &error),
                     LH_ERR_CORRUPT);
    assert_string_equal(error.message, "digest differs");
}

static void test_a_tensor_that_cannot_be_read_fails_the_stage(void **state) {
    (void)state;
    lh_stage *none;
    for (size_t i = 0; i < lh_gguf_tensor_count(gguf); i++) {
        uint64_t end = lh_gguf_tensor_at(gguf, i)->offset + 1;
        const lh_weight_source cut = {&end, acquire, read_front, release};
        const lh_stage_options options = options_for(0, 3);
        assert_int_equal(lh_stage_create(gguf, &config, &cut, &options, NULL, NULL, &none, &error),
                         LH_ERR_IO);
        assert_non_null(strstr(error.message, "it ends at offset"));
    }
}

static void test_create_without_memory(void **state) {
    (void)state;
    const lh_stage_options options = options_for(0, 3);
    for (size_t n = 1;; n++) {
        lh_stage *made = NULL;
        failing_malloc_arm(n);
        lh_status status =
            lh_stage_create(gguf, &config, &source, &options, NULL, NULL, &made, &error);
        bool failed = failing_malloc_disarm();
        if (status == LH_OK)
            lh_stage_destroy(made);
        if (!failed) {
            assert_true(n > 20);
            break;
        }
        assert_int_equal(status, LH_ERR_NO_MEMORY);
    }
}

static void count_progress(void *context, uint64_t done, uint64_t total) {
    uint64_t *last = context;
    assert_true(done > *last && done <= total);
    *last = done;
}

static void test_progress_and_bytes(void **state) {
    (void)state;
    uint64_t last = 0;
    lh_stage *whole;
    const lh_stage_options options = options_for(0, 3);
    assert_int_equal(
        lh_stage_create(gguf, &config, &source, &options, count_progress, &last, &whole, NULL),
        LH_OK);
    assert_true(last > 0);
    assert_true(lh_stage_weight_bytes(whole) < last + last / 4);
    assert_true(lh_stage_weight_bytes(stage) < lh_stage_weight_bytes(whole));
    lh_stage_destroy(whole);
}

/* ---- Begin ---- */

static void check_not_begun(lh_step_segment one, lh_status status, const char *words) {
    lh_stage_step *step;
    size_t used = pages_used();
    assert_int_equal(begin(&one, 1, &step), status);
    assert_non_null(strstr(error.message, words));
    assert_int_equal(pages_used(), used);
}

static void test_begin_is_checked(void **state) {
    (void)state;
    advance(1, 0, 4);
    check_not_begun(segment(1, 5, 1), LH_ERR_INVALID, "has 4 positions");
    check_not_begun(segment(1, 3, 1), LH_ERR_INVALID, "has 4 positions");
    check_not_begun(segment(2, 1, 1), LH_ERR_INVALID, "has 0 positions");
    check_not_begun(segment(2, 0, ROWS_MAX + 1), LH_ERR_LIMIT, "rows");
    check_not_begun(segment(2, 0, 0), LH_ERR_LIMIT, "rows");
    check_not_begun(segment(2, config.context - 1, 2), LH_ERR_LIMIT, "context");
    check_not_begun(segment(2, UINT32_MAX, 2), LH_ERR_LIMIT, "context");
    lh_stage_step *step;
    const lh_step_segment one = segment(2, 0, 1);
    const uint32_t bad_token = config.vocabulary;
    assert_int_equal(
        lh_stage_begin(stage, &(lh_batch){1, &bad_token, 1, &one, {0}, false}, &step, &error),
        LH_ERR_LIMIT);
    assert_int_equal(
        lh_stage_begin(stage, &(lh_batch){2, tokens, 1, &one, {0}, false}, &step, &error),
        LH_ERR_LIMIT);
    assert_int_equal(lh_kv_cache_sequences(lh_stage_kv(stage)), 1);
    advance(1, 4, 1);
}

static void test_begin_takes_all_or_nothing(void **state) {
    (void)state;
    lh_stage_step *step;
    advance(1, 0, 2);
    const lh_step_segment good_then_bad[] = {segment(1, 2, 1), segment(5, 0, 1), segment(1, 3, 1),
                                             segment(6, 9, 1)};
    assert_int_equal(begin(good_then_bad, 4, &step), LH_ERR_INVALID);
    assert_int_equal(lh_kv_cache_sequences(lh_stage_kv(stage)), 1);
    advance(1, 2, 1);
    const lh_step_segment too_many[] = {segment(1, 3, 1), segment(2, 0, 1), segment(3, 0, 1),
                                        segment(4, 0, 1), segment(5, 0, 1)};
    assert_int_equal(begin(too_many, 5, &step), LH_ERR_BUSY);
    assert_int_equal(pages_used(), 1);
    advance(1, 3, 1);
}

static void test_activation_buffers_run_out(void **state) {
    (void)state;
    lh_stage_step *steps[STEPS_MAX], *none;
    for (uint32_t i = 0; i < STEPS_MAX; i++)
        steps[i] = begun(1, i, 1);
    const lh_step_segment one = segment(1, STEPS_MAX, 1);
    assert_int_equal(begin(&one, 1, &none), LH_ERR_BUSY);
    for (uint32_t i = 0; i < STEPS_MAX; i++) {
        feed(steps[i], 1);
        finish_and_end(steps[i], LH_OK);
    }
    advance(1, STEPS_MAX, 1);
}

static void test_sampling_is_checked_on_the_last_stage(void **state) {
    (void)state;
    lh_stage_step *step;
    lh_step_segment one = segment(1, 0, 1);
    one.ask.draws = true; /* temperature 0, but a repetition penalty of 0 */
    assert_int_equal(begin(&one, 1, &step), LH_OK);
    lh_stage_end(step);
    open_stage(2, 3);
    assert_int_equal(begin(&one, 1, &step), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "repetition_penalty"));
}

/* ---- Accept ---- */

static void test_shards_are_checked(void **state) {
    (void)state;
    lh_stage_step *step = begun(1, 0, 4);
    assert_int_equal(accept(step, 0, 5, 0, WIDTH, 1), LH_ERR_INVALID);
    assert_int_equal(accept(step, 1, 4, 0, WIDTH, 1), LH_ERR_INVALID);
    assert_int_equal(accept(step, UINT32_MAX, 2, 0, 32, 1), LH_ERR_INVALID);
    assert_int_equal(accept(step, 0, 4, 32, 64, 1), LH_ERR_INVALID);
    assert_int_equal(accept(step, 0, 4, 32, UINT32_MAX, 1), LH_ERR_INVALID);
    assert_int_equal(accept(step, 0, 4, 16, 32, 1), LH_ERR_INVALID);
    assert_int_equal(accept(step, 0, 4, 0, 16, 1), LH_ERR_INVALID);
    assert_int_equal(accept(step, 0, 0, 0, 32, 1), LH_ERR_INVALID);
    assert_int_equal(accept(step, 0, 4, 0, 0, 1), LH_ERR_INVALID);
    assert_int_equal(accept(step, 0, 4, 0, 32, NAN), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "not finite"));
    assert_int_equal(accept(step, 0, 4, 0, 32, INFINITY), LH_ERR_INVALID);
    assert_int_equal(accept(step, 1, 2, 32, 32, 1), LH_OK);
    assert_int_equal(accept(step, 0, 4, 32, 32, 1), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "already"));
    assert_int_equal(accept(step, 0, 1, 32, 32, 1), LH_OK);
    assert_int_equal(accept(step, 3, 1, 32, 32, 1), LH_OK);
    assert_false(lh_stage_is_ready(step));
    assert_int_equal(accept(step, 0, 4, 0, 32, 1), LH_OK);
    assert_true(lh_stage_is_ready(step));
    outcome o = {0};
    assert_int_equal(finish(step, &o), LH_OK);
    assert_int_equal(o.shards, 2);
    assert_int_equal(o.columns, WIDTH);
    lh_stage_end(step);
}

static void test_first_stage_takes_no_shards(void **state) {
    (void)state;
    open_stage(0, 1);
    lh_stage_step *step = begun(1, 0, 1);
    assert_true(lh_stage_is_ready(step));
    assert_int_equal(accept(step, 0, 1, 0, WIDTH, 1), LH_ERR_INVALID);
    finish_and_end(step, LH_OK);
}

static lh_status begin_with_cut(uint32_t sequence, const lh_step_cut *cut, lh_stage_step **step) {
    const uint32_t token = 1;
    const lh_step_segment segment = {.sequence = sequence, .rows = 1};
    const lh_batch batch = {
        .rows = 1, .tokens = &token, .segment_count = 1, .segments = &segment, .cut = *cut};
    return lh_stage_begin(stage, &batch, step, &error);
}

static void test_each_step_has_its_cut(void **state) {
    (void)state;
    const lh_step_cut cuts[] = {{0}, {1, {WIDTH}}, {2, {32, WIDTH}}};
    const uint32_t given[] = {1, 1, 2};
    for (uint32_t i = 0; i < 3; i++) {
        lh_stage_step *step;
        outcome o = {0};
        assert_int_equal(begin_with_cut(i + 1, &cuts[i], &step), LH_OK);
        feed(step, 1);
        assert_int_equal(finish(step, &o), LH_OK);
        assert_int_equal(o.shards, given[i]);
        assert_int_equal(o.columns, WIDTH);
        lh_stage_end(step);
        lh_stage_truncate(stage, i + 1, 0);
    }
}

static void test_a_cut_that_does_not_fit_is_refused(void **state) {
    (void)state;
    const lh_step_cut cuts[] = {{1, {32}},        {2, {32, 32}},          {2, {64, 32}},
                                {2, {31, WIDTH}}, {2, {0, WIDTH}},        {1, {WIDTH + 32}},
                                {17, {32}},       {3, {32, WIDTH, WIDTH}}};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        lh_stage_step *step;
        assert_int_equal(begin_with_cut(1, &cuts[i], &step), LH_ERR_INVALID);
    }
}

/* ---- Failing and freeing ---- */

static void test_end_without_finish_takes_back(void **state) {
    (void)state;
    advance(1, 0, 3);
    lh_stage_end(begun(1, 3, 2));
    advance(1, 3, 1);
    lh_stage_end(begun(2, 0, 2)); /* a new sequence leaves nothing */
    assert_int_equal(lh_kv_cache_sequences(lh_stage_kv(stage)), 1);
    assert_int_equal(pages_used(), 1);
}

static void test_cancel_takes_back(void **state) {
    (void)state;
    open_stage(1, 3);
    advance(1, 0, 1);
    lh_stage_step *step = begun(1, 1, 1);
    feed(step, 1);
    outcome o = {.cancel_at = 2};
    assert_int_equal(finish(step, &o), LH_ERR_CANCELLED);
    assert_int_equal(o.shards, 0);
    lh_stage_end(step);
    advance(1, 1, 1);
}

static void test_later_steps_are_stale(void **state) {
    (void)state;
    advance(1, 0, 1);
    lh_stage_step *failing = begun(1, 1, 1);
    const lh_step_segment two[] = {segment(1, 2, 1), segment(2, 0, 1)};
    lh_stage_step *later;
    assert_int_equal(begin(two, 2, &later), LH_OK);
    lh_stage_end(failing);
    lh_stage_step *again = begun(1, 1, 1); /* goes on where the failed step began */
    feed(again, 1);
    feed(later, 2);
    finish_and_end(later, LH_ERR_CANCELLED);
    finish_and_end(again, LH_OK);
    advance(1, 2, 1);
    assert_null(lh_kv_cache_find((lh_kv_cache *)(uintptr_t)lh_stage_kv(stage), 2));
}

static void test_earlier_steps_survive_later_ones(void **state) {
    (void)state;
    lh_stage_step *first = begun(1, 0, 1), *second = begun(1, 1, 1), *third = begun(1, 2, 1);
    lh_stage_end(third);
    lh_stage_end(second);
    feed(first, 1);
    finish_and_end(first, LH_OK);
    advance(1, 1, 1);
}

static void test_steps_finish_in_order(void **state) {
    (void)state;
    lh_stage_step *first = begun(1, 0, 1), *second = begun(1, 1, 1);
    feed(first, 1);
    feed(second, 1);
    finish_and_end(second, LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "in order"));
    finish_and_end(first, LH_OK);
    advance(1, 1, 1);
}

static void test_free_while_a_step_runs(void **state) {
    (void)state;
    lh_stage_step *alone = begun(1, 0, 1), *shared;
    const lh_step_segment two[] = {segment(2, 0, 1), segment(3, 0, 1)};
    assert_int_equal(begin(two, 2, &shared), LH_OK);
    lh_stage_truncate(stage, 1, 0);
    lh_stage_truncate(stage, 2, 0);
    lh_stage_truncate(stage, 99, 0);
    assert_int_equal(pages_used(), 3);
    feed(alone, 1);
    finish_and_end(alone, LH_ERR_CANCELLED);
    assert_int_equal(pages_used(), 2);
    feed(shared, 2);
    finish_and_end(shared, LH_OK); /* for the sequence that is left */
    assert_int_equal(pages_used(), 1);
    advance(3, 1, 1);
    advance(2, 0, 1); /* the number begins anew */
}

static void fill_page(uint64_t sequence) {
    for (uint32_t first = 0; first < LH_KV_PAGE_POSITIONS; first += ROWS_MAX)
        advance(sequence, first, ROWS_MAX);
}

static lh_step_segment fork_of(uint64_t sequence, uint64_t source_sequence) {
    lh_step_segment one = segment(sequence, LH_KV_PAGE_POSITIONS, 1);
    one.forks = true;
    one.source = source_sequence;
    return one;
}

/* A step that forks and fails, at any point, leaves no sequence and no page behind. */
static void test_a_failed_fork_is_taken_back(void **state) {
    (void)state;
    fill_page(1);
    lh_stage_step *step, *later;
    const lh_step_segment good = fork_of(2, 1);
    const lh_step_segment bad[][2] = {{fork_of(2, 1), fork_of(3, 9)},
                                      {fork_of(2, 1), fork_of(2, 1)},
                                      {fork_of(2, 1), segment(3, 5, 1)}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(begin(bad[i], 2, &step), LH_ERR_INVALID);
        assert_int_equal(pages_used(), 1);
        assert_int_equal(lh_kv_cache_sequences(lh_stage_kv(stage)), 1);
    }
    assert_int_equal(begin(&good, 1, &step), LH_OK);
    later = begun(2, LH_KV_PAGE_POSITIONS + 1, 1);
    assert_int_equal(pages_used(), 2);
    lh_stage_end(step);
    feed(later, 1);
    finish_and_end(later, LH_ERR_CANCELLED);
    assert_int_equal(pages_used(), 1);
    assert_int_equal(lh_kv_cache_sequences(lh_stage_kv(stage)), 1);
    assert_int_equal(begin(&good, 1, &step), LH_OK);
    feed(step, 1);
    finish_and_end(step, LH_OK);
    lh_stage_truncate(stage, 1, 0);
    assert_int_equal(pages_used(), 2);
    lh_stage_truncate(stage, 2, 0);
    assert_int_equal(pages_used(), 0);
}

static void test_reset(void **state) {
    (void)state;
    advance(1, 0, 1);
    advance(2, 0, 1);
    lh_stage_reset(stage);
    assert_int_equal(pages_used(), 0);
    advance(1, 0, 1);
}

/* Read where they are when the step finishes. */
static void test_sampling_lists_of_a_step_are_honoured(void **state) {
    (void)state;
    open_stage(2, 3);
    lh_token_bias *biases = calloc(50, sizeof *biases);
    lh_step_segment one = segment(1, 0, 1);
    lh_stage_step *step;
    assert_non_null(biases);
    for (uint32_t i = 0; i < 50; i++)
        biases[i] = (lh_token_bias){i, i == 42 ? 1e5f : 1};
    one.ask.draws = true;
    one.ask.sampling =
        (lh_sampling){.top_p = 1, .repetition_penalty = 1, .biases = biases, .bias_count = 50};
    assert_int_equal(begin(&one, 1, &step), LH_OK);
    outcome o = {0};
    feed(step, 1);
    assert_int_equal(finish(step, &o), LH_OK);
    assert_int_equal(o.samples, 1);
    assert_int_equal(o.token, 42);
    lh_stage_end(step);
    free(biases);
}

/* A KV resync that asks for more than is here leaves nothing behind that somebody could
 * build upon. */
static void test_a_kv_resync(void **state) {
    (void)state;
    advance(1, 0, 3);
    advance(2, 0, 2);
    const lh_step_truncation good[] = {{1, 2}}, bad[] = {{1, 2}, {2, 1}};
    assert_int_equal(lh_stage_resync_kv(stage, good, 1, NULL), LH_OK);
    assert_int_equal(pages_used(), 1);
    advance(1, 2, 1);
    assert_int_equal(lh_stage_resync_kv(stage, bad, 2, NULL), LH_ERR_INVALID);
    assert_int_equal(pages_used(), 0);
    advance(1, 0, 1);
    assert_int_equal(lh_stage_resync_kv(stage, NULL, 0, NULL), LH_OK);
    assert_int_equal(pages_used(), 0);
}

/* ---- Memory ---- */

static void test_it_takes_what_was_counted(void **state) {
    (void)state;
    for (lh_kv_type type = LH_KV_F32; type <= LH_KV_Q8; type++) {
        lh_stage_options options = options_for(0, 3);
        lh_stage_memory memory;
        options.kv_type = type;
        options.kv_bytes = 1000000;
        assert_int_equal(lh_stage_memory_count(gguf, &config, &options, 1, &memory, &error), LH_OK);
        lh_stage_destroy(stage);
        stage = NULL;
        assert_int_equal(
            lh_stage_create(gguf, &config, &source, &options, NULL, NULL, &stage, &error), LH_OK);
        const lh_kv_cache *kv = lh_stage_kv(stage);
        assert_int_equal(memory.weights_bytes, lh_stage_weight_bytes(stage));
        assert_int_equal(memory.kv_bytes, lh_kv_cache_pages_total(kv) * lh_kv_cache_page_bytes(kv));
        assert_true(memory.steps_bytes > 0);
    }
}

static lh_stage_memory memory_of_member(uint32_t members, uint32_t number) {
    lh_stage_options options = options_for(1, 3);
    lh_stage_memory memory;
    options.kv_bytes = 1000000;
    options.membership = (lh_membership){.members = members, .number = number, .weights = {3, 2}};
    assert_int_equal(lh_stage_memory_count(gguf, &config, &options, 1, &memory, &error), LH_OK);
    lh_stage_destroy(stage);
    stage = NULL;
    assert_int_equal(lh_stage_create(gguf, &config, &source, &options, NULL, NULL, &stage, &error),
                     LH_OK);
    const lh_kv_cache *kv = lh_stage_kv(stage);
    assert_int_equal(memory.weights_bytes, lh_stage_weight_bytes(stage));
    assert_int_equal(memory.kv_bytes, lh_kv_cache_pages_total(kv) * lh_kv_cache_page_bytes(kv));
    return memory;
}

/* Every matrix is with one of them, the head too, which is tied to an embedding that is elsewhere;
 * norms are with both. */
static void test_members_share_the_weights(void **state) {
    (void)state;
    const lh_stage_memory whole = memory_of_member(0, 0), first = memory_of_member(2, 0),
                          second = memory_of_member(2, 1);
    const uint64_t norms = (2 * 2 + 1) * WIDTH * sizeof(float);
    assert_int_equal(first.weights_bytes + second.weights_bytes, whole.weights_bytes + norms);
    assert_true(first.weights_bytes > second.weights_bytes);
    assert_true(first.steps_bytes < whole.steps_bytes);
}

static void test_a_device_takes_no_part(void **state) {
    (void)state;
    const lh_device device = {.name = "test"};
    lh_stage_options options = options_for(0, 3);
    lh_stage *none;
    options.device = &device;
    options.membership.members = 2;
    assert_int_equal(lh_stage_create(gguf, &config, &source, &options, NULL, NULL, &none, &error),
                     LH_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "test computes no stage of several members"));
}

/* A stage of the whole model, or of what comes before its last layer. */
static void check_steps(const tiny_llama *model, bool is_last) {
    lh_gguf *own;
    lh_model_config shape;
    lh_stage_memory memory;
    uint8_t *saved = file;
    size_t length;
    file = tiny_llama_bytes(model, &length);
    assert_int_equal(lh_gguf_parse(file, length, length, &own, NULL), LH_OK);
    assert_int_equal(lh_model_config_read(own, &shape, NULL), LH_OK);
    lh_stage_options options = options_for(0, is_last ? shape.layers : shape.layers - 1);
    options.kv_bytes = 4 << 20;
    options.rows_max = 256;
    assert_int_equal(lh_stage_memory_count(own, &shape, &options, 1, &memory, &error), LH_OK);
    lh_stage_destroy(stage);
    stage = NULL;
    long long before = failing_malloc_bytes();
    assert_int_equal(lh_stage_create(own, &shape, &source, &options, NULL, NULL, &stage, &error),
                     LH_OK);
    double taken = (double)(failing_malloc_bytes() - before), counted = (double)memory.steps_bytes;
    if (counted < 0.8 * taken || counted > 1.2 * taken)
        fail_msg("%s: %.0f bytes counted, %.0f taken", model->architecture, counted, taken);
    lh_stage_destroy(stage);
    stage = NULL;
    lh_gguf_destroy(own);
    free(file);
    file = saved;
}

static void test_steps_take_about_what_was_counted(void **state) {
    (void)state;
    static const char *const architectures[] = {"qwen2", "qwen3moe", "gemma3", "gpt-oss", "olmo2"};
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++) {
        const tiny_llama model = tiny_llama_of(architectures[i]);
        check_steps(&model, true);
        check_steps(&model, false);
    }
    tiny_llama latent = tiny_llama_of("deepseek2");
    latent.layers = 3;
    check_steps(&latent, true);
    latent.context = 1 << 16; /* the scratch of threads is the most */
    check_steps(&latent, false);
    latent.latent_rank = 512; /* what is kept is the most */
    latent.query_rank = 256;
    check_steps(&latent, false);
}

static uint64_t thousand_a_row(const lh_device *device, const lh_device_work *work) {
    (void)device;
    assert_int_equal(work->context, config.context);
    assert_int_equal(work->drawn_rows, lh_min_u32(work->rows, LH_HEAD_ROWS));
    return 1000ull * work->rows;
}

static void test_a_device_has_no_threads_but_tells_what_it_takes(void **state) {
    (void)state;
    const lh_device device = {.name = "test", .work_bytes = thousand_a_row};
    lh_stage_options options = options_for(0, 3);
    lh_stage_memory host, none, one, many;
    assert_int_equal(lh_stage_memory_count(gguf, &config, &options, 0, &none, &error), LH_OK);
    assert_int_equal(lh_stage_memory_count(gguf, &config, &options, 1, &host, &error), LH_OK);
    assert_true(host.steps_bytes > none.steps_bytes);
    options.device = &device;
    assert_int_equal(lh_stage_memory_count(gguf, &config, &options, 1, &one, &error), LH_OK);
    assert_int_equal(lh_stage_memory_count(gguf, &config, &options, 64, &many, &error), LH_OK);
    assert_int_equal(one.steps_bytes, many.steps_bytes);
    assert_int_equal(one.steps_bytes, none.steps_bytes + 1000ull * options.rows_max);
}

static void test_what_is_not_free_is_refused_with_the_arithmetic(void **state) {
    (void)state;
    const lh_stage_memory memory = {3u << 30, 1u << 30, 1u << 29};
    const int64_t sum = (int64_t)lh_stage_memory_sum(&memory);
    const lh_layer_range range = {2, 5};
    assert_int_equal(lh_stage_memory_check(&memory, range, -1, &error), LH_OK);
    assert_int_equal(lh_stage_memory_check(&memory, range, sum, &error), LH_OK);
    assert_int_equal(lh_stage_memory_check(&memory, range, sum / 2, &error), LH_ERR_LIMIT);
    assert_string_equal(
        error.message, "layers 2-4 need 4.50 GiB (weights 3.00, KV cache 1.00, steps 0.50) and "
                       "2.25 GiB are free: lower --kv-bytes or --memory-bytes, end other programs, "
                       "or add workers");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_it_takes_what_was_counted),
        TEST(test_members_share_the_weights),
        TEST(test_a_device_takes_no_part),
        TEST(test_steps_take_about_what_was_counted),
        TEST(test_a_device_has_no_threads_but_tells_what_it_takes),
        TEST(test_what_is_not_free_is_refused_with_the_arithmetic),
        TEST(test_options_are_checked),
        TEST(test_source_error_comes_through),
        TEST(test_a_tensor_that_cannot_be_read_fails_the_stage),
        TEST(test_create_without_memory),
        TEST(test_progress_and_bytes),
        TEST(test_begin_is_checked),
        TEST(test_begin_takes_all_or_nothing),
        TEST(test_activation_buffers_run_out),
        TEST(test_sampling_is_checked_on_the_last_stage),
        TEST(test_shards_are_checked),
        TEST(test_first_stage_takes_no_shards),
        TEST(test_each_step_has_its_cut),
        TEST(test_a_cut_that_does_not_fit_is_refused),
        TEST(test_end_without_finish_takes_back),
        TEST(test_cancel_takes_back),
        TEST(test_later_steps_are_stale),
        TEST(test_earlier_steps_survive_later_ones),
        TEST(test_steps_finish_in_order),
        TEST(test_free_while_a_step_runs),
        TEST(test_a_failed_fork_is_taken_back),
        TEST(test_reset),
        TEST(test_sampling_lists_of_a_step_are_honoured),
        TEST(test_a_kv_resync),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
