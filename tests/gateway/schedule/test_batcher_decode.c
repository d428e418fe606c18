/* Decode steps beside prompts of other tenants. (How rows are dealt: test_decode_groups.c.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/gateway/support/scheduler_bench.h"
#include "tests/support/failing_malloc.h"

static void submit(lh_scheduler *s, uint64_t handle, uint32_t prompt_tokens, uint64_t tenant) {
    lh_sequence_request request = request_of(prompt_tokens, 20);
    request.tenant = tenant;
    assert_int_equal(submit_request(s, &request, handle, 0), LH_OK);
}

/* A token for each of the step's sequences, whose handle is their number less one. */
static void bring_tokens(lh_scheduler *s, const lh_step_manifest *step) {
    lh_step_result results[4];
    for (uint32_t i = 0; i < step->segment_count; i++)
        results[i] =
            (lh_step_result){.sequence = step->segments[i].sequence,
                             .position = step->segments[i].first_position + step->segments[i].rows,
                             .answer.token = 9};
    assert_int_equal(lh_scheduler_results(s, 7, step->step, results, step->segment_count, 0, NULL),
                     LH_OK);
    answer_step(s, step->step);
}

static lh_step_manifest decode_step(lh_scheduler *s, uint32_t rows) {
    lh_step_manifest m = next_step(s);
    assert_int_equal(m.step_class, LH_STEP_DECODE);
    assert_int_equal(m.rows, rows);
    return m;
}

/* Three sequences of a tenant that have drawn a token each: it has had 63 tokens. */
static lh_scheduler *create_decoding(uint64_t tenant) {
    lh_scheduler *s = create_ready(64);
    for (uint64_t handle = 0; handle < 3; handle++)
        submit(s, handle, 20, tenant);
    lh_step_manifest m = next_step(s);
    assert_int_equal(m.segment_count, 3);
    bring_tokens(s, &m);
    return s;
}

static lh_scheduler *create_measured(const lh_cost_chain *costs, uint64_t sequences) {
    lh_scheduler *s = create_ready(64);
    lh_scheduler_set_costs(s, costs);
    const lh_sequence_request request = request_of(20, 60);
    for (uint64_t handle = 0; handle < sequences; handle++)
        assert_int_equal(submit_request(s, &request, handle, 0), LH_OK);
    lh_step_manifest m = next_step(s);
    assert_int_equal(m.segment_count, sequences);
    bring_tokens(s, &m);
    return s;
}

/* While a step of the slower stage takes as long for one row as for three, all leave together. */
static void groups_are_chosen_again_after_some_steps(void **state) {
    (void)state;
    lh_cost_chain costs = costs_of_chain();
    costs.stages[1].points[0].us = costs.stages[1].points[1].us;
    lh_scheduler *s = create_measured(&costs, 3);
    costs = costs_of_chain();
    for (int i = 0; i < 32; i++) {
        lh_step_manifest m = decode_step(s, 3);
        bring_tokens(s, &m);
        lh_scheduler_set_costs(s, &costs);
    }
    assert_int_equal(lh_scheduler_current_figures(s).decode_groups, 1);
    decode_step(s, 1);
    assert_int_equal(lh_scheduler_current_figures(s).decode_groups, 3);
    lh_scheduler_destroy(s);
}

static void groups_are_chosen_again_on_another_chain(void **state) {
    (void)state;
    const lh_cost_chain costs = costs_of_chain();
    lh_scheduler *s = create_measured(&costs, 1);
    decode_step(s, 1);
    assert_int_equal(lh_scheduler_current_figures(s).decode_groups, 1);
    lh_scheduler_chain_down(s, 0);
    bring_chain_up(s, 8, 0);
    assert_int_equal(lh_scheduler_current_figures(s).decode_groups, 0);
    lh_step_manifest m = next_step(s);
    assert_int_equal(bring_token(s, 8, m.step, m.segments[0].sequence, 21, 9), LH_OK);
    decode_step(s, 1);
    assert_int_equal(lh_scheduler_current_figures(s).decode_groups, 1);
    lh_scheduler_destroy(s);
}

/* Two stages: three groups. */
static void groups_follow_each_other(void **state) {
    (void)state;
    lh_scheduler *s = create_decoding(1);
    for (int i = 0; i < 3; i++)
        decode_step(s, 1);
    assert_no_step(s);
    lh_scheduler_destroy(s);
}

/* Its rows leave after three steps of the other's prompt (and one of its own, before), one step at
 * a time, and no more until that prompt is through. */
static void who_has_most_yields_to_anothers_prompt(void **state) {
    (void)state;
    lh_scheduler *s = create_decoding(1);
    lh_sequence_request request = request_of(40, 20);
    request.tenant = 2;
    request.has_overlap = true;
    request.overlap = (lh_overlap_spec){LH_OVERLAP_MANUAL, 8, 1};
    assert_int_equal(submit_request(s, &request, 3, 0), LH_OK);
    uint64_t last = 0, decode = 0;
    for (int i = 0; i < 6; i++) {
        lh_step_manifest m = next_step(s);
        assert_int_equal(m.step_class, i == 3 ? LH_STEP_DECODE : LH_STEP_PREFILL);
        assert_int_equal(m.rows, i == 3 ? 3 : 8);
        *(i == 3 ? &decode : &last) = m.step;
    }
    for (uint64_t sequence = 1; sequence <= 3; sequence++)
        assert_int_equal(bring_token(s, 7, decode, sequence, 21, 9), LH_OK);
    answer_step(s, decode);
    assert_no_step(s); /* all is sent, but the prompt is still under way */
    assert_int_equal(bring_token(s, 7, last, 4, 40, 9), LH_OK);
    decode_step(s, 2); /* it is through: four sequences in three groups */
    decode_step(s, 2);
    assert_no_step(s);
    lh_scheduler_destroy(s);
}

/* Each time anew: three chunks before its first rows, since one was its own; then four. */
static void who_yields_counts_from_its_last_rows(void **state) {
    (void)state;
    lh_scheduler *s = create_decoding(1);
    lh_sequence_request request = request_of(56, 20);
    request.tenant = 2;
    request.has_overlap = true;
    request.overlap = (lh_overlap_spec){LH_OVERLAP_MANUAL, 4, 1};
    assert_int_equal(submit_request(s, &request, 3, 0), LH_OK);
    for (uint32_t turn = 0; turn < 3; turn++) {
        for (uint32_t chunk = 0; chunk < (turn == 0 ? 3 : 4); chunk++) {
            lh_step_manifest m = next_step(s);
            assert_int_equal(m.step_class, LH_STEP_PREFILL);
            assert_int_equal(lh_scheduler_results(s, 7, m.step, NULL, 0, 0, NULL), LH_OK);
        }
        lh_step_manifest m = decode_step(s, 3);
        bring_tokens(s, &m);
    }
    lh_scheduler_destroy(s);
}

/* Two tenants decode beside the prompt of a third: the rows of the one that has less leave all the
 * time, and those of the other after three chunks all the same. */
static void rows_of_others_do_not_count_as_the_crowds(void **state) {
    (void)state;
    lh_scheduler_options options = options_of(64);
    options.sequences_max = 5;
    lh_scheduler *s = create_by(&options);
    bring_chain_up(s, 7, 0);
    for (uint64_t handle = 0; handle < 4; handle++)
        submit(s, handle, 15, handle < 3 ? 1 : 3);
    lh_step_manifest m = next_step(s);
    assert_int_equal(m.segment_count, 4);
    bring_tokens(s, &m);
    lh_sequence_request request = request_of(32, 20);
    request.tenant = 2;
    request.has_overlap = true;
    request.overlap = (lh_overlap_spec){LH_OVERLAP_MANUAL, 4, 1};
    assert_int_equal(submit_request(s, &request, 4, 0), LH_OK);
    m = decode_step(s, 1);
    for (uint32_t chunk = 0; chunk < 3; chunk++) {
        assert_int_equal(m.segments[0].sequence, 4);
        lh_step_manifest prompt = next_step(s);
        assert_int_equal(prompt.step_class, LH_STEP_PREFILL);
        assert_int_equal(prompt.rows, 4);
        assert_int_equal(bring_token(s, 7, m.step, 4, 16 + chunk, 9), LH_OK);
        answer_step(s, m.step);
        m = decode_step(s, chunk < 2 ? 1 : 4);
    }
    lh_scheduler_destroy(s);
}

/* A tenant's own prompt, or one of another that has had more: as without. */
static void otherwise_decoding_goes_on(void **state) {
    (void)state;
    for (uint64_t tenant = 1; tenant <= 2; tenant++) {
        lh_scheduler *s = create_decoding(1);
        submit(s, 3, 128, tenant);
        for (int i = 0; i < 3; i++)
            decode_step(s, 1);
        lh_scheduler_destroy(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_follow_each_other),
        cmocka_unit_test(who_has_most_yields_to_anothers_prompt),
        cmocka_unit_test(groups_are_chosen_again_after_some_steps),
        cmocka_unit_test(groups_are_chosen_again_on_another_chain),
        cmocka_unit_test(who_yields_counts_from_its_last_rows),
        cmocka_unit_test(rows_of_others_do_not_count_as_the_crowds),
        cmocka_unit_test(otherwise_decoding_goes_on),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
