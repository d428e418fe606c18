/* How often each token occurs in a prompt and in the output, kept as they grow: what penalties are
 * computed from. The entries lie in one array in the order of first occurrence, ready to be sent.
 * Thread: one at a time. */
#pragma once

#include "common/base/status.h"
#include "common/protocol/step.h"

typedef struct lh_token_counts lh_token_counts;

lh_status lh_token_counts_create(lh_token_counts **token_counts);
void lh_token_counts_destroy(lh_token_counts *token_counts);
/* LH_ERR_NO_MEMORY. */
lh_status lh_token_counts_add(lh_token_counts *token_counts, uint32_t token, bool is_output);
/* The entries: valid until the next _add. */
const lh_token_count *lh_token_counts_entries(const lh_token_counts *token_counts, uint32_t *count);
