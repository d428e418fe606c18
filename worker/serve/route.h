/* Where a worker stands in its chain, as it is told. */
#pragma once

#include "common/protocol/step.h"

typedef struct lh_chain_route {
    const char *chain;
    uint32_t epoch;
    uint32_t width; /* columns of an activation */
    bool is_first, is_last;
    lh_wire_type wire;
    uint32_t steps_max;
    /* the KV cache stays where it was last emptied with this epoch; 0: it is emptied */
    uint32_t kv_epoch;
    const char *next_name; /* "" is the gateway */
    const char *next_address;
    bool next_tls;
} lh_chain_route;
