/* Whose chunk is next, and how long it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/gateway/support/scheduler_bench.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/log_capture.h"

#include <stdlib.h>
#include <string.h>

/* A prompt of so many tokens for the sequence of this handle; its number on the wire is handle + 1.
 */
static void submit(lh_scheduler *s, uint64_t handle, uint32_t prompt_tokens, uint64_t tenant,
                   int32_t priority) {
    lh_sequence_request request = request_of(prompt_tokens, 5);
    request.tenant = tenant;
    request.priority = priority;
    assert_int_equal(submit_request(s, &request, handle, 0), LH_OK);
}

/* Handles are few: those of sequences that are long gone are used again. */
static uint64_t handle_of(uint64_t number) {
    return number == 0 ? 0 : 1 + (number - 1) % 7;
}

/* Whose rows the next step has, counted from 0 in the order of their coming; it goes around and is
 * answered at once, and a sequence that has its first token hangs up. */
static uint64_t step_of(lh_scheduler *s) {
    lh_step_manifest m = next_step(s);
    assert_int_equal(m.step_class, LH_STEP_PREFILL);
    assert_int_equal(m.segment_count, 1);
    uint64_t sequence = m.segments[0].sequence;
    if (m.segments[0].ask.draws) {
        assert_int_equal(bring_token(s, 7, m.step, sequence,
                                     m.segments[0].first_position + m.segments[0].rows, 9),
                         LH_OK);
        lh_scheduler_cancel(s, handle_of(sequence - 1));
        lh_step_manifest truncation = next_step(s);
        assert_int_equal(truncation.rows, 0);
        answer_step(s, m.step);
        answer_step(s, truncation.step);
        return sequence - 1;
    }
    assert_int_equal(lh_scheduler_results(s, 7, m.step, NULL, 0, 0, NULL), LH_OK);
    answer_step(s, m.step);
    return sequence - 1;
}

static void a_short_prompt_overtakes_a_long_one(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(16);
    submit(s, 0, 160, 0, 0);
    assert_int_equal(step_of(s), 0);
    submit(s, 1, 32, 0, 0);
    assert_int_equal(step_of(s), 1);
    assert_int_equal(step_of(s), 1);
    assert_int_equal(step_of(s), 0);
    lh_scheduler_destroy(s);
}

static void of_two_the_one_that_is_through_sooner_goes_on(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(16);
    submit(s, 0, 64, 0, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(step_of(s), 0);
    submit(s, 1, 32, 0, 0);
    assert_int_equal(step_of(s), 0); /* 16 rows left */
    assert_int_equal(step_of(s), 1);
    lh_scheduler_destroy(s);
}

/* Shorter ones come without end. */
static void each_eighth_chunk_is_the_eldests(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(16);
    submit(s, 0, 128, 0, 0);
    uint64_t newest = 0;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 7; i++) {
            submit(s, handle_of(++newest), 10, 0, 0);
            assert_int_equal(step_of(s), newest);
        }
        submit(s, handle_of(++newest), 10, 0, 0);
        assert_int_equal(step_of(s), 0);
        assert_int_equal(step_of(s), newest);
        for (int i = 0; i < 6; i++) {
            submit(s, handle_of(++newest), 10, 0, 0);
            assert_int_equal(step_of(s), newest);
        }
        assert_int_equal(step_of(s), 0); /* nobody else is there: this one begins a new count */
    }
    lh_scheduler_destroy(s);
}

static void a_lower_priority_goes_first_though_longer(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(16);
    submit(s, 0, 32, 0, 3);
    submit(s, 1, 64, 0, -1);
    submit(s, 2, 48, 0, 0);
    const uint64_t expected[] = {1, 1, 1, 1, 2, 2, 2, 0, 0};
    for (int i = 0; i < 9; i++)
        assert_int_equal(step_of(s), expected[i]);
    lh_scheduler_destroy(s);
}

/* Tenant 1 has had 160 and 32 tokens when tenant 2 comes. */
static void between_tenants_it_is_the_turn_of_who_has_had_less(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(16);
    submit(s, 0, 160, 1, 0);
    submit(s, 1, 32, 1, 0);
    submit(s, 2, 64, 2, 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(step_of(s), 2);
    assert_int_equal(step_of(s), 1);
    lh_scheduler_destroy(s);
}

/* ---- How long it is ---- */

/* The first one's, beside others that decode or alone. A row takes the slower stage 1 ms. */
static uint32_t rows_of_chunk(uint32_t prompt_tokens, int64_t step_budget_us, bool is_measured,
                              bool others_decode) {
    const lh_cost_chain costs = costs_of_chain();
    lh_scheduler_options options = options_of(64);
    options.step_budget_us = step_budget_us;
    lh_scheduler *s = create_by(&options);
    bring_chain_up(s, 7, 0);
    if (is_measured)
        lh_scheduler_set_costs(s, &costs);
    if (others_decode) {
        submit(s, 0, 20, 0, 0);
        assert_int_equal(next_step(s).rows, 20);
        assert_int_equal(bring_token(s, 7, 1, 1, 20, 9), LH_OK);
        assert_int_equal(next_step(s).step_class, LH_STEP_DECODE);
    }
    submit(s, 1, prompt_tokens, 0, 0);
    lh_step_manifest m = next_step(s);
    assert_int_equal(m.step_class, LH_STEP_PREFILL);
    lh_scheduler_destroy(s);
    return m.rows;
}

static void a_budget_cuts_only_while_others_decode_and_costs_are_known(void **state) {
    (void)state;
    assert_int_equal(rows_of_chunk(64, 20 * MS, true, true), 16);
    assert_int_equal(rows_of_chunk(64, 20 * MS, true, false), 64);
    assert_int_equal(rows_of_chunk(64, 20 * MS, false, true), 64);
    assert_int_equal(rows_of_chunk(64, 0, true, true), 64);
}

/* Though no more than 16 would be left of a longer step. */
static void a_prompt_within_the_budget_goes_whole(void **state) {
    (void)state;
    assert_int_equal(rows_of_chunk(20, 20 * MS, true, true), 20);
}

/* Else the chunks that wait at its stages would be before another's that comes. */
static void who_has_most_keeps_fewer_chunks_under_way_while_others_are_known(void **state) {
    (void)state;
    for (int known = 0; known < 2; known++) {
        lh_scheduler *s = create_ready(16);
        if (known) {
            submit(s, 1, 10, 2, 0);
            lh_scheduler_cancel(s, 1);
        }
        submit(s, 0, 160, 1, 0);
        for (int i = 0; i < (known ? 3 : 6); i++)
            assert_int_equal(next_step(s).rows, 16);
        assert_no_step(s);
        lh_scheduler_destroy(s);
    }
}

static void without_overlap_a_chunk_waits_for_the_one_before(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(64);
    lh_sequence_request request = request_of(100, 5);
    request.has_overlap = true;
    request.overlap = (lh_overlap_spec){.mode = LH_OVERLAP_OFF};
    assert_int_equal(submit_request(s, &request, 0, 0), LH_OK);
    assert_int_equal(next_step(s).rows, 64);
    assert_no_step(s);
    assert_int_equal(lh_scheduler_results(s, 7, 1, NULL, 0, 0, NULL), LH_OK);
    assert_int_equal(next_step(s).rows, 36);
    lh_scheduler_destroy(s);
}

/* Alone it fills the pipe in pieces; several do that by their number, as many as have room. */
static void a_short_prompt_is_cut_where_it_is_alone(void **state) {
    (void)state;
    const lh_cost_chain costs = costs_of_chain();
    lh_scheduler_options options = options_of(0);
    options.overlap = (lh_overlap_spec){.mode = LH_OVERLAP_AUTO};
    lh_scheduler *s = create_by(&options);
    bring_chain_up(s, 7, 0);
    lh_scheduler_set_costs(s, &costs);
    submit(s, 0, 30, 0, 0);
    lh_step_manifest m = next_step(s);
    assert_int_equal(m.segment_count, 1);
    assert_in_range(m.rows, 1, 29);
    for (uint64_t handle = 1; handle < 4; handle++)
        submit(s, handle, 31, 0, 0);
    for (uint32_t rows = m.rows; rows < 30; rows += m.rows) { /* it is through the soonest */
        assert_int_equal(lh_scheduler_results(s, 7, m.step, NULL, 0, 0, NULL), LH_OK);
        m = next_step(s);
        assert_int_equal(m.segments[0].sequence, 1);
    }
    m = next_step(s);
    assert_int_equal(m.segment_count, 2);
    assert_int_equal(m.rows, 62);
    m = next_step(s);
    assert_int_equal(m.segment_count, 1);
    assert_int_equal(m.rows, 31);
    lh_scheduler_destroy(s);
}

/* ---- What it takes alone ---- */

typedef enum disturbance { NOTHING, ANOTHER_PROMPT, ANOTHER_CHAIN, IS_SECOND } disturbance;

/* What the log says of a prompt of 150 rows, sequence 1, whose first step leaves at second 1 and
 * whose token comes at second 5. */
static char *log_of_prompt(disturbance what) {
    lh_cost_chain costs = costs_of_chain();
    lh_scheduler_options options = options_of(0);
    options.overlap = (lh_overlap_spec){.mode = LH_OVERLAP_AUTO};
    lh_scheduler *s = create_by(&options);
    bring_chain_up(s, 7, 0);
    lh_scheduler_set_costs(s, &costs);
    submit(s, 0, 150, 0, 0);
    if (what == IS_SECOND)
        submit(s, 1, 20, 0, -1);
    log_capture_begin();
    for (int steps = 0;; steps++) {
        lh_step_manifest m;
        if (what == ANOTHER_PROMPT && steps == 1)
            submit(s, 1, 20, 0, -1);
        if (what == ANOTHER_CHAIN && steps == 1) {
            costs.stages[1].points[1].us *= 4;
            lh_scheduler_set_costs(s, &costs);
        }
        assert_true(lh_scheduler_next_step(s, 1000 * MS + steps, &m));
        const lh_step_segment *rows = &m.segments[0];
        if (rows->sequence == 1 && rows->ask.draws) {
            const lh_step_result result = {.sequence = 1, .position = 150, .answer.token = 9};
            assert_int_equal(lh_scheduler_results(s, 7, m.step, &result, 1, 5000 * MS, NULL),
                             LH_OK);
            break;
        }
        if (rows->sequence == 1)
            answer_step(s, m.step);
    }
    lh_scheduler_destroy(s);
    return log_capture_end();
}

static void assert_noted(disturbance what, bool is_noted) {
    char *log = log_of_prompt(what);
    assert_int_equal(strstr(log, "took rows=150 ms=4000.0 ") != NULL, is_noted);
    assert_int_equal(strstr(log, "took rows=150 ") != NULL, is_noted);
    free(log);
}

/* That is compared with what was predicted; where it shared the chain it says nothing. */
static void what_a_prompt_takes_is_noted_where_it_was_alone(void **state) {
    (void)state;
    lh_log_set_level(LH_LOG_DEBUG);
    assert_noted(NOTHING, true);
    assert_noted(ANOTHER_PROMPT, false);
    assert_noted(ANOTHER_CHAIN, false);
    assert_noted(IS_SECOND, false);
    lh_log_set_level(LH_LOG_INFO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_prompt_overtakes_a_long_one),
        cmocka_unit_test(of_two_the_one_that_is_through_sooner_goes_on),
        cmocka_unit_test(each_eighth_chunk_is_the_eldests),
        cmocka_unit_test(a_lower_priority_goes_first_though_longer),
        cmocka_unit_test(between_tenants_it_is_the_turn_of_who_has_had_less),
        cmocka_unit_test(a_budget_cuts_only_while_others_decode_and_costs_are_known),
        cmocka_unit_test(a_prompt_within_the_budget_goes_whole),
        cmocka_unit_test(who_has_most_keeps_fewer_chunks_under_way_while_others_are_known),
        cmocka_unit_test(without_overlap_a_chunk_waits_for_the_one_before),
        cmocka_unit_test(a_short_prompt_is_cut_where_it_is_alone),
        cmocka_unit_test(what_a_prompt_takes_is_noted_where_it_was_alone),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
