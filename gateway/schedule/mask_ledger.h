/* Which masks the last worker of the chain keeps. A mask is some 20 KB and mostly seen again and
 * again, so it travels once and is named by a number afterwards:
 *
 *     entered --named--> brought by every step that names it, since decode steps overtake others
 *        ^                  |
 *        |                  | the results of one of them are here
 *     forgotten          known: steps name it and bring nothing
 *        ^                  |
 *        |                  | others are used more, and no step under way names it
 *        +------------- dropped: its place counts as free when the chain has taken that step
 *
 * A number stands for one entry and is never used again within an epoch: so a drop that is
 * overtaken by the same mask coming back concerns the old number alone. Every epoch begins without
 * masks. Thread: one at a time. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_mask_ledger lh_mask_ledger;
/* A mask that has a place: valid until it is dropped, or the ledger is reset. */
typedef struct lh_kept_mask lh_kept_mask;

/* LH_ERR_NO_MEMORY. */
lh_status lh_mask_ledger_create(lh_mask_ledger **ledger, lh_error *error);
/* NULL is allowed. */
void lh_mask_ledger_destroy(lh_mask_ledger *ledger);
/* A new epoch, of which nothing is under way. */
void lh_mask_ledger_reset(lh_mask_ledger *ledger);

/* By what identifies its words (lh_mask.id). NULL: it has no place. */
lh_kept_mask *lh_mask_ledger_find(const lh_mask_ledger *ledger, uint64_t id);
/* Whether one more would get a place. */
bool lh_mask_ledger_has_room(const lh_mask_ledger *ledger);
/* Gives it a place, which there is. */
lh_kept_mask *lh_mask_ledger_enter(lh_mask_ledger *ledger, uint64_t id);

/* What steps call it: not 0. */
uint64_t lh_kept_mask_number(const lh_kept_mask *mask);
/* The last worker surely has it: a step need not bring it. */
bool lh_kept_mask_is_known(const lh_kept_mask *mask);
/* A step that is about to leave names it; once for each segment. */
void lh_mask_ledger_name(lh_mask_ledger *ledger, lh_kept_mask *mask);
/* A step that brought it has come around the ring. */
void lh_kept_mask_note_known(lh_kept_mask *mask);
/* The last worker says that it does not have it. */
void lh_kept_mask_note_missing(lh_kept_mask *mask);
/* The step is no longer under way (once for each lh_mask_ledger_name). */
void lh_kept_mask_return(lh_kept_mask *mask);

/* The next mask that is to make way for others: the drop is on its way then. NULL: none. */
lh_kept_mask *lh_mask_ledger_next_drop(lh_mask_ledger *ledger);
/* The whole chain has taken the drop. */
void lh_mask_ledger_finish_drop(lh_mask_ledger *ledger, lh_kept_mask *mask);
