/* How often each token occurs in a prompt and in the output, kept as they grow: what penalties are computed
 * from. The entries lie in one array in the order of first occurrence, ready to be sent. Thread: one at a
 * time. */
#pragma once

#include "common/status.h"
#include "worker/api/step.h"

typedef struct lh_token_census lh_token_census;

lh_status lh_token_census_create(lh_token_census **census);
void lh_token_census_destroy(lh_token_census *census);
/* LH_ERR_NO_MEMORY. */
lh_status lh_token_census_add(lh_token_census *census, uint32_t token, bool is_output);
/* The entries: valid until the next _add. */
const lh_step_token_count *lh_token_census_entries(const lh_token_census *census, uint32_t *count);
