/* The masks that the last stage keeps: which tokens may be drawn, by the numbers that steps name
 * them by. The gateway says what is kept and what is forgotten; this only obeys, within a bound.
 * Thread: the compute thread. */
#pragma once

#include "common/base/status.h"
#include "common/protocol/step_parts.h"

typedef struct lh_mask_store lh_mask_store;

/* Of masks over so many tokens. LH_ERR_NO_MEMORY. */
lh_status lh_mask_store_create(uint32_t vocabulary, lh_mask_store **store, lh_error *error);
/* NULL is allowed. */
void lh_mask_store_destroy(lh_mask_store *store);

/* Decodes the mask and keeps it until it is dropped; one that is here stays as it is.
 * LH_ERR_INVALID: of another vocabulary; LH_ERR_LIMIT: LH_STEP_MASKS_KEPT_MAX are here;
 * LH_ERR_MALFORMED (lh_mask_decode); LH_ERR_NO_MEMORY. */
lh_status lh_mask_store_keep(lh_mask_store *store, const lh_step_mask *mask, lh_error *error);
/* Numbers that are not here are ignored. */
void lh_mask_store_drop(lh_mask_store *store, uint64_t number);
void lh_mask_store_reset(lh_mask_store *store);
/* [lh_mask_code_words(vocabulary)], until it is dropped; NULL: it is not here. */
const uint64_t *lh_mask_store_find(const lh_mask_store *store, uint64_t number);
