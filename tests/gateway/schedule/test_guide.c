/* Sequences that follow a grammar: which masks their steps name and bring, and what they get
 * without a draw. Token i is byte i, token 256 ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "common/protocol/mask_code.h"
#include "gateway/constrain/gbnf.h"
#include "tests/gateway/support/constraint_probe.h"
#include "tests/gateway/support/scheduler_bench.h"

enum { END = 256, VOCABULARY = 257 };

static probe_vocabulary vocabulary;

static int set_up(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_of_bytes();
    small_vocabulary_add(&file, "<|im_end|>", 3);
    vocabulary = probe_vocabulary_of(&file);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    probe_vocabulary_reset(&vocabulary);
    return 0;
}

static lh_scheduler *create_small(void) {
    lh_scheduler_options options = options_of(64);
    options.vocabulary = VOCABULARY;
    lh_scheduler *s = create_by(&options);
    bring_chain_up(s, 7, 0);
    return s;
}

/* A prompt of 10 tokens, and an answer of the grammar's. */
static lh_status submit(lh_scheduler *s, const char *gbnf, uint32_t max_tokens, uint64_t handle) {
    static const uint32_t end = END;
    lh_grammar *grammar;
    assert_int_equal(lh_grammar_create(&grammar, NULL), LH_OK);
    lh_gbnf_add(grammar, gbnf, strlen(gbnf));
    lh_constraint *constraint = probe_constraint(grammar, vocabulary.vocabulary);
    lh_sequence_request request = request_of(10, max_tokens);
    request.constraint = constraint;
    request.stop_tokens = &end;
    request.stop_token_count = 1;
    lh_status status = submit_request(s, &request, handle, 0);
    lh_constraint_release(constraint);
    return status;
}

static void assert_heard(uint64_t handle, const char *text) {
    const heard *ear = &ears[handle];
    assert_int_equal(ear->count, strlen(text));
    for (uint32_t i = 0; i < ear->count; i++)
        assert_int_equal(ear->tokens[i], (uint8_t)text[i]);
}

static void draw(lh_scheduler *s, const lh_step_manifest *step, uint32_t token) {
    const lh_step_segment *segment = &step->segments[0];
    assert_true(segment->ask.draws);
    assert_int_equal(bring_token(s, 7, step->step, segment->sequence,
                                 segment->first_position + segment->rows, token),
                     LH_OK);
    answer_step(s, step->step);
}

/* Draws the tokens of a text that is the answer, step by step; returns how many. */
static uint32_t draw_text(lh_scheduler *s, uint64_t handle, const char *text) {
    uint32_t draws = 0;
    while (!ears[handle].is_finished) {
        lh_step_manifest step = next_step(s);
        const lh_step_segment *segment = &step.segments[0];
        for (uint32_t i = 0; i < step.rows; i++)
            if (segment->first_position + i >= 10)
                assert_int_equal(step.tokens[i], (uint8_t)text[segment->first_position + i - 10]);
        assert_int_equal(segment->ask.sampling.counter, segment->first_position + step.rows);
        assert_true(segment->ask.sampling.mask > 0);
        draw(s, &step, (uint8_t)text[segment->first_position + step.rows - 10]);
        draws++;
    }
    return draws;
}

/* Names and brackets go as further rows of the steps that draw. */
static void what_must_come_goes_with_the_next_draw(void **state) {
    (void)state;
    static const char text[] = "{\"name\":4,\"size\":2}";
    lh_scheduler *s = create_small();
    assert_int_equal(
        submit(s, "root ::= \"{\\\"name\\\":\" [0-9] \",\\\"size\\\":\" [0-9] \"}\"", 40, 0),
        LH_OK);
    uint32_t draws = draw_text(s, 0, text);
    assert_heard(0, text);
    assert_int_equal(ears[0].reason, LH_FINISH_STOP);
    assert_in_range(draws, 2, 8);
    assert_int_equal(lh_scheduler_current_figures(s).forced_tokens, strlen(text) - draws);
    lh_scheduler_destroy(s);
}

static void the_mask_says_what_the_grammar_allows(void **state) {
    (void)state;
    lh_scheduler *s = create_small();
    lh_error error;
    uint64_t words[(VOCABULARY + 63) / 64];
    assert_int_equal(submit(s, "root ::= [a-c]+", 40, 0), LH_OK);
    lh_step_manifest step = next_step(s);
    const lh_step_mask *mask = &step.masks.list[0];
    assert_int_equal(mask->vocabulary, VOCABULARY);
    assert_int_equal(lh_mask_decode(mask->code, mask->code_bytes, VOCABULARY, words, &error),
                     LH_OK);
    assert_true(words[1] == (uint64_t)7 << ('a' - 64) && !words[0] && !words[2] && !words[4]);
    draw(s, &step, 'b');
    step = next_step(s);
    assert_int_equal(lh_mask_decode(step.masks.list[0].code, step.masks.list[0].code_bytes,
                                    VOCABULARY, words, &error),
                     LH_OK);
    assert_true(words[4] == 1); /* it may end now */
    draw(s, &step, END);
    assert_heard(0, "b");
    assert_true(ears[0].is_finished);
    lh_scheduler_destroy(s);
}

/* So many ways to read a text that each token costs the grammar more than may be done at once. */
#define RULES 1200
static const char *hard_grammar(void) {
    static char text[64 * RULES];
    char *end = text + sprintf(text, "root ::= (r0");
    for (int i = 1; i < RULES; i++)
        end += sprintf(end, " | r%d", i);
    end += sprintf(end, ")*\n");
    for (int i = 0; i < RULES; i++)
        end += sprintf(end, "r%d ::= [a-z] r%d? [a-z]\n", i, (i * 7 + 1) % RULES);
    return text;
}

/* The first tokens of all sequences, drawn by one step. */
static void draw_first(lh_scheduler *s, const lh_step_manifest *step) {
    lh_step_result results[4] = {0};
    for (uint32_t i = 0; i < step->segment_count; i++) {
        const lh_step_segment *segment = &step->segments[i];
        results[i] = (lh_step_result){.sequence = segment->sequence,
                                      .position = segment->first_position + segment->rows,
                                      .answer.token = 'a'};
    }
    assert_int_equal(lh_scheduler_results(s, 7, step->step, results, step->segment_count, 0, NULL),
                     LH_OK);
    answer_step(s, step->step);
}

/* The others' tokens leave meanwhile, and every tick brings the slow ones on. */
static void nobody_waits_for_slow_grammars(void **state) {
    (void)state;
    lh_scheduler *s = create_small();
    for (uint64_t handle = 0; handle < 3; handle++)
        assert_int_equal(submit(s, hard_grammar(), 40, handle), LH_OK);
    assert_int_equal(submit(s, "root ::= [a-c]+", 40, 3), LH_OK);
    lh_step_manifest step = next_step(s);
    assert_int_equal(step.segment_count, 4);
    draw_first(s, &step);
    for (uint64_t handle = 0; handle < 4; handle++)
        assert_int_equal(ears[handle].count, 1);
    assert_int_equal(lh_scheduler_deadline_us(s), 0);
    step = next_step(s);
    assert_in_range(step.segment_count, 1, 3);
    bool has_quick = false;
    for (uint32_t i = 0; i < step.segment_count; i++)
        has_quick |= step.segments[i].sequence == 4;
    assert_true(has_quick);
    uint32_t rows = step.segment_count;
    for (int tick = 0; tick < 3 && lh_scheduler_deadline_us(s) == 0; tick++)
        lh_scheduler_tick(s, 0);
    assert_true(lh_scheduler_deadline_us(s) > 0);
    while (lh_scheduler_next_step(s, 0, &step))
        rows += step.segment_count;
    assert_int_equal(rows, 4);
    lh_scheduler_destroy(s);
}

/* A chain that breaks meanwhile loses nothing of them. */
static void slow_grammars_outlive_a_chain(void **state) {
    (void)state;
    lh_scheduler *s = create_small();
    for (uint64_t handle = 0; handle < 3; handle++)
        assert_int_equal(submit(s, hard_grammar(), 40, handle), LH_OK);
    lh_step_manifest step = next_step(s);
    draw_first(s, &step);
    lh_scheduler_chain_down(s, 0);
    bring_chain_up(s, 8, 0);
    uint32_t rows = 0;
    while (lh_scheduler_next_step(s, 0, &step))
        rows += step.rows;
    assert_int_equal(rows, 33);
    for (uint64_t handle = 0; handle < 3; handle++)
        assert_false(ears[handle].is_failed);
    lh_scheduler_destroy(s);
}

/* Once for all segments of a step, not again when its results are here, and anew in every epoch. */
static void a_mask_is_brought_once_in_an_epoch(void **state) {
    (void)state;
    lh_scheduler *s = create_small();
    assert_int_equal(submit(s, "root ::= [a-c] \"!\"? [a-c] \"!\"?", 40, 0), LH_OK);
    assert_int_equal(submit(s, "root ::= [a-c] \"?\"? [a-c] \"?\"?", 40, 1), LH_OK);
    lh_step_manifest step = next_step(s);
    assert_int_equal(step.segment_count, 2);
    assert_int_equal(step.masks.count, 1);
    uint64_t number = step.masks.list[0].number;
    const uint64_t sequences[2] = {step.segments[0].sequence, step.segments[1].sequence};
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(step.segments[i].ask.sampling.mask, number);
        assert_int_equal(bring_token(s, 7, step.step, sequences[i], 10, 'a'), LH_OK);
    }
    answer_step(s, step.step);
    for (uint32_t left = 2; left > 0; left -= step.segment_count) {
        step = next_step(s); /* '!' or '?' may come besides */
        assert_int_equal(step.masks.count, step.segment_count);
        for (uint32_t i = 0; i < step.segment_count; i++) {
            assert_true(step.segments[i].ask.sampling.mask > number);
            assert_int_equal(bring_token(s, 7, step.step, step.segments[i].sequence, 11,
                                         step.segments[i].sequence == sequences[0] ? '!' : '?'),
                             LH_OK);
        }
        answer_step(s, step.step);
    }
    step = next_step(s);
    assert_int_equal(step.segments[0].ask.sampling.mask, number);
    assert_int_equal(step.masks.count, 0);
    bring_chain_up(s, 8, 0);
    step = next_step(s);
    assert_in_range(step.masks.count, 1, 2);
    assert_true(step.segments[0].ask.sampling.mask > number);
    lh_scheduler_destroy(s);
}

/* It is replayed with its mask; the second time the worker is at fault, and nobody fails. */
static void a_worker_that_lost_a_mask_gets_it_again(void **state) {
    (void)state;
    lh_scheduler *s = create_small();
    assert_int_equal(submit(s, "root ::= [a-c]+", 40, 0), LH_OK);
    lh_step_manifest step = next_step(s);
    draw(s, &step, 'a');
    step = next_step(s);
    draw(s, &step, 'a');
    step = next_step(s);
    assert_int_equal(step.masks.count, 0);
    draw(s, &step, LH_STEP_NO_TOKEN);
    assert_null(lh_scheduler_fault(s));
    for (step = next_step(s); step.rows == 0; step = next_step(s))
        answer_step(s, step.step);
    assert_int_equal(step.segments[0].ask.sampling.counter, 12);
    assert_int_equal(step.masks.count, 1);
    draw(s, &step, LH_STEP_NO_TOKEN);
    assert_non_null(lh_scheduler_fault(s));
    assert_int_equal(lh_scheduler_result_fault(s), LH_RESULTS_BAD);
    assert_false(ears[0].is_failed);
    lh_scheduler_destroy(s);
}

static void a_token_that_the_mask_forbids_is_a_fault(void **state) {
    (void)state;
    lh_scheduler *s = create_small();
    assert_int_equal(submit(s, "root ::= [a-c]+", 40, 0), LH_OK);
    lh_step_manifest step = next_step(s);
    assert_int_equal(bring_token(s, 7, step.step, step.segments[0].sequence, 10, 'x'),
                     LH_ERR_MALFORMED);
    assert_non_null(lh_scheduler_fault(s));
    lh_scheduler_destroy(s);
}

/* One token is drawn even where none need be. */
static void all_that_must_come_but_one(void **state) {
    (void)state;
    lh_scheduler *s = create_small();
    assert_int_equal(submit(s, "root ::= \"yes\"", 40, 0), LH_OK);
    lh_step_manifest step = next_step(s);
    assert_int_equal(step.rows, 12);
    draw(s, &step, 's');
    assert_heard(0, "yes");
    assert_true(ears[0].is_finished && ears[0].reason == LH_FINISH_STOP);
    assert_int_equal(submit(s, "root ::= \"0123456789\"", 4, 1), LH_OK);
    for (step = next_step(s); step.rows == 0; step = next_step(s))
        answer_step(s, step.step);
    draw(s, &step, '3');
    assert_heard(1, "0123");
    assert_true(ears[1].is_finished && ears[1].reason == LH_FINISH_LENGTH);
    lh_scheduler_destroy(s);
}

static void a_grammar_of_another_vocabulary_is_refused(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(64); /* of 1000 tokens */
    assert_int_equal(submit(s, "root ::= [a-c]+", 40, 0), LH_ERR_INVALID);
    lh_scheduler_destroy(s);
}

/* Of many answers the grammar is begun once; each goes its own way from its first token on. */
static void twins_begin_alike_and_part(void **state) {
    (void)state;
    lh_grammar *grammar;
    static const char gbnf[] = "root ::= \"{\\\"name\\\":\" [0-9] [d-f]";
    assert_int_equal(lh_grammar_create(&grammar, NULL), LH_OK);
    lh_gbnf_add(grammar, gbnf, strlen(gbnf));
    lh_constraint *constraint = probe_constraint(grammar, vocabulary.vocabulary);
    lh_sequence_request request = request_of(10, 40);
    request.constraint = constraint;
    lh_sequence *first, *second;
    assert_int_equal(lh_sequence_create(&request, 1, 100, &first, NULL), LH_OK);
    uint64_t work = lh_guide_work(&first->guide);
    request = request_of(7, 40);
    request.constraint = constraint;
    assert_int_equal(lh_sequence_create_beside(&request, first, 100, &second, NULL), LH_OK);
    lh_constraint_release(constraint);
    assert_int_equal(lh_guide_work(&first->guide), work);
    assert_int_equal(second->length - 7, first->length - 10);
    assert_in_range(second->length - 7, 1, 8); /* not all of it is certain */
    assert_memory_equal(second->history + 7, first->history + 10,
                        (second->length - 7) * sizeof *first->history);
    static const char form[] = "{\"name\":";
    for (const char *rest = form + (second->length - 7); *rest; rest++) {
        lh_sequence_append(second, (uint8_t)*rest);
        assert_int_equal(lh_sequence_follow(second, NULL), LH_OK);
    }
    lh_sequence_append(second, '4');
    assert_int_equal(lh_sequence_follow(second, NULL), LH_OK);
    assert_true(lh_guide_allows(&second->guide, 'd') && !lh_guide_allows(&first->guide, 'd'));
    lh_sequence_destroy(first);
    lh_sequence_append(second, 'e');
    assert_int_equal(lh_sequence_follow(second, NULL), LH_OK);
    assert_true(lh_sequence_is_whole(second));
    lh_sequence_destroy(second);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_must_come_goes_with_the_next_draw),
        cmocka_unit_test(the_mask_says_what_the_grammar_allows),
        cmocka_unit_test(twins_begin_alike_and_part),
        cmocka_unit_test(nobody_waits_for_slow_grammars),
        cmocka_unit_test(slow_grammars_outlive_a_chain),
        cmocka_unit_test(a_mask_is_brought_once_in_an_epoch),
        cmocka_unit_test(a_worker_that_lost_a_mask_gets_it_again),
        cmocka_unit_test(a_token_that_the_mask_forbids_is_a_fault),
        cmocka_unit_test(all_that_must_come_but_one),
        cmocka_unit_test(a_grammar_of_another_vocabulary_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
