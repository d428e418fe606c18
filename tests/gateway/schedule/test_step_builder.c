/* What a step has room for, and what its record and manifest say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/schedule/step_builder.h"
#include "tests/support/failing_malloc.h"

#include <stdlib.h>

enum { ROWS = 64, SEGMENTS = 3 };

static lh_kv_store *store;
static lh_mask_ledger *masks;
static lh_step_builder builder;
static lh_inflight *inflight;
static lh_inflight_step *step;

static int set_up(void **state) {
    (void)state;
    const lh_kv_ledger chain = {.stage_count = 1, .stages = {{16, 100000}}};
    assert_int_equal(lh_mask_ledger_create(&masks, NULL), LH_OK);
    const lh_inflight_options options = {.masks = masks, .steps_max = 4, .segments_max = SEGMENTS};
    assert_int_equal(lh_kv_store_create(&(lh_kv_store_options){0}, &store, NULL), LH_OK);
    lh_kv_store_reset(store, &chain);
    assert_int_equal(lh_inflight_create(&options, &inflight, NULL), LH_OK);
    assert_true(lh_step_builder_init(&builder, store, masks, 1000, ROWS, SEGMENTS));
    step = lh_inflight_blank(inflight);
    lh_step_builder_begin(&builder, step, LH_STEP_PREFILL, ROWS);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    lh_step_builder_reset(&builder);
    lh_inflight_destroy(inflight);
    lh_kv_store_destroy(store);
    lh_mask_ledger_destroy(masks);
    return 0;
}

/* A sequence of so many different tokens, of which all but `pending` have been sent. */
static lh_sequence *create(uint64_t id, uint32_t tokens, uint32_t pending, float penalty) {
    uint32_t *prompt = malloc(tokens * sizeof *prompt);
    for (uint32_t i = 0; i < tokens; i++)
        prompt[i] = i;
    const lh_sequence_request request = {.prompt = prompt,
                                         .prompt_tokens = tokens,
                                         .max_tokens = 1,
                                         .sampling = {.repetition_penalty = penalty}};
    lh_sequence *sequence;
    assert_int_equal(lh_sequence_create(&request, id, UINT32_MAX, &sequence, NULL), LH_OK);
    free(prompt);
    assert_true(lh_sequence_kv_begin(&sequence->kv, store, id, (lh_prefix_scope){0, 0},
                                     sequence->history, tokens, true, 0));
    sequence->kv.computed = tokens - pending;
    return sequence;
}

static void rows_go_as_far_as_there_is_room(void **state) {
    (void)state;
    lh_sequence *a = create(1, 40, 40, 1), *b = create(2, 30, 30, 1), *c = create(3, 9, 9, 1),
                *d = create(4, 9, 9, 1);
    assert_int_equal(lh_step_builder_room(&builder, a), 40);
    lh_step_builder_add(&builder, a, 40);
    assert_int_equal(lh_step_builder_room(&builder, b), 24);
    lh_step_builder_add(&builder, b, 14);
    assert_int_equal(lh_step_builder_room(&builder, c), 9);
    lh_step_builder_add(&builder, c, 9);
    assert_int_equal(lh_step_builder_room(&builder, d), 0); /* as many sequences as there may be */
    assert_int_equal(step->rows, 63);
    assert_int_equal(step->results_due, 2);
    assert_int_equal(step->segment_count, 3);
    const lh_step_manifest manifest = lh_step_builder_manifest(&builder, 7);
    assert_int_equal(manifest.epoch, 7);
    assert_int_equal(manifest.step_class, LH_STEP_PREFILL);
    assert_int_equal(manifest.rows, 63);
    assert_int_equal(manifest.segment_count, 3);
    assert_int_equal(manifest.truncation_count, 0);
    assert_false(manifest.timed);
    static const uint32_t rows[] = {40, 14, 9};
    for (uint32_t i = 0, at = 0; i < 3; at += rows[i++]) {
        assert_int_equal(manifest.segments[i].sequence, i + 1);
        assert_int_equal(manifest.segments[i].first_position, 0);
        assert_int_equal(manifest.segments[i].rows, rows[i]);
        assert_int_equal(manifest.segments[i].ask.draws, i != 1);
        assert_false(manifest.segments[i].forks);
        assert_true(step->segments[i].is_first);
        for (uint32_t k = 0; k < rows[i]; k++)
            assert_int_equal(manifest.tokens[at + k], k);
    }
    lh_sequence *all[] = {a, b, c, d};
    for (int i = 0; i < 4; i++)
        lh_sequence_destroy(all[i]);
}

/* Half of what a manifest may be, in entries of a token and two counts. */
static void what_penalties_need_has_its_bound(void **state) {
    (void)state;
    enum { MOST = (4 << 20) / 2 / 12, FIRST = 100000 };
    lh_sequence *first = create(1, FIRST, 1, 1.5f), *fitting = create(2, MOST - FIRST, 1, 1.5f),
                *larger = create(3, MOST - FIRST + 1, 1, 1.5f);
    assert_int_equal(sizeof(lh_token_count), 12);
    assert_int_equal(lh_step_builder_room(&builder, first), 1);
    lh_step_builder_add(&builder, first, 1);
    assert_int_equal(lh_step_builder_room(&builder, larger), 0);
    assert_int_equal(lh_step_builder_room(&builder, fitting), 1);
    step->step_class = LH_STEP_DECODE;
    lh_step_builder_begin(&builder, lh_inflight_blank(inflight), LH_STEP_PREFILL, ROWS);
    assert_int_equal(lh_step_builder_room(&builder, larger), 1); /* the next step has none yet */
    lh_sequence_destroy(first);
    lh_sequence_destroy(fitting);
    lh_sequence_destroy(larger);
}

/* What others go on from is not the place of one that a worker has refused. */
static void one_in_quarantine_travels_alone(void **state) {
    (void)state;
    lh_sequence *sound = create(1, 10, 10, 1), *refused = create(2, 10, 10, 1),
                *traced = create(3, 10, 10, 1);
    lh_sequence_note_refusal(refused);
    assert_true(lh_step_builder_may_join(&builder, refused));
    lh_step_builder_add(&builder, sound, 10);
    assert_false(lh_step_builder_may_join(&builder, refused));
    assert_true(lh_step_builder_may_join(&builder, traced));
    traced->request.trace = 5;
    lh_step_builder_add(&builder, traced, 10);
    assert_true(lh_step_builder_manifest(&builder, 1).timed);
    *step = (lh_inflight_step){.segments = step->segments, .truncations = step->truncations};
    lh_step_builder_begin(&builder, step, LH_STEP_PREFILL, ROWS);
    lh_step_builder_add(&builder, refused, 10);
    assert_false(lh_step_builder_may_join(&builder, sound));
    assert_false(lh_step_builder_manifest(&builder, 1).timed);
    lh_sequence_destroy(sound);
    lh_sequence_destroy(refused);
    lh_sequence_destroy(traced);
}

static void without_memory_there_is_no_builder(void **state) {
    (void)state;
    for (size_t n = 1; n <= 3; n++) {
        lh_step_builder none;
        failing_malloc_arm(n);
        assert_false(lh_step_builder_init(&none, store, masks, 1000, ROWS, SEGMENTS));
        assert_true(failing_malloc_disarm());
        lh_step_builder_reset(&none);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_go_as_far_as_there_is_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_penalties_need_has_its_bound, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_in_quarantine_travels_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_memory_there_is_no_builder, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
