/* Constraints that were compiled, by what they were compiled from: the same schema twice is one
 * constraint, with the masks that it has found. Thread: any. */
#pragma once

#include "gateway/constrain/constraint.h"
#include "gateway/constrain/constraint_source.h"

/* The one that was used least lately goes. Each may hold LH_CONSTRAINT_CACHE_BYTES_MAX of masks, so
 * half a gigabyte in all at most. */
#define LH_CONSTRAINT_CACHE_ENTRIES_MAX 16u

typedef struct lh_constraint_cache lh_constraint_cache;

/* The vocabulary must outlive it. LH_ERR_NO_MEMORY. */
lh_status lh_constraint_cache_create(const lh_constraint_vocabulary *vocabulary,
                                     lh_constraint_cache **cache, lh_error *error);
void lh_constraint_cache_destroy(lh_constraint_cache *cache);

/* The source's constraint, of which the caller releases a reference: a text of it can be begun. On
 * failure *constraint is NULL or was not written. The errors are those of lh_constraint_create, of
 * the first state and its mask (LH_ERR_LIMIT), and of the source's notation; they are not kept. */
lh_status lh_constraint_cache_find(lh_constraint_cache *cache, const lh_constraint_source *source,
                                   lh_constraint **constraint, lh_error *error);
