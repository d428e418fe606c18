/* What a fleet is created with, and what all its parts go by. */
#pragma once

#include "gateway/fleet/claims.h"
#include "gateway/fleet/link_matrix.h"
#include "gateway/fleet/misconduct.h"
#include "gateway/fleet/wire_choice.h"
#include "gateway/plan/aim.h"
#include "gateway/plan/team_policy.h"

/* The model and the texts outlive the fleet. */
typedef struct lh_fleet_options {
    const lh_model_profile *model;
    /* what the chain is to be good at: better ones are looked for while it serves (live_planner.h),
     * but where the goal is EVEN, with which every worker that can has a place */
    lh_aim aim;
    /* workers of a site that compute each stage together (teams.h) */
    lh_team_policy teams;
    const char *chain_name; /* in the path of a step */
    /* SHA-256 of the model's header, in hex: what workers have loaded of another one does not
     * count */
    const char *model_digest;
    lh_chain_origin origin;
    /* of the links between sites, all replicas together; NULL: none is kept. Outlives the fleet */
    lh_link_matrix *links;
    /* what workers have done, all replicas together; NULL: nobody is held responsible. Outlives the
     * fleet */
    lh_misconduct *misconduct;
    /* how far workers are believed, likewise; NULL: all are */
    lh_claims *claims;
    /* the share of a link that workers may take to fetch what they would need after a loss
     * (cover.h); 0: they fetch nothing beforehand */
    double cover_share;
    uint64_t survey_bytes; /* that may be sent in an hour to measure links that no chain uses */
    /* the first plan waits for this many workers; 0: for any, once they are stable */
    uint32_t workers_expected;
    uint32_t context, rows_max;
    bool has_q16;       /* quantized weights meet activations of 16 bits, not 8 */
    bool has_fast_math; /* GPUs may round products (worker's stage.h) */
    /* "f32", "f16" or "q8": the numbers in the workers' KV caches (kernels/kernels.h) */
    const char *kv_type;
    lh_wire_policy wire;
    int64_t plan_delay_us, renew_us, lease_us, probation_us;
    /* how long workers must have been there before the chain changes for their sake; 0: it never
     * does */
    int64_t rebalance_delay_us;
    uint32_t first_epoch; /* wall clock, seconds, at start */
    /* every epoch is a multiple of the stride and the offset, so that no other fleet has the same;
     * 0, 0: any */
    uint32_t epoch_stride, epoch_offset;
} lh_fleet_options;
