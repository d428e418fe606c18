/* A table of rows: a client's entry is in the row that its number is hashed to, or nowhere. The
 * hash is salted, so that nobody can choose clients that share a row with somebody else. */
#include "gateway/auth/reading_ledger.h"

#include "common/base/arithmetic.h"
#include "common/base/random_id.h"
#include "gateway/auth/rate_bucket.h"

#include <stdlib.h>

#define ROWS      512u /* with the entries of a row: as many clients as the list of keys may have */
#define ROW_COUNT 8u

#define MS_PER_MINUTE_MAX 1000000u /* more than sixteen processors give */

typedef struct entry {
    uint64_t client;     /* 0: the entry is empty */
    int64_t settled_us;  /* when all that was used will have settled */
    lh_rate_bucket left; /* microseconds of processor time */
} entry;

struct lh_reading_ledger {
    uint64_t salt;
    entry rows[ROWS][ROW_COUNT];
};

lh_status lh_reading_ledger_create(lh_reading_ledger **ledger, lh_error *error) {
    lh_reading_ledger *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for what clients have used");
    made->salt = lh_random_u64();
    *ledger = made;
    return LH_OK;
}

void lh_reading_ledger_destroy(lh_reading_ledger *ledger) {
    free(ledger);
}

static size_t row_of(const lh_reading_ledger *ledger, uint64_t client) {
    uint64_t hash = (client ^ ledger->salt) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 32) * 0xBF58476D1CE4E5B9u;
    return (size_t)(hash >> 40) % ROWS;
}

/* NULL: it has used nothing, as far as is known. */
static entry *find(lh_reading_ledger *ledger, uint64_t client) {
    entry *row = ledger->rows[row_of(ledger, client)];
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (row[i].client == client)
            return &row[i];
    return NULL;
}

static uint32_t us_per_minute(const lh_reading_share *share) {
    return lh_min_u32(share->ms_per_minute, MS_PER_MINUTE_MAX) * 1000u;
}

/* The client's entry, perhaps in the place of whoever has used least. */
static entry *open_entry(lh_reading_ledger *ledger, const lh_reading_share *share, int64_t now_us) {
    entry *found = find(ledger, share->client);
    if (found)
        return found;
    entry *row = ledger->rows[row_of(ledger, share->client)];
    entry *least = row;
    for (size_t i = 1; i < ROW_COUNT; i++)
        if (row[i].settled_us < least->settled_us)
            least = &row[i];
    *least = (entry){.client = share->client, .settled_us = now_us};
    lh_rate_bucket_init(&least->left, us_per_minute(share), now_us);
    return least;
}

void lh_reading_ledger_spend(lh_reading_ledger *ledger, const lh_reading_share *share,
                             uint64_t used_us, int64_t now_us) {
    entry *of = open_entry(ledger, share, now_us);
    of->settled_us = lh_max_i64(of->settled_us, now_us) + (int64_t)used_us * LH_READING_SETTLES_IN;
    lh_rate_bucket_set_limit(&of->left, us_per_minute(share), now_us);
    lh_rate_bucket_spend(&of->left, used_us, now_us);
}

int64_t lh_reading_ledger_wait_us(lh_reading_ledger *ledger, const lh_reading_share *share,
                                  int64_t now_us) {
    entry *of = find(ledger, share->client);
    if (!of)
        return 0;
    lh_rate_bucket_set_limit(&of->left, us_per_minute(share), now_us);
    return lh_rate_bucket_wait_us(&of->left, 1, now_us);
}

int64_t lh_reading_ledger_settled_us(lh_reading_ledger *ledger, uint64_t client, int64_t now_us) {
    const entry *of = find(ledger, client);
    return of ? lh_max_i64(of->settled_us, now_us) : now_us;
}
