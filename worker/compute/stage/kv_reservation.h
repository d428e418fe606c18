/* What a step holds of the sequences in it: a pin on each, and the positions that it reserved. A
 * step that fails takes its positions back; later steps of the same sequence that had begun on top
 * of them are stale from then on. Thread: the compute thread. */
#pragma once

#include "common/base/status.h"
#include "worker/compute/stage/batch.h"
#include "worker/compute/stage/kv_cache.h"

typedef struct lh_kv_reservation {
    lh_kv_sequence *sequence;
    uint32_t first_position, rows;
    uint32_t before; /* positions that the sequence had: 0 where it was forked */
    bool stale;      /* positions below the first have been taken back */
} lh_kv_reservation;

/* One reservation for each segment: forks the sequence where the segment says so, pins it, reserves
 * its pages and adds the rows to its length. Segments of one sequence follow each other.
 * LH_ERR_INVALID: a segment does not continue its sequence, or as lh_kv_cache_fork; LH_ERR_BUSY,
 * LH_ERR_LIMIT, LH_ERR_NO_MEMORY as lh_kv_cache_reserve. On an error nothing is changed. */
lh_status lh_kv_reservations_take(lh_kv_cache *cache, const lh_batch *batch,
                                  lh_kv_reservation *reservations, lh_error *error);
/* Before the rows are computed: marks them as written. LH_ERR_CANCELLED: a reservation is stale, or
 * every sequence has been freed; LH_ERR_INVALID: an earlier step of the sequence is
 * unfinished. */
lh_status lh_kv_reservations_start(const lh_kv_reservation *reservations, uint32_t count,
                                   lh_error *error);
/* Gives the positions back, where they are still there. */
void lh_kv_reservations_take_back(lh_kv_cache *cache, const lh_kv_reservation *reservations,
                                  uint32_t count);
/* `gone` are about to be taken back: the reservations of another step that stand on them become
 * stale. */
void lh_kv_reservations_go_stale(lh_kv_reservation *reservations, uint32_t count,
                                 const lh_kv_reservation *gone, uint32_t gone_count);
/* Unpins; always the last. */
void lh_kv_reservations_drop(lh_kv_cache *cache, const lh_kv_reservation *reservations,
                             uint32_t count);
