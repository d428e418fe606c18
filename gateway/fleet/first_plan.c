/* The expected number, a delay, and the end of patience. */
#include "gateway/fleet/first_plan.h"

#include "common/base/arithmetic.h"

/* How long the expected workers are waited for before those that are there are planned: one that
 * has died while the gateway was away must not keep the others idle for ever. */
#define EXPECTED_PATIENCE_US 60000000

int64_t lh_first_plan_due_us(uint32_t workers, uint32_t expected, int64_t plan_delay_us,
                             int64_t created_us, int64_t changed_us) {
    int64_t stable_us = changed_us + plan_delay_us;
    if (expected == 0)
        return stable_us;
    return workers >= expected ? changed_us
                               : lh_max_i64(stable_us, created_us + EXPECTED_PATIENCE_US);
}
