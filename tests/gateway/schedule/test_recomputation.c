/* An answer goes through the chain again: which rows leave together, and which of them draw. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/schedule/recomputation.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 64, SEGMENTS = 20, PROMPT = 100, DRAWS = 40, PAGE = 16, PAGES = 20 };

static lh_kv_store *store;
static lh_mask_ledger *masks;
static lh_inflight *inflight;
static lh_step_builder builder;
static lh_inflight_step *step;
static lh_answer_record *record;
static lh_recomputation again;
static uint64_t draws[DRAWS];

/* A stop token ended it, so the last draw is no token of the answer. */
static int set_up(void **state) {
    (void)state;
    const lh_kv_ledger chain = {.stage_count = 1, .stages = {{PAGE, PAGES}}};
    assert_int_equal(lh_mask_ledger_create(&masks, NULL), LH_OK);
    const lh_inflight_options options = {.masks = masks, .steps_max = 60, .segments_max = SEGMENTS};
    assert_int_equal(lh_kv_store_create(&(lh_kv_store_options){true, 10}, &store, NULL), LH_OK);
    lh_kv_store_reset(store, &chain);
    assert_int_equal(lh_inflight_create(&options, &inflight, NULL), LH_OK);
    assert_true(lh_step_builder_init(&builder, store, masks, 1000, ROWS, SEGMENTS));
    again = (lh_recomputation){0};
    record = lh_answer_record_create(DRAWS);
    assert_non_null(record);
    record->tokens = calloc(PROMPT + DRAWS - 1, sizeof *record->tokens);
    assert_non_null(record->tokens);
    record->token_count = PROMPT + DRAWS - 1;
    for (uint32_t i = 0; i < record->token_count; i++)
        record->tokens[i] = 500 + i;
    record->draw_count = DRAWS;
    record->request = (lh_sequence_request){.prompt_tokens = PROMPT,
                                            .max_tokens = 100,
                                            .min_tokens = 2,
                                            .stop_tokens = record->stop_tokens,
                                            .stop_token_count = 1,
                                            .sampling = {.repetition_penalty = 1, .seed = 9}};
    record->stop_tokens[0] = 3;
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    lh_sequence_destroy(again.sequence);
    lh_answer_record_destroy(record);
    lh_step_builder_reset(&builder);
    lh_inflight_destroy(inflight);
    lh_kv_store_destroy(store);
    lh_mask_ledger_destroy(masks);
    return 0;
}

static void begin(void) {
    assert_int_equal(lh_recomputation_begin(&again, record, draws, 1, store, NULL), LH_OK);
}

/* One more step of at most so many rows. */
static lh_step_manifest next_step(uint32_t rows) {
    step = lh_inflight_blank(inflight);
    lh_step_builder_begin(&builder, step, LH_STEP_PREFILL, rows);
    lh_recomputation_add(&again, &builder, rows);
    return lh_step_builder_manifest(&builder, 1);
}

static void the_prompt_goes_in_chunks_and_then_each_row_draws(void **state) {
    (void)state;
    begin();
    uint32_t drawn = 0, rows = 0;
    while (lh_recomputation_has_rows(&again)) {
        assert_int_equal(lh_recomputation_position(&again), rows);
        lh_step_manifest manifest = next_step(ROWS);
        uint32_t draws_here = 0, row = 0;
        for (uint32_t i = 0; i < manifest.segment_count; i++) {
            const lh_step_segment *segment = &manifest.segments[i];
            assert_int_equal(segment->first_position, rows + row);
            for (uint32_t r = 0; r < segment->rows; r++)
                assert_int_equal(manifest.tokens[row + r], 500 + rows + row + r);
            row += segment->rows;
            if (!segment->ask.draws)
                continue;
            assert_int_equal(segment->ask.sampling.counter, PROMPT + drawn);
            assert_int_equal(segment->ask.sampling.seed, 9);
            assert_int_equal(segment->ask.sampling.bias_count, drawn < 2); /* bans the stop token */
            drawn++;
            draws_here++;
        }
        assert_in_range(draws_here, 0, LH_RECOMPUTATION_DRAWS);
        rows += row;
    }
    assert_int_equal(drawn, DRAWS);
    assert_int_equal(rows, record->token_count);
    lh_recomputation_end(&again, LH_RECOMPUTATION_DROPPED, store);
    assert_int_equal(again.state, LH_RECOMPUTATION_DROPPED);
}

static void with_penalties_a_step_draws_once(void **state) {
    (void)state;
    record->request.sampling.presence_penalty = 1;
    begin();
    uint32_t steps = 0, drawn = 0;
    for (; lh_recomputation_has_rows(&again); steps++) {
        lh_step_manifest manifest = next_step(ROWS);
        const lh_step_segment *last = &manifest.segments[manifest.segment_count - 1];
        assert_int_equal(manifest.segment_count, 1);
        if (!last->ask.draws)
            continue;
        uint32_t counted = 0;
        for (uint32_t i = 0; i < last->ask.sampling.count_count; i++)
            counted += last->ask.sampling.counts[i].output_count;
        assert_int_equal(counted, drawn++);
    }
    assert_int_equal(drawn, DRAWS);
    assert_int_equal(steps, 1 + DRAWS);
    lh_recomputation_end(&again, LH_RECOMPUTATION_DROPPED, store);
}

static void draws_are_kept_by_position_in_any_order(void **state) {
    (void)state;
    begin();
    for (uint32_t i = DRAWS; i-- > 0;) {
        lh_step_result result = {.position = PROMPT + i, .answer = {.token = i}};
        assert_int_equal(lh_recomputation_take(&again, &result), i == 0);
    }
    for (uint32_t i = 0; i < DRAWS; i++) {
        lh_row_answer sample = {.token = i};
        assert_true(draws[i] == lh_answer_draw_digest(&sample));
        sample.logprob = -1;
        assert_false(draws[i] == lh_answer_draw_digest(&sample));
    }
    lh_recomputation_end(&again, LH_RECOMPUTATION_DONE, store);
    assert_int_equal(lh_kv_store_ledger(store)->blocks_live, 0);
}

/* What is cached stays, and what is free is not enough. */
static void it_takes_free_pages_alone(void **state) {
    (void)state;
    uint32_t tokens[PAGE * (PAGES - 8)] = {0}, length = PAGE * (PAGES - 8);
    lh_block_table *cached =
        lh_kv_store_begin(store, 5, (lh_prefix_scope){1, 1}, tokens, length, true, 0);
    lh_kv_store_send(store, cached, tokens, length, LH_STEP_PREFILL);
    lh_kv_store_pass(cached, NULL, length, LH_STEP_PREFILL);
    lh_kv_store_land(cached, NULL, true, LH_STEP_PREFILL);
    lh_kv_store_free(store, cached);
    lh_error error;
    assert_int_equal(lh_recomputation_begin(&again, record, draws, 1, store, &error), LH_ERR_BUSY);
    assert_int_equal(lh_kv_store_ledger(store)->blocks_cached, PAGES - 8);
    record->draw_count = 20;
    begin();
    lh_kv_store_make_room(store, 8);
    assert_int_equal(lh_kv_store_ledger(store)->blocks_cached, PAGES - 8);
    next_step(ROWS);
    lh_recomputation_end(&again, LH_RECOMPUTATION_DROPPED, store);
    assert_int_equal(lh_kv_store_ledger(store)->blocks_cached, PAGES - 8);
    assert_int_equal(lh_kv_store_ledger(store)->blocks_live, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_prompt_goes_in_chunks_and_then_each_row_draws, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(with_penalties_a_step_draws_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(draws_are_kept_by_position_in_any_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_takes_free_pages_alone, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
