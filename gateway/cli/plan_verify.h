/* What a plan's predictions are worth: those of the chain that a running gateway has, beside what
 * requests to it take. Thread: any. */
#pragma once

#include "common/base/status.h"
#include "gateway/plan/fleet_map.h"

typedef struct lh_verify_options {
    const char *url, *api_key_file;        /* as lh_fleet_fetch */
    uint32_t prompt_tokens, answer_tokens; /* of each request */
    uint32_t requests;                     /* one after the other; the median counts */
    uint32_t sequences;                    /* at once, then */
} lh_verify_options;

/* Predicts from the map, which is the gateway's, for its first chain; then asks, and prints both
 * beside each other, within so many columns. LH_ERR_UNAVAILABLE: the chain is not ready, or a
 * worker or a link of it is not in the map; errors of lh_fleet_fetch and lh_timed_answer_ask;
 * LH_ERR_IO. */
lh_status lh_plan_verify(const lh_verify_options *options, const lh_fleet_map *map, unsigned width,
                         lh_error *error);
