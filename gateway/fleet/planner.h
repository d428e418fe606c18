/* The static planner: which workers form the chain, and which layers each one holds. A pure
 * function: the same input gives the same plan, in whatever order the workers registered. */
#pragma once

#include "common/base/status.h"
#include "common/protocol/measurements.h"
#include "gateway/fleet/model_profile.h"
#include "gateway/plan/layout.h"

#include <stdint.h>

typedef struct lh_plan_worker {
    const char *name, *site;
    uint32_t threads;
    uint64_t memory_bytes;  /* for weights */
    lh_machine_speed speed; /* beside the others of one call: lh_planner_compare_speeds */
    uint64_t kv_bytes;      /* for keys and values; 0: it is not known */
    /* what the first layers take of that memory beside their bytes (lh_map_machine) */
    uint64_t first_extra_bytes;
} lh_plan_worker;

static inline bool lh_machine_speed_is_known(const lh_machine_speed *speed) {
    return speed->prompt_us > 0 && speed->token_us > 0;
}

typedef struct lh_planner_options {
    /* "home,office": the order of sites along the chain; others follow by name. "" or NULL: none */
    const char *sites;
    uint32_t stages; /* how many workers to use; 0: all */
} lh_planner_options;

/* What a stage of these layers must hold of the model. */
uint64_t lh_planner_stage_bytes(const lh_model_profile *model, uint32_t first_layer,
                                uint32_t last_layer);
/* The time of a plan's slowest stage with a long prompt, by which plans of one model compare.
 * INFINITY: a stage does not fit its worker's memory, or it has no room for a page of keys and
 * values. */
double lh_planner_slowest(const lh_model_profile *model, const lh_plan_worker *workers,
                          const lh_layout *plan);

/* Workers go in the order of sites, then by name. The split is contiguous, gives each worker a
 * layer at least, fits every worker's memory, has the room for keys and values that the model
 * wants (or half of it, or half of that, where no split has it: kv_need.h), and among those that
 * do makes the slowest stage as fast as can be: first with a long prompt, for which the last stage
 * computes the head once; among splits that are as good there, with a token at a time, where the
 * head counts in full. Times are those of the workers' speeds on the bytes that a stage holds.
 * Speeds are of machines, measured at their start, and not of stages: so the same workers get the
 * same split, whatever they have computed. With more workers than layers or stages, the fastest
 * serve. LH_ERR_LIMIT: no split fits; the message has the figures. LH_ERR_UNAVAILABLE: there is
 * nobody. LH_ERR_NO_MEMORY. */
lh_status lh_planner_split(const lh_model_profile *model, const lh_plan_worker *workers,
                           uint32_t count, const lh_planner_options *options, lh_layout *plan,
                           lh_error *error);
/* The same for workers that have changed since another plan was made, which is to be disturbed as
 * little as may be. Where a spare can take the place of one that is gone, with its very layers,
 * nobody else has to load anything; that is worth a slowest stage that is not quite as fast as the
 * split could make it. present: as it was, with NOBODY where a worker is gone; without stages:
 * there was none. It is not kept where it has more stages than the options allow. */
lh_status lh_planner_revise(const lh_model_profile *model, const lh_plan_worker *workers,
                            uint32_t count, const lh_planner_options *options,
                            const lh_layout *present, lh_layout *plan, lh_error *error);
/* Takes what each worker has measured of itself (zeros: nothing), and makes it comparable. Measured
 * speeds count where every worker has measured its own, else the number of threads alone does, as
 * that of usual cores. Measured ones that are within a quarter of each other are made the same, so
 * that equal machines get equal shares, whatever the noise was. The order of the workers is no
 * matter. */
void lh_planner_compare_speeds(lh_plan_worker *workers, uint32_t count);
