/* The planner: what it picks, against closed forms and brute force; that it does not flap; that
 * nothing upsets it. */
#include "gateway/cost/overlap_plan.h"

#include "common/base/log.h"
#include "gateway/cost/overlap_search.h"
#include "tests/support/log_capture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define WIDTH     576u
#define ROWS_MAX  512u
#define DEPTH_MAX 64u

static const lh_overlap_spec by_itself = {.mode = LH_OVERLAP_AUTO};
static lh_cost_work work;

/* splitmix64 */
static uint64_t random_state;
static double random_between(double low, double high) {
    uint64_t x = random_state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return low + (high - low) * (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0;
}

/* Stages of stage_us, wires of wire_us for 512 rows, with chunk_us for each chunk on top. */
static lh_cost_chain chain_of(uint32_t stages, double stage_us, double wire_us, double chunk_us,
                              double delay_us) {
    lh_cost_chain chain = {.stage_count = stages, .width = WIDTH};
    for (uint32_t s = 0; s < stages; s++)
        chain.stages[s] = (lh_compute_profile){.point_count = 2,
                                               .points = {{1, stage_us / 512}, {512, stage_us}},
                                               .take_share = 0.03,
                                               .give_share = 0.02,
                                               .shard_us = 20,
                                               .step_us = chunk_us};
    for (uint32_t h = 0; h <= stages; h++)
        chain.hops[h] = (lh_cost_hop){.bytes_per_us = 1,
                                      .delay_us = delay_us,
                                      .row_bytes = h > 0 && h < stages ? wire_us / 512 : 0};
    return chain;
}

static lh_overlap_planner *planner_of(const lh_cost_chain *chain) {
    lh_overlap_planner *planner;
    lh_log_set_level(LH_LOG_ERROR);
    assert_int_equal(lh_overlap_planner_create(ROWS_MAX, DEPTH_MAX, &planner, NULL), LH_OK);
    lh_overlap_planner_update(planner, chain);
    return planner;
}

static lh_overlap_plan plan_once(const lh_cost_chain *chain, uint32_t rows) {
    lh_overlap_planner *planner = planner_of(chain);
    lh_overlap_plan plan;
    lh_overlap_planner_plan(planner, &by_itself, 0, rows, false, &plan);
    lh_overlap_planner_destroy(planner);
    return plan;
}

static void assert_sound(const lh_overlap_plan *plan, uint32_t rows, uint32_t rows_max) {
    uint32_t sum = 0;
    assert_in_range(plan->chunk_count, 1, LH_COST_CHUNKS_MAX);
    for (uint32_t i = 0; i < plan->chunk_count; i++) {
        assert_in_range(plan->chunks[i], 1, rows_max);
        sum += plan->chunks[i];
    }
    assert_int_equal(sum, rows);
    assert_in_range(plan->depth, 1, DEPTH_MAX);
}

static double efficiency(const lh_overlap_plan *plan) {
    return (plan->off_us - plan->predicted_us) / (plan->off_us - plan->bound_us);
}

static uint32_t count_of(const char *text, const char *what) {
    uint32_t count = 0;
    for (; (text = strstr(text, what)); text++)
        count++;
    return count;
}

/* The same prompt twice, the second time over wires of 0.3 s instead of 3 s. */
static char *log_of_two_cuts(lh_log_level level) {
    lh_cost_chain slow = chain_of(2, 500e3, 3e6, 300, 1000),
                  fast = chain_of(2, 500e3, 300e3, 300, 1000);
    lh_overlap_planner *planner = planner_of(&slow);
    lh_overlap_plan plan;
    log_capture_begin();
    lh_log_set_level(level);
    lh_overlap_planner_plan(planner, &by_itself, 0, 512, false, &plan);
    lh_overlap_planner_update(planner, &fast);
    lh_overlap_planner_plan(planner, &by_itself, 0, 512, false, &plan);
    lh_log_set_level(LH_LOG_ERROR);
    lh_overlap_planner_destroy(planner);
    return log_capture_end();
}

static void another_cut_is_no_news(void **state) {
    (void)state;
    char *all = log_of_two_cuts(LH_LOG_DEBUG), *news = log_of_two_cuts(LH_LOG_INFO);
    assert_int_equal(count_of(all, "first cut"), 1);
    assert_int_equal(count_of(all, "another cut"), 1);
    assert_int_equal(count_of(news, "first cut"), 1);
    assert_int_equal(count_of(news, "another cut"), 0);
    free(all);
    free(news);
}

/* With 0.3 ms for each chunk: what a perfect implementation could reach. The stages' own sum is a
 * second. */
static void the_ideal_pipe_reaches_its_figures(void **state) {
    (void)state;
    for (uint32_t stages = 2; stages <= 4; stages++)
        for (double wire_us = 20e3; wire_us <= 5e6; wire_us *= 3)
            for (double delay_us = 500; delay_us <= 40e3; delay_us *= 9) {
                lh_cost_chain chain = chain_of(stages, 1e6 / stages, wire_us, 300, delay_us);
                lh_overlap_plan long_one = plan_once(&chain, 512),
                                short_one = plan_once(&chain, 128);
                assert_sound(&long_one, 512, ROWS_MAX);
                assert_sound(&short_one, 128, ROWS_MAX);
                if (long_one.off_us > 1.2 * long_one.bound_us)
                    assert_true(efficiency(&long_one) >= 0.95);
                if (short_one.off_us > 1.2 * short_one.bound_us)
                    assert_true(efficiency(&short_one) >= 0.89);
            }
}

/* The stage in the middle is the slow one: chunks before and after it only fill and drain the pipe.
 */
static lh_cost_chain bottleneck(void) {
    lh_cost_chain chain = chain_of(3, 300e3, 300e3, 300, 1000);
    for (uint32_t i = 0; i < 2; i++)
        chain.stages[1].points[i].us *= 3;
    return chain;
}

/* First small to fill, last small to drain: the best equal chunks lose. */
static void ramps_win_where_chunks_cost(void **state) {
    (void)state;
    lh_cost_chain chain = bottleneck();
    lh_overlap_plan plan = plan_once(&chain, 512);
    double equal_us = INFINITY;
    for (uint32_t n = 1; n <= 128; n++) {
        uint32_t rows[128];
        for (uint32_t i = 0; i < n; i++)
            rows[i] = 512 * (i + 1) / n - 512 * i / n;
        equal_us =
            fmin(equal_us,
                 lh_cost_predict_us(&chain, &(lh_cost_schedule){.count = n, .rows = rows}, &work));
    }
    assert_true(plan.predicted_us < 0.995 * equal_us);
    assert_true(plan.chunks[0] < plan.chunks[plan.chunk_count / 2]);
    assert_true(plan.chunks[plan.chunk_count - 1] < plan.chunks[plan.chunk_count / 2]);
}

/* Whatever its times are taken for: no other stage could be busy meanwhile. */
static void one_stage_gets_its_prompt_whole(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(1, 1e6, 0, 300, 1000);
    chain.stages[0].point_count = 2;
    chain.stages[0].points[0] = (lh_compute_point){.rows = 1, .us = 34e3};
    chain.stages[0].points[1] = (lh_compute_point){.rows = 52, .us = 4263685};
    lh_overlap_plan plan = plan_once(&chain, 39);
    assert_int_equal(plan.chunk_count, 1);
    assert_true(plan.predicted_us >= plan.bound_us * 0.999999999);
    plan = plan_once(&chain, 3 * ROWS_MAX);
    assert_int_equal(plan.chunk_count, 3);
    assert_false(plan.is_serial);
    chain.stages[0].point_count = 0; /* not measured */
    plan = plan_once(&chain, 400);
    assert_int_equal(plan.chunk_count, 1);
}

static void nothing_is_cut_where_that_is_faster(void **state) {
    (void)state;
    /* one stage: no one to share the work with */
    lh_cost_chain alone = chain_of(1, 1e6, 0, 300, 20e3),
                  dear = chain_of(3, 3000, 3000, 50e3, 20e3);
    lh_overlap_plan plan = plan_once(&alone, 400);
    assert_int_equal(plan.chunk_count, 1);
    for (uint32_t i = 0; i < 3; i++)
        dear.stages[i].shard_us = 500;
    plan = plan_once(&dear, 512);
    assert_int_equal(plan.chunk_count, 1);
    assert_int_equal(plan.cuts[0], 0);
    /* far away, and nearly nothing to do */
    lh_cost_chain far = chain_of(2, 2000, 100, 3000, 100e3);
    plan = plan_once(&far, 512);
    assert_int_equal(plan.chunk_count, 1);
}

static void a_prompt_over_rows_max_goes_in_steps(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(1, 1e6, 0, 300, 20e3);
    lh_overlap_plan plan = plan_once(&chain, 2048);
    assert_sound(&plan, 2048, ROWS_MAX);
    assert_int_equal(plan.chunk_count, 4);
    /* far more than the plan can list */
    plan = plan_once(&chain, 1u << 20);
    for (uint32_t at = 0; at < 1u << 20;) {
        uint32_t rows = lh_overlap_plan_rows_at(&plan, at, ROWS_MAX);
        assert_in_range(rows, 1, ROWS_MAX);
        at += rows;
    }
}

/* Every list of chunks of a short prompt. */
static double brute_force(const lh_cost_chain *chain, uint32_t rows) {
    double best_us = INFINITY;
    for (uint32_t cuts = 0; cuts < 1u << (rows - 1); cuts++) {
        uint32_t chunks[16], count = 0, length = 1;
        for (uint32_t i = 0; i + 1 < rows; i++, length++)
            if (cuts >> i & 1) {
                chunks[count++] = length;
                length = 0;
            }
        chunks[count++] = length;
        best_us = fmin(
            best_us,
            lh_cost_predict_us(chain, &(lh_cost_schedule){.count = count, .rows = chunks}, &work));
    }
    return best_us;
}

static lh_cost_chain random_chain(void) {
    lh_cost_chain chain = chain_of(1 + (uint32_t)random_between(0, 4), 1, 1, random_between(0, 500),
                                   random_between(0, 50e3));
    for (uint32_t s = 0; s < chain.stage_count; s++) {
        lh_compute_profile *p = &chain.stages[s];
        double row_us = exp(random_between(3, 8));
        p->points[0].us = row_us * random_between(1, 5);
        p->points[1].us = 512 * row_us;
        p->us_per_row_position = random_between(0, row_us / 2000);
        chain.hops[s].bytes_per_us = exp(random_between(-2, 5));
        chain.hops[s].row_bytes = s > 0 ? WIDTH * 4 : 0;
        chain.hops[s].ready_bytes = random_between(0, 1) < 0.3 ? random_between(1e4, 1e6) : 0;
    }
    assert_int_equal(lh_cost_chain_check(&chain, NULL), LH_OK);
    return chain;
}

static void random_chains_are_cut_nearly_as_well_as_can_be(void **state) {
    (void)state;
    random_state = 4;
    double worst = 1;
    for (int i = 0; i < 60; i++) {
        lh_cost_chain chain = random_chain();
        lh_overlap_plan plan = plan_once(&chain, 10);
        assert_sound(&plan, 10, ROWS_MAX);
        double ratio = plan.predicted_us / brute_force(&chain, 10);
        worst = ratio > worst ? ratio : worst;
    }
    if (worst > 1.15)
        fail_msg("a plan takes %.3f times as long as the best one", worst);
}

static void a_plan_is_never_predicted_to_be_slower_than_off(void **state) {
    (void)state;
    random_state = 77;
    for (int i = 0; i < 300; i++) {
        lh_cost_chain chain = random_chain();
        uint32_t rows = 1 + (uint32_t)random_between(0, i % 10 ? 600 : 5000);
        for (uint32_t h = 0; h <= chain.stage_count; h++)
            chain.hops[h].ready_bytes = 0; /* off_us is of warm connections */
        lh_overlap_plan plan = plan_once(&chain, rows);
        assert_sound(&plan, rows, ROWS_MAX);
        assert_true(plan.predicted_us <= plan.off_us * 1.000001);
        assert_true(plan.predicted_us >= plan.bound_us * 0.999999999);
    }
}

/* Fewer chunks under way than that would leave the busiest part idle; as many do. */
static void the_depth_is_what_the_ring_holds(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(3, 300e3, 100, 300, 40e3);
    lh_overlap_plan plan = plan_once(&chain, 512);
    uint32_t rows[LH_COST_CHUNKS_MAX];
    for (uint32_t i = 0; i < plan.chunk_count; i++)
        rows[i] = plan.chunks[i];
    lh_cost_schedule schedule = {.count = plan.chunk_count, .rows = rows};
    double all_us = lh_cost_predict_us(&chain, &schedule, &work);
    schedule.depth = plan.depth;
    assert_true(lh_cost_predict_us(&chain, &schedule, &work) <= all_us * 1.0011);
    schedule.depth = plan.depth / 2;
    assert_true(lh_cost_predict_us(&chain, &schedule, &work) > all_us * 1.002);
    lh_cost_chain near = chain_of(2, 300e3, 300e3, 300, 10);
    assert_true(plan_once(&near, 2048).depth <= 12);
}

static bool is_same_cut(const lh_overlap_plan *a, const lh_overlap_plan *b) {
    return a->chunk_count == b->chunk_count &&
           memcmp(a->chunks, b->chunks, a->chunk_count * sizeof *a->chunks) == 0 &&
           memcmp(a->cuts, b->cuts, sizeof a->cuts) == 0;
}

static lh_cost_chain with_noise(const lh_cost_chain *chain, double noise) {
    lh_cost_chain noisy = *chain;
    for (uint32_t s = 0; s < chain->stage_count; s++) {
        noisy.hops[s].bytes_per_us *= random_between(1 - noise, 1 + noise);
        noisy.hops[s].delay_us *= random_between(1 - noise, 1 + noise);
        double factor = random_between(1 - noise, 1 + noise);
        noisy.stages[s].points[0].us *= factor;
        noisy.stages[s].points[1].us *= factor;
    }
    return noisy;
}

static void noise_does_not_change_the_cut(void **state) {
    (void)state;
    for (double wire_us = 30e3; wire_us <= 3e6; wire_us *= 10) {
        lh_cost_chain chain = chain_of(3, 300e3, wire_us, 300, 10e3);
        lh_overlap_planner *planner = planner_of(&chain);
        lh_overlap_plan before, now;
        uint32_t changes = 0, revision = lh_overlap_planner_revision(planner);
        random_state = 9;
        lh_overlap_planner_plan(planner, &by_itself, 0, 512, false, &before);
        for (int i = 0; i < 200; i++) {
            lh_cost_chain noisy = with_noise(&chain, 0.15);
            lh_overlap_planner_update(planner, &noisy);
            lh_overlap_planner_plan(planner, &by_itself, 0, 512, false, &now);
            changes += !is_same_cut(&before, &now);
            before = now;
        }
        assert_in_range(changes, 0, 2);
        assert_int_equal(lh_overlap_planner_revision(planner), revision);
        lh_overlap_planner_destroy(planner);
    }
}

/* Prompts until the cut is another one, at most `most`, when chunks have become dearer. */
static uint32_t prompts_until_another_cut(double chunk_us, uint32_t most, double *saving) {
    lh_cost_chain chain = chain_of(2, 300e3, 30e3, 300, 10e3),
                  dearer = chain_of(2, 300e3, 30e3, chunk_us, 10e3);
    lh_overlap_planner *planner = planner_of(&chain);
    lh_overlap_plan first, now, best = plan_once(&dearer, 512);
    lh_overlap_planner_plan(planner, &by_itself, 0, 512, false, &first);
    lh_overlap_planner_update(planner, &dearer);
    uint32_t prompts = 0;
    do {
        lh_overlap_planner_plan(planner, &by_itself, 0, 512, false, &now);
        if (prompts == 0 && is_same_cut(&first, &now))
            *saving = 1 - best.predicted_us / now.predicted_us;
    } while (++prompts < most && is_same_cut(&first, &now));
    lh_overlap_planner_destroy(planner);
    return prompts;
}

/* What is a little better is taken after some prompts, the sooner the better it is. */
static void what_is_missed_adds_up(void **state) {
    (void)state;
    uint32_t taken_later = 0;
    for (double chunk_us = 300; chunk_us < 5000; chunk_us *= 1.1) {
        double saving = 0; /* where the cut has changed at once */
        uint32_t prompts = prompts_until_another_cut(chunk_us, 40, &saving);
        if (saving < 0.004)
            assert_true(prompts == 1 || prompts == 40);
        if (saving > 0.025)
            assert_in_range(prompts, 2, 6);
        taken_later += prompts > 1 && prompts < 40;
    }
    assert_true(taken_later > 0);
}

static void a_rate_that_drops_changes_the_cut_once(void **state) {
    (void)state;
    /* chunks are dear: few of them, until the wire is what counts */
    lh_cost_chain chain = chain_of(3, 300e3, 300e3, 10e3, 10e3), slow = chain;
    slow.hops[1].bytes_per_us = slow.hops[2].bytes_per_us = 0.1;
    lh_overlap_planner *planner = planner_of(&chain);
    lh_overlap_plan before, now;
    uint32_t changes = 0, revision = lh_overlap_planner_revision(planner);
    random_state = 10;
    lh_overlap_planner_plan(planner, &by_itself, 0, 512, false, &before);
    for (int i = 0; i < 100; i++) {
        lh_cost_chain noisy = with_noise(i < 50 ? &chain : &slow, 0.1);
        lh_overlap_planner_update(planner, &noisy);
        lh_overlap_planner_plan(planner, &by_itself, 0, 512, false, &now);
        changes += !is_same_cut(&before, &now);
        before = now;
    }
    assert_in_range(changes, 1, 3);
    assert_int_equal(lh_overlap_planner_revision(planner), revision + 1);
    lh_overlap_plan fresh = plan_once(&slow, 512);
    lh_overlap_planner_update(planner, &slow);
    lh_overlap_planner_plan(planner, &by_itself, 0, 512, false, &now);
    assert_true(now.predicted_us <= 1.03 * fresh.predicted_us);
    lh_overlap_planner_destroy(planner);
}

/* So many prompts of these rows had the chain for themselves and took `times` what was predicted;
 * the plan of the next one. */
static lh_overlap_plan after_prompts(lh_overlap_planner *planner, uint32_t rows, double times,
                                     int count) {
    lh_overlap_plan plan;
    for (int i = 0; i < count; i++) {
        lh_overlap_planner_plan(planner, &by_itself, 0, rows, false, &plan);
        lh_overlap_planner_note(planner, &plan, times * plan.predicted_us);
    }
    lh_overlap_planner_plan(planner, &by_itself, 0, rows, false, &plan);
    return plan;
}

static void what_did_worse_than_off_is_not_chosen_again(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(2, 300e3, 300e3, 300, 10e3), slow = chain;
    lh_overlap_planner *planner = planner_of(&chain);
    lh_overlap_plan plan = after_prompts(planner, 512, 1, 1);
    double times = 1.2 * plan.off_us / plan.predicted_us;
    assert_true(times > 1.5);
    assert_false(after_prompts(planner, 512, times, 1).is_serial); /* one may be chance */
    plan = after_prompts(planner, 512, times, 1);
    assert_true(plan.is_serial && plan.is_chosen && plan.cut_count == 1 && plan.cuts[0] == 0);
    assert_int_equal(plan.chunk_count, 1);
    assert_true(plan.predicted_us == plan.off_us);
    /* it stays so, also when the costs swing a little, for prompts that are about as long */
    random_state = 11;
    for (int i = 0; i < 20; i++) {
        lh_cost_chain noisy = with_noise(&chain, 0.1);
        lh_overlap_planner_update(planner, &noisy);
        assert_true(after_prompts(planner, 520 + 8 * (uint32_t)i, 1, 1).is_serial);
    }
    assert_false(after_prompts(planner, 128, 1, 1).is_serial);
    lh_overlap_planner_plan(planner, &by_itself, 0, 512, true, &plan);
    assert_false(plan.is_serial); /* the pipe is full of others' chunks */
    lh_overlap_planner_show(planner, 512, &plan);
    assert_true(plan.is_serial);
    /* another chain */
    slow.hops[1].bytes_per_us /= 2;
    lh_overlap_planner_update(planner, &slow);
    assert_false(after_prompts(planner, 512, 1, 0).is_serial);
    lh_overlap_planner_destroy(planner);
}

static void off_that_does_worse_still_is_given_up_again(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(2, 300e3, 300e3, 300, 10e3);
    lh_overlap_planner *planner = planner_of(&chain);
    lh_overlap_plan plan = after_prompts(planner, 512, 1, 0);
    double times = 1.2 * plan.off_us / plan.predicted_us;
    assert_true(after_prompts(planner, 512, times, 2).is_serial);
    assert_true(after_prompts(planner, 512, 1.3, 1).is_serial);
    assert_false(after_prompts(planner, 512, 1.3, 1).is_serial);
    assert_false(after_prompts(planner, 512, times, 5).is_serial);
    lh_overlap_planner_destroy(planner);
}

static void only_what_can_be_compared_counts(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(2, 300e3, 300e3, 300, 10e3), other = chain;
    lh_overlap_planner *planner = planner_of(&chain);
    lh_overlap_plan before = after_prompts(planner, 512, 1, 0), by_hand;
    lh_overlap_planner_plan(planner, &(lh_overlap_spec){LH_OVERLAP_MANUAL, 48, 3}, 0, 512, false,
                            &by_hand);
    other.stages[0].points[1].us *= 2;
    lh_overlap_planner_update(planner, &other);
    for (int i = 0; i < 5; i++) {
        lh_overlap_planner_note(planner, &before, 100 * before.predicted_us);
        by_hand.revision = lh_overlap_planner_revision(planner);
        lh_overlap_planner_note(planner, &by_hand, 100 * before.predicted_us);
    }
    assert_false(after_prompts(planner, 512, 1, 0).is_serial);
    lh_overlap_planner_destroy(planner);
}

static void what_is_far_from_the_prediction_is_said(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(2, 300e3, 300e3, 300, 10e3);
    lh_overlap_planner *planner = planner_of(&chain);
    log_capture_begin();
    lh_log_set_level(LH_LOG_WARN);
    after_prompts(planner, 512, 1.5, 16);
    after_prompts(planner, 512, 3, 8);
    lh_log_set_level(LH_LOG_ERROR);
    char *log = log_capture_end();
    assert_int_equal(count_of(log, "what was measured is far from what was predicted"), 1);
    assert_non_null(strstr(log, "prompts=8 measured_ms="));
    assert_non_null(strstr(log, " times=3.00\n"));
    free(log);
    lh_overlap_planner_destroy(planner);
}

/* From an empty chain on, as this plan goes on from a position. */
static double rest_us(const lh_cost_chain *chain, const lh_overlap_plan *plan, uint32_t position,
                      uint32_t rows) {
    uint32_t chunks[LH_COST_CHUNKS_MAX], count = 0;
    lh_step_cut cuts[LH_COST_STAGES_MAX];
    for (uint32_t done = 0; done < rows; done += chunks[count++]) {
        chunks[count] = lh_overlap_plan_rows_at(plan, position + done, ROWS_MAX);
        chunks[count] = chunks[count] < rows - done ? chunks[count] : rows - done;
    }
    for (uint32_t h = 0; h < plan->cut_count; h++)
        cuts[h] = lh_overlap_cut(plan->cuts[h], WIDTH);
    const lh_cost_schedule schedule = {position, count, chunks, cuts, plan->depth};
    return lh_cost_predict_us(chain, &schedule, &work);
}

/* The costs change in the middle of a prompt: what is left of it is cut anew only for a saving that
 * is no error of the prediction. */
static void what_is_left_is_cut_anew_only_where_that_is_clearly_faster(void **state) {
    (void)state;
    uint32_t kept = 0, replaced = 0;
    random_state = 12;
    for (int i = 0; i < 200; i++) {
        lh_cost_chain before = chain_of(2 + (uint32_t)i % 3, random_between(100e3, 1e6),
                                        random_between(30e3, 3e6), random_between(100, 9e3), 10e3);
        lh_cost_chain now = before;
        double factor = random_between(1.6, 20);
        now.stages[1].points[i % 2].us *= factor;
        now.stages[1].points[1].us = fmax(now.stages[1].points[0].us,
                                          now.stages[1].points[1].us * (i % 5 == 0 ? factor : 1));
        lh_overlap_planner *planner = planner_of(&before);
        lh_overlap_plan standing, plan;
        lh_overlap_planner_plan(planner, &by_itself, 0, 700, false, &standing);
        uint32_t position = standing.chunks[0], rows = 700 - position;
        lh_overlap_planner_update(planner, &now);
        plan = standing;
        lh_overlap_planner_renew(planner, &by_itself, position, rows, true, &plan);
        assert_int_equal(plan.revision, lh_overlap_planner_revision(planner));
        bool is_kept = plan.position == standing.position;
        if (is_kept)
            assert_true(is_same_cut(&plan, &standing));
        else
            assert_true(rest_us(&now, &plan, position, rows) <=
                        0.951 * rest_us(&now, &standing, position, rows));
        kept += is_kept;
        replaced += !is_kept;
        lh_overlap_planner_destroy(planner);
    }
    print_message("kept %u, replaced %u\n", kept, replaced);
    assert_true(kept > 20 && replaced > 20);
}

static void without_measurements_the_default_serves(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(3, 300e3, 300e3, 300, 10e3);
    chain.stages[1].point_count = 0;
    lh_overlap_planner *planner = planner_of(&chain);
    lh_overlap_plan plan;
    assert_non_null(strstr(lh_overlap_planner_lacks(planner), "stage 1"));
    lh_overlap_planner_plan(planner, &by_itself, 0, 200, false, &plan);
    assert_sound(&plan, 200, 72);
    assert_int_equal(plan.depth, 8);
    assert_true(plan.predicted_us == 0 && plan.cuts[0] == 0);
    chain.stages[1] = chain.stages[0];
    chain.hops[1].bytes_per_us = NAN;
    lh_overlap_planner_update(planner, &chain);
    lh_overlap_planner_plan(planner, &by_itself, 0, 200, false, &plan);
    assert_sound(&plan, 200, 72);
    chain.hops[1].bytes_per_us = 1;
    lh_overlap_planner_update(planner, &chain);
    assert_null(lh_overlap_planner_lacks(planner));
    lh_overlap_planner_plan(planner, &by_itself, 0, 200, false, &plan);
    assert_true(plan.predicted_us > 0);
    lh_overlap_planner_destroy(planner);
}

static void a_spec_is_followed(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(3, 300e3, 300e3, 300, 10e3);
    lh_overlap_planner *planner = planner_of(&chain);
    lh_overlap_plan plan;
    lh_overlap_planner_plan(planner, &(lh_overlap_spec){LH_OVERLAP_MANUAL, 48, 3}, 10, 100, false,
                            &plan);
    assert_int_equal(plan.chunk_count, 3);
    assert_int_equal(lh_overlap_plan_rows_at(&plan, 10, ROWS_MAX), 48);
    assert_int_equal(lh_overlap_plan_rows_at(&plan, 58, ROWS_MAX), 48);
    assert_int_equal(lh_overlap_plan_rows_at(&plan, 106, ROWS_MAX), 4);
    assert_int_equal(lh_overlap_cut(plan.cuts[1], WIDTH).count, 3);
    lh_overlap_planner_plan(planner, &(lh_overlap_spec){.mode = LH_OVERLAP_OFF}, 0, 700, false,
                            &plan);
    assert_true(plan.is_serial && plan.predicted_us == plan.off_us);
    assert_int_equal(lh_overlap_plan_rows_at(&plan, 0, ROWS_MAX), ROWS_MAX);
    assert_int_equal(plan.cuts[0], 0);
    lh_overlap_planner_plan(planner, &(lh_overlap_spec){LH_OVERLAP_MANUAL, 8192, 1}, 0, 700, false,
                            &plan);
    assert_int_equal(lh_overlap_plan_rows_at(&plan, 0, ROWS_MAX), ROWS_MAX);
    lh_overlap_planner_destroy(planner);
}

static void a_prompt_that_follows_others_needs_no_ramp(void **state) {
    (void)state;
    lh_cost_chain chain = bottleneck();
    lh_overlap_planner *planner = planner_of(&chain);
    lh_overlap_plan plan;
    lh_overlap_planner_plan(planner, &by_itself, 0, 512, false, &plan);
    uint32_t first = plan.chunks[0];
    lh_overlap_planner_plan(planner, &by_itself, 0, 512, true, &plan);
    assert_sound(&plan, 512, ROWS_MAX);
    assert_true(plan.chunks[0] > first);
    lh_overlap_planner_destroy(planner);
}

static void cuts_are_whole_blocks(void **state) {
    (void)state;
    for (uint32_t width = 1; width <= 5000; width += 37)
        for (unsigned code = 0; code < 128; code++) {
            lh_step_cut cut = lh_overlap_cut((uint8_t)code, width);
            assert_in_range(cut.count, 1, LH_STEP_COLUMN_SHARDS_MAX);
            for (uint32_t i = 0, before = 0; i < cut.count; before = cut.ends[i++]) {
                assert_true(cut.ends[i] > before);
                assert_true(i + 1 == cut.count ? cut.ends[i] == width : cut.ends[i] % 32 == 0);
            }
        }
    lh_step_cut cut = lh_overlap_cut(3 | LH_OVERLAP_CUT_FIRST, 160);
    assert_int_equal(cut.count, 3);
    assert_int_equal(cut.ends[0], 32);
    assert_int_equal(cut.ends[1], 96);
}

static void plans_can_be_read(void **state) {
    (void)state;
    char text[80], tiny[6];
    lh_overlap_plan plan = {.chunk_count = 5,
                            .chunks = {8, 16, 64, 64, 7},
                            .cut_count = 3,
                            .cuts = {4 | LH_OVERLAP_CUT_FIRST, 0, 2}};
    assert_string_equal(lh_overlap_plan_text(&plan, text, sizeof text), "8+16+2x64+7 c4<,-,2");
    assert_int_equal(strlen(lh_overlap_plan_text(&plan, tiny, sizeof tiny)), 5);
    memset(plan.cuts, 0, sizeof plan.cuts);
    assert_string_equal(lh_overlap_plan_text(&plan, text, sizeof text), "8+16+2x64+7");
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* The work is bounded by a count, whatever the chain; the time is printed, since sanitizers have
 * their own. */
static void a_search_is_short(void **state) {
    (void)state;
    static lh_overlap_search search;
    for (uint32_t stages = 2; stages <= 64; stages *= 2)
        for (uint32_t rows = 128; rows <= 8192; rows *= 4) {
            lh_cost_chain chain = chain_of(stages, 300e3, 300e3, 300, 1000);
            memset(&search, 0, sizeof search);
            search.chain = &chain;
            search.rows = rows;
            search.rows_max = ROWS_MAX;
            search.depth_max = DEPTH_MAX;
            double start_us = now_us();
            assert_true(lh_overlap_search_run(&search));
            double took_us = now_us() - start_us;
            print_message("%u stages, %u rows: predictions of %u steps, %.0f us\n", stages, rows,
                          search.predicted_steps, took_us);
            assert_true(search.predicted_steps < 40000 + LH_COST_CHUNKS_MAX * stages);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_cut_is_no_news),
        cmocka_unit_test(the_ideal_pipe_reaches_its_figures),
        cmocka_unit_test(ramps_win_where_chunks_cost),
        cmocka_unit_test(one_stage_gets_its_prompt_whole),
        cmocka_unit_test(nothing_is_cut_where_that_is_faster),
        cmocka_unit_test(a_prompt_over_rows_max_goes_in_steps),
        cmocka_unit_test(random_chains_are_cut_nearly_as_well_as_can_be),
        cmocka_unit_test(a_plan_is_never_predicted_to_be_slower_than_off),
        cmocka_unit_test(the_depth_is_what_the_ring_holds),
        cmocka_unit_test(noise_does_not_change_the_cut),
        cmocka_unit_test(what_is_missed_adds_up),
        cmocka_unit_test(a_rate_that_drops_changes_the_cut_once),
        cmocka_unit_test(what_did_worse_than_off_is_not_chosen_again),
        cmocka_unit_test(off_that_does_worse_still_is_given_up_again),
        cmocka_unit_test(only_what_can_be_compared_counts),
        cmocka_unit_test(what_is_far_from_the_prediction_is_said),
        cmocka_unit_test(what_is_left_is_cut_anew_only_where_that_is_clearly_faster),
        cmocka_unit_test(without_measurements_the_default_serves),
        cmocka_unit_test(a_spec_is_followed),
        cmocka_unit_test(a_prompt_that_follows_others_needs_no_ramp),
        cmocka_unit_test(cuts_are_whole_blocks),
        cmocka_unit_test(plans_can_be_read),
        cmocka_unit_test(a_search_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
