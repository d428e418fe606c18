/* How many rows a step may have so that no stage takes longer over it than a budget: what a token
 * of another sequence waits for at a stage is the step that the stage is busy with. Thread: any. */
#pragma once

#include "gateway/cost/cost_model.h"

/* At most `rows` (> 0) from the position on; fewer so that they fit, in parts of about the same
 * size, and never fewer than kernels need to be worth their while: then the budget is overdrawn.
 * The chain has passed lh_cost_chain_check. */
uint32_t lh_step_budget_rows(const lh_cost_chain *chain, uint32_t position, uint32_t rows,
                             int64_t budget_us);
