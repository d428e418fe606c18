/* Up to a fifth of what the meters are told is wrong by up to a thousandfold: how prompts are cut
 * is hardly any worse for it. The workers' real meters, the gateway's real planner, and between
 * them machines whose true costs are known. */
#include "common/base/log.h"
#include "gateway/cost/overlap_plan.h"
#include "gateway/cost/overlap_shape.h"
#include "tests/fleet/support/liar.h"
#include "worker/serve/meter.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define STAGES_MAX 4u
#define ROWS_MAX   512u
#define DEPTH_MAX  64u
#define HISTORIES  1000u
#define PROMPTS    16u
/* Before that many prompts there are not five samples of each kind. */
#define PROMPTS_BEFORE 4u
#define LOSS_MAX       0.05
/* One plan in so many may be worse than that: five among 48,000 are without any lie, since where
 * two cuts are nearly as good, what is known of the times to a few per cent decides. */
#define BAD_PLANS 2000u

/* splitmix64 */
static uint64_t random_state;
static double random_between(double low, double high) {
    uint64_t x = random_state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return low + (high - low) * (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0;
}

static double random_decade(double low, double high) {
    return exp(random_between(log(low), log(high)));
}

/* ---- The machines ---- */

typedef struct machine {
    double step_us, row_us, attention_us, draw_us;
    lh_stage_meter meter;
    liar liar;
} machine;

typedef struct fleet {
    lh_cost_chain truth;
    machine machines[STAGES_MAX];
    int64_t now_us;
} fleet;

/* The true cost of a step, as its profile says it. */
static double truth_us(const fleet *f, uint32_t s, uint32_t position, uint32_t rows) {
    return lh_cost_stage_us(&f->truth.stages[s], position, rows);
}

static void run(fleet *f, uint32_t s, uint32_t position, uint32_t rows, bool draws) {
    machine *m = &f->machines[s];
    lh_step_cost cost = {.rows = rows,
                         .attended = (double)rows * position + (double)rows * (rows - 1) / 2,
                         .draws = draws};
    double us = truth_us(f, s, position, rows) + (draws ? m->draw_us : 0);
    us *= random_between(0.95, 1.05);
    f->now_us += (int64_t)us;
    cost.busy_us = (int64_t)fmax(1, us * liar_next(&m->liar));
    lh_stage_meter_note_step(&m->meter, &cost, f->now_us);
}

static lh_compute_profile profile_of(const machine *m) {
    lh_compute_profile profile = {.us_per_row_position = m->attention_us,
                                  .draw_us = m->draw_us,
                                  .draw_more_us = m->draw_us / 4,
                                  .shard_us = 20,
                                  .take_share = 0.06,
                                  .give_share = 0.03,
                                  .step_us = 100};
    for (uint32_t rows = 1; rows <= 512; rows *= 2)
        profile.points[profile.point_count++] =
            (lh_compute_point){rows, m->step_us + m->row_us * rows};
    return profile;
}

/* As a calibration finds it: each point off by some, and of a slow machine only the first ones. */
static void start_meter(machine *m, bool is_last) {
    lh_compute_profile calibrated = profile_of(m);
    double all = random_between(0.9, 1.1);
    calibrated.point_count = random_between(0, 1) < 0.3 ? 4 : calibrated.point_count;
    calibrated.draw_us *= is_last;
    for (uint32_t i = 0; i < calibrated.point_count; i++)
        calibrated.points[i].us *= all * random_between(0.95, 1.05);
    lh_stage_meter_init(&m->meter, &calibrated, 0);
}

static void start_fleet(fleet *f, uint64_t seed) {
    random_state = seed;
    *f = (fleet){
        .truth = {.stage_count = 2 + (uint32_t)random_between(0, STAGES_MAX - 1), .width = 576}};
    double row_us = random_decade(30, 3000), chain_rate = random_decade(1, 125);
    for (uint32_t s = 0; s < f->truth.stage_count; s++) {
        machine *m = &f->machines[s];
        bool is_last = s + 1 == f->truth.stage_count;
        m->row_us = row_us * random_between(0.7, 1.5);
        m->step_us = m->row_us * random_between(1, 12);
        m->attention_us = m->row_us * random_decade(1e-5, 3e-4);
        m->draw_us = is_last ? m->row_us * 3 : 0;
        liar_init(&m->liar, seed * STAGES_MAX + s);
        f->truth.stages[s] = profile_of(m);
        start_meter(m, is_last);
    }
    for (uint32_t h = 0; h <= f->truth.stage_count; h++)
        f->truth.hops[h] =
            (lh_cost_hop){.bytes_per_us = chain_rate * random_between(0.5, 2),
                          .delay_us = random_decade(200, 40e3),
                          .step_bytes = 200,
                          .step_row_bytes = 4,
                          .draw_bytes = 40,
                          .row_bytes = h > 0 && h < f->truth.stage_count ? 576 * 4 : 0,
                          .shard_bytes = 60};
}

/* ---- Plans ---- */

/* What the gateway believes of the chain. */
static lh_cost_chain believed(const fleet *f) {
    lh_cost_chain chain = f->truth;
    for (uint32_t s = 0; s < chain.stage_count; s++) {
        lh_stage_meter_read(&f->machines[s].meter, f->now_us, &chain.stages[s]);
        chain.stages[s].step_us = f->truth.stages[s].step_us; /* the meter was told of none */
    }
    return chain;
}

static lh_overlap_plan plan_by(const lh_cost_chain *chain, uint32_t rows) {
    static const lh_overlap_spec by_itself = {.mode = LH_OVERLAP_AUTO};
    lh_overlap_planner *planner;
    lh_overlap_plan plan;
    assert_int_equal(lh_overlap_planner_create(ROWS_MAX, DEPTH_MAX, &planner, NULL), LH_OK);
    lh_overlap_planner_update(planner, chain);
    assert_null(lh_overlap_planner_lacks(planner));
    lh_overlap_planner_plan(planner, &by_itself, 0, rows, false, &plan);
    lh_overlap_planner_destroy(planner);
    return plan;
}

static double cost_of(const lh_cost_chain *chain, const lh_overlap_plan *plan) {
    static lh_cost_work work;
    uint32_t chunks[LH_COST_CHUNKS_MAX];
    lh_step_cut cuts[STAGES_MAX];
    if (plan->is_serial)
        return lh_cost_off_us(chain, 0, plan->rows, ROWS_MAX);
    for (uint32_t i = 0; i < plan->chunk_count; i++)
        chunks[i] = plan->chunks[i];
    for (uint32_t h = 0; h < plan->cut_count; h++)
        cuts[h] =
            plan->cuts[h] ? lh_overlap_cut(plan->cuts[h], chain->width) : (lh_step_cut){.count = 0};
    const lh_cost_schedule schedule = {
        .count = plan->chunk_count, .rows = chunks, .cuts = cuts, .depth = plan->depth};
    return lh_cost_predict_us(chain, &schedule, &work);
}

/* The prompt as it was planned, and some tokens. */
static void serve(fleet *f, const lh_overlap_plan *plan, uint32_t tokens) {
    uint32_t last = f->truth.stage_count - 1, position = 0;
    for (uint32_t i = 0; i < plan->chunk_count; i++) {
        bool is_last = i + 1 == plan->chunk_count;
        for (uint32_t s = 0; s <= last; s++)
            run(f, s, position, plan->chunks[i], is_last && s == last);
        position += plan->chunks[i];
    }
    for (uint32_t i = 0; i < tokens; i++, position++)
        for (uint32_t s = 0; s <= last; s++)
            run(f, s, position, 1, s == last);
}

/* By how much the plan for such a prompt is worse than the best one. */
static double loss(const fleet *f, const lh_overlap_plan *plan) {
    lh_overlap_plan best = plan_by(&f->truth, plan->rows);
    return cost_of(&f->truth, plan) / cost_of(&f->truth, &best) - 1;
}

/* How bad the plans for a history's prompts are, in the order in which they come. */
static void play(uint64_t seed, uint32_t *plans, uint32_t *bad, double *lost) {
    fleet f;
    start_fleet(&f, seed);
    uint32_t usual = (uint32_t)random_decade(40, 1000);
    for (uint32_t prompt = 0; prompt < PROMPTS; prompt++) {
        bool is_usual = random_between(0, 1) < 0.7;
        uint32_t rows = is_usual ? usual : (uint32_t)random_decade(20, 2000);
        lh_cost_chain chain = believed(&f);
        lh_overlap_plan plan = plan_by(&chain, rows);
        if (prompt >= PROMPTS_BEFORE) {
            double part = loss(&f, &plan);
            if (part > LOSS_MAX)
                print_message("history %u, prompt %u of %u rows: %.1f %% worse\n", (unsigned)seed,
                              prompt, rows, 100 * part);
            *bad += part > LOSS_MAX;
            *lost += part;
            ++*plans;
        }
        serve(&f, &plan, 8);
        f.now_us += (int64_t)random_decade(1e4, 1e8);
    }
}

static void a_fifth_of_the_samples_may_lie_and_plans_are_as_good(void **state) {
    (void)state;
    double lost = 0;
    uint32_t plans = 0, bad = 0;
    for (uint64_t seed = 1; seed <= HISTORIES; seed++)
        play(seed, &plans, &bad, &lost);
    print_message("%u plans: %.3f %% worse on average, %u by more than %.0f %%\n", plans,
                  100 * lost / plans, bad, 100 * LOSS_MAX);
    assert_true(lost / plans < 0.002);
    assert_true(bad <= plans / BAD_PLANS);
}

int main(void) {
    lh_log_set_level(LH_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fifth_of_the_samples_may_lie_and_plans_are_as_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
