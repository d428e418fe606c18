/* A time as people write it: "90s", "30m", "1h", "7d". Thread: any. */
#pragma once

#include "common/base/status.h"

#include <stdint.h>

/* LH_ERR_INVALID: no whole number with one of these units, or not in [least_s, most_s]; the message
 * begins with `flag`. */
lh_status lh_duration_parse(const char *flag, const char *text, int64_t least_s, int64_t most_s,
                            int64_t *seconds, lh_error *error);
