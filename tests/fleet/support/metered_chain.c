/* Times by formula, and by chance. */
#include "tests/fleet/support/metered_chain.h"

#include "gateway/cost/overlap_shape.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define WIDTH 576u

/* splitmix64 */
static uint64_t random_state;

void metered_seed(uint64_t seed) {
    random_state = seed;
}

double metered_between(double low, double high) {
    uint64_t x = random_state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return low + (high - low) * (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0;
}

double metered_decade(double low, double high) {
    return exp(metered_between(log(low), log(high)));
}

/* ---- The machines ---- */

static double slowed(const metered_machine *m, double us) {
    double part = m->patience_us > 0 ? fmin(us / m->patience_us, 1) : 1;
    return us * (1 + (m->slow - 1) * part);
}

void metered_chain_run(metered_chain *chain, uint32_t stage, uint32_t position, uint32_t rows,
                       bool draws) {
    metered_machine *m = &chain->machines[stage];
    lh_step_cost cost = {.rows = rows,
                         .attended = (double)rows * position + (double)rows * (rows - 1) / 2,
                         .draws = draws};
    double us =
        lh_cost_stage_us(&chain->truth.stages[stage], position, rows) + (draws ? m->draw_us : 0);
    us = slowed(m, us) * metered_between(1 - m->jitter, 1 + m->jitter);
    chain->now_us += (int64_t)us;
    cost.busy_us = (int64_t)fmax(1, us * liar_next(&m->liar));
    lh_stage_meter_note_step(&m->meter, &cost, chain->now_us);
    lh_stage_meter_note_overhead(&m->meter, (int64_t)(chain->truth.stages[stage].step_us * m->slow *
                                                      metered_between(0.9, 1.1)));
}

void metered_chain_step(metered_chain *chain, uint32_t position, uint32_t rows, bool draws) {
    for (uint32_t s = 0; s < chain->truth.stage_count; s++)
        metered_chain_run(chain, s, position, rows, draws && s + 1 == chain->truth.stage_count);
}

static lh_compute_profile profile_of(const metered_machine *m) {
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

static void start_meter(metered_machine *m, bool is_last) {
    lh_compute_profile *calibrated = &m->calibrated;
    *calibrated = profile_of(m);
    double all = metered_between(0.9, 1.1);
    calibrated->point_count = metered_between(0, 1) < 0.3 ? 4 : calibrated->point_count;
    calibrated->draw_us *= is_last;
    for (uint32_t i = 0; i < calibrated->point_count; i++)
        calibrated->points[i].us *= all * metered_between(0.95, 1.05);
    lh_stage_meter_init(&m->meter, calibrated, 0);
}

void metered_chain_start(metered_chain *chain, uint64_t seed, bool lies) {
    metered_seed(seed);
    *chain = (metered_chain){
        .truth = {.stage_count = 2 + (uint32_t)metered_between(0, METERED_STAGES_MAX - 1),
                  .width = WIDTH}};
    double row_us = metered_decade(30, 3000), chain_rate = metered_decade(1, 125);
    for (uint32_t s = 0; s < chain->truth.stage_count; s++) {
        metered_machine *m = &chain->machines[s];
        bool is_last = s + 1 == chain->truth.stage_count;
        m->slow = 1;
        m->jitter = 0.05;
        m->row_us = row_us * metered_between(0.7, 1.5);
        m->step_us = m->row_us * metered_between(1, 12);
        m->attention_us = m->row_us * metered_decade(1e-5, 3e-4);
        m->draw_us = is_last ? m->row_us * 3 : 0;
        liar_init(&m->liar, lies ? seed * METERED_STAGES_MAX + s : 0);
        chain->truth.stages[s] = profile_of(m);
        start_meter(m, is_last);
    }
    for (uint32_t h = 0; h <= chain->truth.stage_count; h++)
        chain->truth.hops[h] =
            (lh_cost_hop){.bytes_per_us = chain_rate * metered_between(0.5, 2),
                          .delay_us = metered_decade(200, 40e3),
                          .step_bytes = 200,
                          .step_row_bytes = 4,
                          .draw_bytes = 40,
                          .row_bytes = h > 0 && h < chain->truth.stage_count ? WIDTH * 4 : 0,
                          .shard_bytes = 60};
}

lh_cost_chain metered_chain_believed(const metered_chain *chain) {
    lh_cost_chain believed = chain->truth;
    for (uint32_t s = 0; s < believed.stage_count; s++)
        lh_stage_meter_read(&chain->machines[s].meter, chain->now_us, &believed.stages[s]);
    return believed;
}

/* ---- Plans ---- */

lh_overlap_plan metered_plan(const lh_cost_chain *chain, uint32_t rows) {
    static const lh_overlap_spec by_itself = {.mode = LH_OVERLAP_AUTO};
    lh_overlap_planner *planner;
    lh_overlap_plan plan;
    assert_int_equal(lh_overlap_planner_create(METERED_ROWS_MAX, METERED_DEPTH_MAX, &planner, NULL),
                     LH_OK);
    lh_overlap_planner_update(planner, chain);
    assert_null(lh_overlap_planner_lacks(planner));
    lh_overlap_planner_plan(planner, &by_itself, 0, rows, false, &plan);
    lh_overlap_planner_destroy(planner);
    return plan;
}

double metered_plan_us(const lh_cost_chain *chain, const lh_overlap_plan *plan) {
    static lh_cost_work work;
    uint32_t chunks[LH_COST_CHUNKS_MAX];
    lh_step_cut cuts[METERED_STAGES_MAX];
    if (plan->is_serial)
        return lh_cost_off_us(chain, 0, plan->rows, METERED_ROWS_MAX);
    for (uint32_t i = 0; i < plan->chunk_count; i++)
        chunks[i] = plan->chunks[i];
    for (uint32_t h = 0; h < plan->cut_count; h++)
        cuts[h] =
            plan->cuts[h] ? lh_overlap_cut(plan->cuts[h], chain->width) : (lh_step_cut){.count = 0};
    const lh_cost_schedule schedule = {
        .count = plan->chunk_count, .rows = chunks, .cuts = cuts, .depth = plan->depth};
    return lh_cost_predict_us(chain, &schedule, &work);
}
