/* Rows that fit a budget. */
#include "gateway/cost/step_budget.h"

#include <assert.h>
#include <stdbool.h>

/* Kernels take rows by eights, and a step has costs of its own. */
#define ROWS_UNIT 8u

static bool fits(const lh_cost_chain *chain, uint32_t position, uint32_t rows, int64_t budget_us) {
    for (uint32_t s = 0; s < chain->stage_count; s++)
        if (lh_cost_stage_us(&chain->stages[s], position, rows) > (double)budget_us)
            return false;
    return true;
}

/* The most units of rows that fit, at least one. */
static uint32_t units_that_fit(const lh_cost_chain *chain, uint32_t position, uint32_t most,
                               int64_t budget_us) {
    uint32_t low = 1, high = most;
    while (low < high) {
        uint32_t middle = (low + high + 1) / 2;
        if (fits(chain, position, middle * ROWS_UNIT, budget_us))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

uint32_t lh_step_budget_rows(const lh_cost_chain *chain, uint32_t position, uint32_t rows,
                             int64_t budget_us) {
    assert(rows > 0);
    if (rows <= ROWS_UNIT || fits(chain, position, rows, budget_us))
        return rows;
    uint32_t units = (rows + ROWS_UNIT - 1) / ROWS_UNIT;
    uint32_t most = units_that_fit(chain, position, units - 1, budget_us);
    uint32_t parts = (units + most - 1) / most;
    return (units + parts - 1) / parts * ROWS_UNIT;
}
