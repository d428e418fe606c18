/* How often each token occurs in a prompt and in the output, kept as they grow: what penalties are
 * computed from. The entries lie in one array in the order of first occurrence, ready to be sent.
 * Thread: one at a time. */
#pragma once

#include "common/protocol/row_ask.h"

typedef struct lh_token_counts lh_token_counts;

/* No token yet. tokens: that will be counted at most, > 0; pages of memory that no entry comes to
 * are not touched. NULL: no memory. */
lh_token_counts *lh_token_counts_create(uint32_t tokens);
/* NULL is allowed. */
void lh_token_counts_destroy(lh_token_counts *token_counts);
/* The token's entry, whose counts the caller raises; a new one where it has none. */
lh_token_count *lh_token_counts_entry(lh_token_counts *token_counts, uint32_t token);
/* The entries: valid until the counts are destroyed. */
const lh_token_count *lh_token_counts_entries(const lh_token_counts *token_counts, uint32_t *count);
