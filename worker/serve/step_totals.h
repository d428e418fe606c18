/* What the steps that were computed well took, all together. Plain data. */
#pragma once

#include <stdint.h>

typedef struct lh_step_totals {
    uint64_t rows;
    uint64_t compute_us; /* the compute thread's time */
    uint64_t wait_us;    /* the rest, from their first byte on */
} lh_step_totals;
