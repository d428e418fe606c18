/* Records in a hash table, and a list of those that may be named, the least recently named
 * first. */
#include "gateway/schedule/mask_ledger.h"

#include "common/protocol/step_parts.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/queue.h>

#define PLACES LH_STEP_MASKS_KEPT_MAX
/* More of them than this, and some are dropped: so places are free when new ones come. */
#define LIVE_MAX (PLACES / 4 * 3)
#define BUCKETS  PLACES
_Static_assert((BUCKETS & (BUCKETS - 1)) == 0, "a power of two");

struct lh_kept_mask {
    LIST_ENTRY(lh_kept_mask) in_bucket; /* live ones; free ones: in the list of those */
    TAILQ_ENTRY(lh_kept_mask) by_use;   /* live ones */
    uint64_t id, number;
    uint32_t steps; /* segments of steps under way that name it */
    bool is_known;
};

LIST_HEAD(mask_list, lh_kept_mask);
TAILQ_HEAD(mask_line, lh_kept_mask);

struct lh_mask_ledger {
    uint64_t last_number;
    uint32_t live;
    struct mask_line by_use;
    struct mask_list free, buckets[BUCKETS];
    lh_kept_mask places[PLACES];
};

lh_status lh_mask_ledger_create(lh_mask_ledger **ledger, lh_error *error) {
    lh_mask_ledger *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a ledger of masks");
    lh_mask_ledger_reset(made);
    *ledger = made;
    return LH_OK;
}

void lh_mask_ledger_destroy(lh_mask_ledger *ledger) {
    free(ledger);
}

void lh_mask_ledger_reset(lh_mask_ledger *ledger) {
    ledger->live = 0;
    TAILQ_INIT(&ledger->by_use);
    LIST_INIT(&ledger->free);
    for (uint32_t i = 0; i < BUCKETS; i++)
        LIST_INIT(&ledger->buckets[i]);
    for (uint32_t i = 0; i < PLACES; i++) {
        assert(ledger->places[i].steps == 0);
        LIST_INSERT_HEAD(&ledger->free, &ledger->places[i], in_bucket);
    }
}

/* ---- Places ---- */

static struct mask_list *bucket_of(const lh_mask_ledger *ledger, uint64_t id) {
    return (struct mask_list *)&ledger->buckets[id & (BUCKETS - 1)];
}

lh_kept_mask *lh_mask_ledger_find(const lh_mask_ledger *ledger, uint64_t id) {
    lh_kept_mask *mask;
    LIST_FOREACH(mask, bucket_of(ledger, id), in_bucket)
    if (mask->id == id)
        break;
    return mask;
}

bool lh_mask_ledger_has_room(const lh_mask_ledger *ledger) {
    return !LIST_EMPTY(&ledger->free);
}

lh_kept_mask *lh_mask_ledger_enter(lh_mask_ledger *ledger, uint64_t id) {
    lh_kept_mask *mask = LIST_FIRST(&ledger->free);
    assert(mask && !lh_mask_ledger_find(ledger, id));
    LIST_REMOVE(mask, in_bucket);
    *mask = (lh_kept_mask){.id = id, .number = ++ledger->last_number};
    LIST_INSERT_HEAD(bucket_of(ledger, id), mask, in_bucket);
    TAILQ_INSERT_TAIL(&ledger->by_use, mask, by_use);
    ledger->live++;
    return mask;
}

/* ---- Use ---- */

uint64_t lh_kept_mask_number(const lh_kept_mask *mask) {
    return mask->number;
}

bool lh_kept_mask_is_known(const lh_kept_mask *mask) {
    return mask->is_known;
}

void lh_mask_ledger_name(lh_mask_ledger *ledger, lh_kept_mask *mask) {
    mask->steps++;
    TAILQ_REMOVE(&ledger->by_use, mask, by_use);
    TAILQ_INSERT_TAIL(&ledger->by_use, mask, by_use);
}

void lh_kept_mask_note_known(lh_kept_mask *mask) {
    mask->is_known = true;
}

void lh_kept_mask_note_missing(lh_kept_mask *mask) {
    mask->is_known = false;
}

void lh_kept_mask_return(lh_kept_mask *mask) {
    assert(mask->steps > 0);
    mask->steps--;
}

/* ---- Drops ---- */

lh_kept_mask *lh_mask_ledger_next_drop(lh_mask_ledger *ledger) {
    lh_kept_mask *mask = TAILQ_FIRST(&ledger->by_use);
    while (mask && mask->steps > 0)
        mask = TAILQ_NEXT(mask, by_use);
    if (ledger->live <= LIVE_MAX || !mask)
        return NULL;
    TAILQ_REMOVE(&ledger->by_use, mask, by_use);
    LIST_REMOVE(mask, in_bucket);
    ledger->live--;
    return mask;
}

void lh_mask_ledger_finish_drop(lh_mask_ledger *ledger, lh_kept_mask *mask) {
    assert(mask->steps == 0);
    LIST_INSERT_HEAD(&ledger->free, mask, in_bucket);
}
