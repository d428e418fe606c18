/* Some rows of a step that are consecutive positions of one sequence. */
#pragma once

#include "worker/compute/stage/kv_cache.h"

#include <stdint.h>

typedef struct lh_position_run {
    const lh_kv_sequence *sequence;
    uint32_t first_row, rows, first_position;
} lh_position_run;
