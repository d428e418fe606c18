/* How a prompt is to be cut, as --overlap and a request's "longhaul": {"overlap": ...} say it:
 *
 *   auto                   the cost model decides (overlap_plan.h)
 *   off                    each step whole, and none before the one before it is back
 *   rows=N[,columns=K]     chunks of N rows; on every hop between workers K column shards of equal
 *                          width (1: off)
 *
 * Thread: any. */
#pragma once

#include "common/base/status.h"

#include <stdint.h>

typedef enum lh_overlap_mode { LH_OVERLAP_AUTO, LH_OVERLAP_OFF, LH_OVERLAP_MANUAL } lh_overlap_mode;

typedef struct lh_overlap_spec {
    lh_overlap_mode mode;
    uint32_t rows, columns; /* MANUAL: 1..LH_STEP_ROWS_MAX, 1..LH_STEP_COLUMN_SHARDS_MAX */
} lh_overlap_spec;

/* LH_ERR_INVALID: the message says what was expected; *spec is unchanged then. */
lh_status lh_overlap_spec_parse(const char *text, lh_overlap_spec *spec, lh_error *error);
