/* How much processor time the reading of requests has lately taken, client by client: a client is a
 * name in the list of keys, or an address where no keys are asked for. A client that the ledger
 * does not know has used nothing. The ledger has a fixed size; where it is full, a client that has
 * used little is forgotten. Sans-I/O: the time is an argument. Thread: its owner's. */
#pragma once

#include "common/base/status.h"

#include <stdint.h>

/* Processor time that settles a client's use while a microsecond goes by is a quarter of it. Who
 * uses more for long is one of those who use much. */
#define LH_READING_SETTLES_IN 4

typedef struct lh_reading_ledger lh_reading_ledger;

/* What a client may use. */
typedef struct lh_reading_share {
    uint64_t client;
    uint32_t ms_per_minute; /* 0: without a limit */
} lh_reading_share;

/* LH_ERR_NO_MEMORY. */
lh_status lh_reading_ledger_create(lh_reading_ledger **ledger, lh_error *error);
/* NULL is allowed. */
void lh_reading_ledger_destroy(lh_reading_ledger *ledger);

/* The client has used so much, which may be more than it has left. */
void lh_reading_ledger_spend(lh_reading_ledger *ledger, const lh_reading_share *share,
                             uint64_t used_us, int64_t now_us);
/* Until the client has time left again, if it uses none meanwhile; 0: it has some now. */
int64_t lh_reading_ledger_wait_us(lh_reading_ledger *ledger, const lh_reading_share *share,
                                  int64_t now_us);
/* When all that the client has used will have settled, at LH_READING_SETTLES_IN; now_us: it has. */
int64_t lh_reading_ledger_settled_us(lh_reading_ledger *ledger, uint64_t client, int64_t now_us);
