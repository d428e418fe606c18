/* Machines whose true costs are known, the workers' real meters that watch them, and what the
 * gateway's real planner makes of it. Thread: one at a time. */
#pragma once

#include "gateway/cost/overlap_plan.h"
#include "tests/fleet/support/liar.h"
#include "worker/serve/meter.h"

#define METERED_STAGES_MAX 4u
#define METERED_ROWS_MAX   512u
#define METERED_DEPTH_MAX  64u

typedef struct metered_machine {
    double step_us, row_us, attention_us, draw_us;
    /* Slower by this factor for now, and its steps' time outside of the arithmetic too. Steps of
     * less than patience_us are slowed less; 0: all alike. */
    double slow, patience_us;
    double jitter; /* of each time: up to this part more or less */
    lh_compute_profile calibrated;
    lh_stage_meter meter;
    liar liar;
} metered_machine;

typedef struct metered_chain {
    lh_cost_chain truth; /* of quiet machines */
    metered_machine machines[METERED_STAGES_MAX];
    int64_t now_us;
} metered_chain;

/* Numbers of one sequence for each seed. */
void metered_seed(uint64_t seed);
double metered_between(double low, double high);
/* Each order of magnitude as often. */
double metered_decade(double low, double high);

/* A chain by chance, its meters as calibrations would find them: each point off by some, and of a
 * slow machine only the first ones. lies: of ten samples up to two are wrong. */
void metered_chain_start(metered_chain *chain, uint64_t seed, bool lies);
/* One step through one stage; tells its meter. */
void metered_chain_run(metered_chain *chain, uint32_t stage, uint32_t position, uint32_t rows,
                       bool draws);
/* A step through all stages; draws: its last row, at the last one. */
void metered_chain_step(metered_chain *chain, uint32_t position, uint32_t rows, bool draws);
/* What the gateway believes of the chain. */
lh_cost_chain metered_chain_believed(const metered_chain *chain);

/* By a planner that has seen nothing else. */
lh_overlap_plan metered_plan(const lh_cost_chain *chain, uint32_t rows);
/* What a plan takes on a chain. */
double metered_plan_us(const lh_cost_chain *chain, const lh_overlap_plan *plan);
