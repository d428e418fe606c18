/* A request of which everything is known comes out of skewed clocks as it was: spans where they
 * belong, in order, and the figures to the microsecond. And times that no worker of ours would
 * tell. */
#include "gateway/trace/trace_json.h"
#include "tests/gateway/support/traced_prompt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static lh_timeline *timeline_of(lh_trace *trace) {
    lh_timeline *line;
    assert_int_equal(lh_timeline_create(trace, &line, NULL), LH_OK);
    return line;
}

static const lh_span *find_span(const lh_timeline *line, lh_span_kind kind, uint32_t step,
                                uint32_t first_column) {
    for (size_t i = 0; i < line->span_count; i++) {
        const lh_span *span = &line->spans[i];
        if (span->kind == kind && span->step == step && span->first_column == first_column)
            return span;
    }
    fail_msg("no %s of step %u", lh_span_kind_name(kind), step);
    return NULL;
}

static void expect_span(const lh_span *span, int64_t begin_us, int64_t end_us) {
    assert_in_range(span->begin_us, begin_us - 2, begin_us + 2);
    assert_in_range(span->end_us, end_us - 2, end_us + 2);
}

static void test_tracks(void **state) {
    (void)state;
    static const struct {
        lh_track_kind kind;
        const char *from, *to;
        int64_t one_way_us;
    } expected[] = {{LH_TRACK_REQUEST, "", "", 0},  {LH_TRACK_WIRE, "", "a", 100},
                    {LH_TRACK_COMPUTE, "a", "", 0}, {LH_TRACK_WIRE, "a", "b", 1000},
                    {LH_TRACK_COMPUTE, "b", "", 0}, {LH_TRACK_WIRE, "b", "", 500}};
    lh_timeline *line = timeline_of(traced_prompt(3, 2));
    assert_int_equal(line->track_count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(line->tracks[i].kind, expected[i].kind);
        assert_string_equal(line->tracks[i].from, expected[i].from);
        assert_string_equal(line->tracks[i].to, expected[i].to);
        assert_in_range(line->tracks[i].one_way_us,
                        expected[i].one_way_us - (expected[i].one_way_us > 0),
                        expected[i].one_way_us + 3);
    }
    assert_in_range(line->tracks[2].error_us, 100, 105);
    /* over the last hop, not 1100 over the first two */
    assert_in_range(line->tracks[4].error_us, 500, 505);
    lh_timeline_destroy(line);
}

static void test_spans(void **state) {
    (void)state;
    lh_timeline *line = timeline_of(traced_prompt(3, 2));
    int64_t begin = TRACED_BEGIN + 100, a = begin + 110;
    expect_span(find_span(line, LH_SPAN_REQUEST, LH_SPAN_NO_STEP, 0), TRACED_BEGIN,
                line->trace->ended_us);
    expect_span(find_span(line, LH_SPAN_TOKENIZE, LH_SPAN_NO_STEP, 0), TRACED_BEGIN,
                TRACED_BEGIN + 50);
    expect_span(find_span(line, LH_SPAN_QUEUE, LH_SPAN_NO_STEP, 0), TRACED_BEGIN + 50, begin);
    expect_span(find_span(line, LH_SPAN_PREFILL, LH_SPAN_NO_STEP, 0), begin,
                line->trace->first_token_us);
    expect_span(find_span(line, LH_SPAN_DECODE, LH_SPAN_NO_STEP, 0), line->trace->first_token_us,
                line->trace->last_token_us);
    expect_span(find_span(line, LH_SPAN_MANIFEST, 0, 0), begin, begin + 100);
    expect_span(find_span(line, LH_SPAN_FINISH, 0, 0), a, a + 2000);
    expect_span(find_span(line, LH_SPAN_FINISH, 1, 0),
                find_span(line, LH_SPAN_FINISH, 0, 0)->end_us, a + 4000);
    expect_span(find_span(line, LH_SPAN_EMIT, 0, 32), a + 1500, a + 2000);
    /* The first shard left at 1500 and took 700 and the way; the second was handed over at 2000 and
     * waited for the wire. */
    expect_span(find_span(line, LH_SPAN_SHARD, 0, 0), a + 1500, a + 3200);
    expect_span(find_span(line, LH_SPAN_SHARD, 0, 32), a + 3200, a + 3900);
    assert_in_range(find_span(line, LH_SPAN_SHARD, 0, 32)->left_us, a + 1998, a + 2002);
    assert_int_equal(find_span(line, LH_SPAN_SHARD, 2, 32)->bytes, 1008);
    assert_int_equal(line->steps[2].number, 3);
    assert_true(line->steps[2].is_prefill);
    assert_int_equal(line->steps[4].number, 2);
    assert_false(line->steps[4].is_prefill);
    lh_timeline_destroy(line);
}

/* What API.md says of nesting. */
static void expect_order(const lh_timeline *line) {
    for (size_t i = 0; i < line->span_count; i++) {
        const lh_span *span = &line->spans[i];
        assert_true(span->begin_us <= span->end_us);
        if (i == 0 || span[-1].track != span->track) {
            assert_true(i == 0 || span[-1].track < span->track);
            continue;
        }
        assert_true(span[-1].begin_us <= span->begin_us);
        if (line->tracks[span->track].kind == LH_TRACK_WIRE ||
            line->tracks[span->track].kind == LH_TRACK_TEAM)
            assert_true(span[-1].end_us <= span->begin_us);
    }
}

static void test_order(void **state) {
    (void)state;
    lh_timeline *line = timeline_of(traced_prompt(20, 30));
    expect_order(line);
    for (uint32_t step = 0; step < line->step_count; step++) {
        const lh_span *finish = find_span(line, LH_SPAN_FINISH, step, 0);
        const lh_span *emit = find_span(line, LH_SPAN_EMIT, step, 32);
        assert_true(finish->begin_us <= emit->begin_us && emit->end_us <= finish->end_us);
        for (uint32_t column = 0; column <= 32; column += 32) {
            const lh_span *shard = find_span(line, LH_SPAN_SHARD, step, column);
            assert_true(find_span(line, LH_SPAN_EMIT, step, column)->end_us <= shard->begin_us);
            assert_true(shard->end_us <= find_span(line, LH_SPAN_ACCEPT, step, column)->begin_us);
        }
    }
    lh_timeline_destroy(line);
}

static void test_figures(void **state) {
    (void)state;
    lh_figures f;
    lh_timeline *line = timeline_of(traced_prompt(4, 2));
    assert_int_equal(lh_figures_make(line, &f, NULL), LH_OK);
    assert_true(f.is_whole);
    assert_int_equal(f.chunk_count, 4);
    assert_int_equal(f.chunks[3], 8);
    assert_int_equal(f.track_count, 5);
    static const int64_t busy[] = {0, 8000, 5600, 12000, 0};
    for (uint32_t i = 0; i < 5; i++)
        assert_in_range(f.tracks[i].busy_us, busy[i] - (busy[i] > 0 ? 10 : 0), busy[i] + 10);
    assert_int_equal((int64_t)(f.tracks[3].busy_share * (double)f.prefill_us + 500) / 1000, 12);
    assert_int_equal(f.tracks[2].shard_count, 2);
    assert_int_equal(f.tracks[2].shard_ends[0], 32);
    assert_int_equal(f.tracks[2].shard_ends[1], 64);
    assert_int_equal(f.tracks[2].bytes, 4 * 2 * 1008);
    assert_in_range(f.around_us, TRACED_WAYS - 5, TRACED_WAYS + 5);
    assert_in_range(f.bound_us, 12000 + TRACED_WAYS - 15, 12000 + TRACED_WAYS + 15);
    assert_in_range(f.sum_us, 25600 + TRACED_WAYS - 30, 25600 + TRACED_WAYS + 30);
    assert_int_equal(f.compute_us + f.wire_us + f.wait_us, f.prefill_us);
    assert_int_equal(f.prefill_us, line->trace->first_token_us - TRACED_BEGIN - 100);
    assert_true(f.bound_us <= f.prefill_us && f.prefill_us <= f.sum_us);
    /* Nothing computes while the first and the last hop are crossed, and 10 before the first stage
     * begins. */
    assert_in_range(f.wire_us, 595, 605);
    assert_in_range(f.wait_us, 5, 15);
    assert_int_equal(f.decode_count, 2);
    assert_in_range(f.decode_bound_us, 500 + TRACED_WAYS - 5, 500 + TRACED_WAYS + 5);
    assert_true(f.decode_bound_us <= f.decode_us);
    lh_figures_reset(&f);
    lh_timeline_destroy(line);
}

/* Four chunks of which each was believed to take so long; the last `silent` ones are not known. */
static json_t *timing_of(double a_us, double b_us, uint32_t silent) {
    lh_figures f;
    lh_trace *trace = traced_prompt(4, 2);
    for (uint32_t i = 0; i + silent < 4; i++)
        traced_prompt_believe(trace, i, a_us, b_us);
    lh_timeline *line = timeline_of(trace);
    assert_int_equal(lh_figures_make(line, &f, NULL), LH_OK);
    json_t *timing = lh_figures_json(line, &f);
    assert_non_null(timing);
    lh_figures_reset(&f);
    lh_timeline_destroy(line);
    return timing;
}

static const json_t *believed_of(const json_t *timing, size_t stage) {
    return json_object_get(json_array_get(json_object_get(timing, "stages"), stage), "believed_ms");
}

/* Stage a takes 8 ms, b 12. */
static void test_a_stage_that_is_far_from_what_was_believed(void **state) {
    (void)state;
    static const struct {
        double b_us;
        const char *remark;
    } cases[] = {{1400, "b took 2.1 times what its meter says: other work on that machine?"},
                 {6000, "b took 0.5 times what its meter says: was there other work when it was "
                        "measured?"},
                 {2200, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *timing = timing_of(2000, cases[i].b_us, 0);
        const json_t *remarks = json_object_get(timing, "remarks");
        assert_int_equal(json_array_size(remarks), cases[i].remark ? 1 : 0);
        if (cases[i].remark)
            assert_string_equal(json_string_value(json_array_get(remarks, 0)), cases[i].remark);
        assert_true(json_number_value(believed_of(timing, 0)) == 8);
        assert_true(json_number_value(believed_of(timing, 1)) == 4 * cases[i].b_us / 1000);
        json_decref(timing);
    }
    json_t *timing = timing_of(2000, 100, 1);
    assert_int_equal(json_array_size(json_object_get(timing, "remarks")), 0);
    assert_true(json_is_null(believed_of(timing, 1)));
    json_decref(timing);
}

/* Twice what was believed, and all of it 4 ms. */
static void test_short_times_are_no_surprise(void **state) {
    (void)state;
    json_t *timing = timing_of(1000, 3000, 0);
    assert_int_equal(json_array_size(json_object_get(timing, "remarks")), 0);
    json_decref(timing);
}

static void test_what_has_not_happened_yet(void **state) {
    (void)state;
    lh_trace *trace = calloc(1, sizeof *trace);
    lh_figures f;
    trace->received_us = 77;
    lh_timeline *line = timeline_of(trace);
    assert_int_equal(lh_figures_make(line, &f, NULL), LH_OK);
    assert_false(f.is_whole);
    assert_int_equal(f.bound_us, 0);
    json_t *events = lh_timeline_json(line, &f);
    assert_non_null(events);
    json_decref(events);
    lh_figures_reset(&f);
    lh_timeline_destroy(line);
}

static void test_a_step_without_times(void **state) {
    (void)state;
    lh_figures f;
    lh_trace *trace = traced_prompt(3, 0);
    trace->entries[1].step->hop_count = 0;
    lh_timeline *line = timeline_of(trace);
    assert_int_equal(lh_figures_make(line, &f, NULL), LH_OK);
    assert_false(f.is_whole);
    assert_false(line->steps[1].is_timed);
    assert_in_range(f.tracks[1].busy_us, 3990, 4010);
    lh_figures_reset(&f);
    lh_timeline_destroy(line);
}

/* Its answer was cut behind the first worker, so that its last hop is none of the ring's. */
static void test_a_step_that_was_cut_says_nothing_of_the_ring(void **state) {
    (void)state;
    lh_trace *trace = traced_prompt(3, 2);
    trace->entries[0].step->hop_count = 2;
    lh_timeline *line = timeline_of(trace);
    assert_false(line->steps[0].is_timed);
    assert_true(line->steps[1].is_timed);
    assert_int_equal(line->track_count, 6);
    for (uint32_t i = 0; i < 6; i++) /* none from "a" home */
        assert_true(strcmp(line->tracks[i].from, "a") != 0 ||
                    line->tracks[i].kind != LH_TRACK_WIRE || strcmp(line->tracks[i].to, "b") == 0);
    assert_in_range(line->tracks[4].error_us, 500, 505);
    lh_timeline_destroy(line);
}

/* Whatever a worker tells, it is drawn in order or not at all, and summed without overflow. */
static void test_wild_times(void **state) {
    (void)state;
    uint32_t seed = 1;
    for (uint32_t round = 0; round < 300; round++) {
        lh_trace *trace = traced_prompt(4, 4);
        for (uint32_t e = 0; e < trace->entry_count; e++) {
            lh_step_times *times = calloc(1, sizeof *times);
            uint8_t frames[1024];
            size_t offset = 0, length = 0, one = 0;
            const lh_trace_step *step = trace->entries[e].step;
            while (lh_step_times_read(step->frames, step->frames_bytes, &offset, times, NULL) ==
                   LH_OK) {
                for (uint32_t i = 0; i < 6; i++) {
                    seed = seed * 1664525u + 1013904223u;
                    uint32_t at = (seed >> 8) % 10, value = seed * 2654435761u;
                    (&times->manifest_us)[at] = i % 2 ? value % 9000 : value;
                    times->taken[at % 2].came_us = value;
                    times->given[at % 2].handed_us = value / 3;
                    times->gather_count = i;
                    times->gathers[i] = (lh_step_gather){at, value / 5, value / 4, value, value};
                }
                if (round % 3 == 0)
                    times->base_us = (uint64_t)seed << (seed % 20);
                lh_step_times_encode(times, frames + length, sizeof frames - length, &one, NULL);
                length += one;
            }
            traced_prompt_retell(trace, e, frames, length);
            free(times);
        }
        lh_timeline *line = timeline_of(trace);
        lh_figures f;
        expect_order(line);
        assert_int_equal(lh_figures_make(line, &f, NULL), LH_OK);
        json_t *events = lh_timeline_json(line, &f);
        assert_non_null(events);
        json_decref(events);
        lh_figures_reset(&f);
        lh_timeline_destroy(line);
    }
}

/* Worker a computes with others: three gathers of its first chunk, of which the second begins
 * before the first is there, and is waited for. */
static void test_gathers(void **state) {
    (void)state;
    lh_trace *trace = traced_prompt(2, 1);
    const lh_trace_step *step = trace->entries[0].step;
    lh_step_times *times = calloc(2, sizeof *times);
    uint8_t frames[2048];
    size_t offset = 0, length = 0, one = 0;
    lh_figures f;
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(
            lh_step_times_read(step->frames, step->frames_bytes, &offset, &times[i], NULL), LH_OK);
    const uint32_t finish_us = times[0].finish_us;
    times[0].gather_count = 3;
    times[0].gathers[0] =
        (lh_step_gather){1000, finish_us + 100, finish_us + 400, finish_us + 450, 0};
    times[0].gathers[1] =
        (lh_step_gather){2000, finish_us + 300, finish_us + 900, finish_us + 750, 150};
    times[0].gathers[2] = (lh_step_gather){3000, finish_us + 1000, LH_STEP_TIMES_NEVER, 0, 0};
    for (uint32_t i = 0; i < 2; i++) {
        lh_step_times_encode(&times[i], frames + length, sizeof frames - length, &one, NULL);
        length += one;
    }
    traced_prompt_retell(trace, 0, frames, length);
    free(times);
    lh_timeline *line = timeline_of(trace);
    expect_order(line);
    const lh_span *finish = find_span(line, LH_SPAN_FINISH, 0, 0),
                  *await = find_span(line, LH_SPAN_AWAIT, 0, 0),
                  *gather = find_span(line, LH_SPAN_GATHER, 0, 0);
    expect_span(await, finish->begin_us + 750, finish->begin_us + 900);
    expect_span(gather, finish->begin_us + 100, finish->begin_us + 400);
    expect_span(gather + 1, finish->begin_us + 400, finish->begin_us + 900);
    assert_int_equal(line->tracks[gather->track].kind, LH_TRACK_TEAM);
    assert_int_equal(gather[1].bytes, 2000);
    assert_int_equal(lh_figures_make(line, &f, NULL), LH_OK);
    assert_int_equal(f.track_count, 5); /* the team's wires are none of the ring's */
    json_t *timing = lh_figures_json(line, &f);
    const json_t *a = json_array_get(json_object_get(timing, "stages"), 0),
                 *gathers = json_object_get(a, "gathers");
    assert_int_equal(
        (int)(json_number_value(json_object_get(gathers, "under_way_ms")) * 1000 + 0.5), 800);
    assert_int_equal((int)(json_number_value(json_object_get(gathers, "awaited_ms")) * 1000 + 0.5),
                     150);
    assert_int_equal(
        (int)(json_number_value(json_object_get(gathers, "hidden_share")) * 10000 + 0.5), 8125);
    json_decref(timing);
    lh_figures_reset(&f);
    lh_timeline_destroy(line);
}

static void test_json(void **state) {
    (void)state;
    lh_figures f;
    lh_timeline *line = timeline_of(traced_prompt(2, 1));
    assert_int_equal(lh_figures_make(line, &f, NULL), LH_OK);
    json_t *root = lh_timeline_json(line, &f);
    const json_t *other = json_object_get(root, "otherData"),
                 *timing = json_object_get(other, "timing");
    assert_string_equal(json_string_value(json_object_get(other, "id")), "cmpl-7");
    assert_true(json_is_true(json_object_get(other, "over")));
    assert_string_equal(json_string_value(json_object_get(timing, "plan")), "a plan");
    assert_int_equal((int)(json_number_value(json_object_get(timing, "predicted_ms")) * 1000 + 0.5),
                     12345);
    assert_int_equal(json_array_size(json_object_get(timing, "hops")), 3);
    assert_int_equal(json_object_size(json_object_get(other, "clock_error_ms")), 2);
    uint32_t named = 0, begun = 0, ended = 0;
    size_t i;
    json_t *event;
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        named += strcmp(phase, "M") == 0;
        begun += strcmp(phase, "b") == 0;
        if (strcmp(phase, "b") == 0 && begun == 2) { /* its results were the first token */
            const json_t *results = json_object_get(json_object_get(event, "args"), "results_ts");
            assert_int_equal(json_integer_value(results),
                             line->trace->first_token_us - line->trace->received_us);
        }
        ended += strcmp(phase, "e") == 0;
        assert_true(json_is_integer(json_object_get(event, "pid")) &&
                    json_is_integer(json_object_get(event, "tid")));
    }
    assert_int_equal(named, 6 * 2 + 3 * 2);
    assert_int_equal(begun, 3);
    assert_int_equal(ended, 3);
    json_decref(root);
    lh_figures_reset(&f);
    lh_timeline_destroy(line);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tracks),
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_a_stage_that_is_far_from_what_was_believed),
        cmocka_unit_test(test_short_times_are_no_surprise),
        cmocka_unit_test(test_what_has_not_happened_yet),
        cmocka_unit_test(test_a_step_without_times),
        cmocka_unit_test(test_a_step_that_was_cut_says_nothing_of_the_ring),
        cmocka_unit_test(test_wild_times),
        cmocka_unit_test(test_gathers),
        cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
