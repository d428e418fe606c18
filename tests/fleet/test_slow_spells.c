/* Machines that are slow for minutes, by 2 to 50 times, and then are not: three steps later, of
 * whatever kind, prompts are cut as if nothing had been. */
#include "common/base/log.h"
#include "tests/fleet/support/metered_chain.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define HISTORIES 300u
#define PROMPTS   6u /* that are planned after each */

#define SPELL_US       240e6 /* four minutes; or until so many steps: */
#define SPELL_STEPS    300u
#define WORSE_THAN_OFF 0.10
/* Points keep their proportions but for this factor, and for what the meter learns of each point of
 * a quiet machine. */
#define APART 2.3

typedef struct history {
    metered_chain chain;
    lh_overlap_planner *planner;
    uint32_t seed, steps;
} history;

static const lh_overlap_spec by_itself = {.mode = LH_OVERLAP_AUTO};

static uint32_t pick(uint32_t low, uint32_t high) {
    return low + (uint32_t)metered_between(0, high - low + 1 - 1e-9);
}

static void look(history *h) {
    lh_cost_chain believed = metered_chain_believed(&h->chain);
    lh_overlap_planner_update(h->planner, &believed);
}

static void decode(history *h, uint32_t position, uint32_t tokens) {
    for (uint32_t i = 0; i < tokens; i++, h->steps++)
        metered_chain_step(&h->chain, position + i, 1, true);
    look(h);
}

/* A prompt as it is planned, and what is left of it as it is planned anew; others' tokens come in
 * between, or do not. */
static void serve(history *h, uint32_t rows, bool others_decode) {
    lh_overlap_plan plan;
    look(h);
    lh_overlap_planner_plan(h->planner, &by_itself, 0, rows, false, &plan);
    for (uint32_t position = 0; position < rows; h->steps++) {
        if (plan.revision != lh_overlap_planner_revision(h->planner))
            lh_overlap_planner_renew(h->planner, &by_itself, position, rows - position, true,
                                     &plan);
        uint32_t chunk = lh_overlap_plan_rows_at(&plan, position, METERED_ROWS_MAX);
        chunk = chunk < rows - position ? chunk : rows - position;
        metered_chain_step(&h->chain, position, chunk, position + chunk == rows);
        position += chunk;
        if (others_decode)
            decode(h, 700, pick(0, 2));
        look(h);
    }
    decode(h, rows, pick(0, 20));
}

static void begin_spell(history *h) {
    uint32_t stages = h->chain.truth.stage_count, only = pick(0, 2 * stages - 1);
    double slow = metered_decade(2, 50);
    double patience_us = metered_between(0, 1) < 0.5 ? 0 : metered_decade(1e3, 1e6);
    double jitter = metered_between(0, 1) < 0.5 ? 0.05 : 0.4;
    for (uint32_t s = 0; s < stages; s++) {
        metered_machine *m = &h->chain.machines[s];
        if (only < stages && only != s)
            continue;
        m->slow = slow;
        m->patience_us = patience_us;
        m->jitter = jitter;
    }
}

static void end_spell(history *h) {
    for (uint32_t s = 0; s < h->chain.truth.stage_count; s++) {
        h->chain.machines[s].slow = 1;
        h->chain.machines[s].jitter = 0.05;
    }
}

static void suffer(history *h) {
    int64_t end_us = h->chain.now_us + (int64_t)SPELL_US;
    bool others_decode = metered_between(0, 1) < 0.3;
    for (h->steps = 0; h->chain.now_us < end_us && h->steps < SPELL_STEPS;) {
        if (metered_between(0, 1) < 0.2)
            decode(h, 600, pick(1, 60));
        else
            serve(h, (uint32_t)metered_decade(20, 6000), others_decode);
        h->chain.now_us += (int64_t)metered_decade(1e4, 1e7);
    }
}

static void see_three_steps(history *h) {
    uint32_t kind = pick(0, 2), same = (uint32_t)metered_decade(1, 512);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t rows = kind == 0 ? 1 : kind == 1 ? same : (uint32_t)metered_decade(1, 512);
        metered_chain_step(&h->chain, 0, rows, kind == 0);
    }
    look(h);
}

typedef struct tally {
    double beside_best, beside_off, worst_off, worst_best, apart;
    uint32_t plans, bad, bent;
} tally;

/* Points that were calibrated are believed to take so many times what they do: how far that differs
 * among those of a stage. */
static void judge_proportions(const history *h, tally *t) {
    lh_cost_chain believed = metered_chain_believed(&h->chain);
    for (uint32_t s = 0; s < believed.stage_count; s++) {
        double least = INFINITY, most = 0;
        for (uint32_t i = 0; i < h->chain.machines[s].calibrated.point_count; i++) {
            double times = believed.stages[s].points[i].us / h->chain.truth.stages[s].points[i].us;
            least = fmin(least, times);
            most = fmax(most, times);
        }
        t->apart = fmax(t->apart, most / least);
        if (most <= APART * least)
            continue;
        t->bent++;
        print_message("history %u, stage %u: one length is believed to take %.2f times what it "
                      "does, another %.2f times\n",
                      h->seed, s, most, least);
    }
}

static void judge(history *h, tally *t) {
    uint32_t rows = (uint32_t)metered_decade(20, 4000);
    lh_overlap_plan plan, best = metered_plan(&h->chain.truth, rows);
    lh_overlap_planner_plan(h->planner, &by_itself, 0, rows, false, &plan);
    double us = metered_plan_us(&h->chain.truth, &plan);
    double off = us / lh_cost_off_us(&h->chain.truth, 0, rows, METERED_ROWS_MAX);
    double beside = us / metered_plan_us(&h->chain.truth, &best);
    char text[200];
    if (off > 1 + WORSE_THAN_OFF) {
        t->bad++;
        print_message("history %u, %u rows as %s: %.2f times what off takes, %.2f times the best\n",
                      h->seed, rows, lh_overlap_plan_text(&plan, text, sizeof text), off, beside);
    }
    t->plans++;
    t->beside_best += beside;
    t->beside_off += off;
    t->worst_off = fmax(t->worst_off, off);
    t->worst_best = fmax(t->worst_best, beside);
}

static void play(uint32_t seed, tally *t) {
    history h = {.seed = seed};
    metered_chain_start(&h.chain, seed, false);
    assert_int_equal(
        lh_overlap_planner_create(METERED_ROWS_MAX, METERED_DEPTH_MAX, &h.planner, NULL), LH_OK);
    for (uint32_t i = pick(0, 6); i > 0; i--)
        serve(&h, (uint32_t)metered_decade(20, 2000), false);
    begin_spell(&h);
    suffer(&h);
    end_spell(&h);
    see_three_steps(&h);
    for (uint32_t i = 0; i < PROMPTS; i++)
        judge(&h, t);
    judge_proportions(&h, t);
    lh_overlap_planner_destroy(h.planner);
}

static void a_slow_spell_is_forgotten_in_three_steps(void **state) {
    (void)state;
    tally t = {0};
    for (uint32_t seed = 1; seed <= HISTORIES; seed++)
        play(seed, &t);
    print_message("lengths are apart by a factor of %.2f at worst\n", t.apart);
    print_message("%u plans: %.3f times the best on average, %.2f at worst; %.3f times off, %.2f "
                  "at worst; %u worse than off by more than %.0f %%\n",
                  t.plans, t.beside_best / t.plans, t.worst_best, t.beside_off / t.plans,
                  t.worst_off, t.bad, 100 * WORSE_THAN_OFF);
    assert_int_equal(t.bent, 0);
    assert_int_equal(t.bad, 0);
    assert_true(t.beside_best / t.plans < 1.05);
}

int main(void) {
    lh_log_set_level(LH_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_spell_is_forgotten_in_three_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
