/* The numbers under which a chain is formed: they only grow, and no two chains ever have the same.
 *
 * A gateway that restarts has forgotten the last one, so the numbers go on from the wall clock's
 * seconds, or from the greatest that a worker still has. Thread: one at a time. */
#pragma once

#include <stdint.h>

typedef struct lh_epoch_counter {
    uint32_t first;          /* the wall clock's seconds at created_us */
    uint32_t stride, offset; /* each epoch is a multiple of the stride and the offset */
    int64_t created_us;
    uint32_t last; /* the last one that was given out or seen */
} lh_epoch_counter;

/* stride: 0 is 1. offset < stride. */
void lh_epoch_counter_init(lh_epoch_counter *counter, uint32_t first, uint32_t stride,
                           uint32_t offset, int64_t now_us);
/* The least epoch that may be given out now: greater than all before. */
uint32_t lh_epoch_counter_next(const lh_epoch_counter *counter, int64_t now_us);
/* This one, which _next gave, is in use from now on. */
void lh_epoch_counter_take(lh_epoch_counter *counter, uint32_t epoch);
/* A worker has this one from an earlier gateway: perhaps of this very second, or of a clock that
 * has been set back since. It is not given out again. A number that no clock can have been ahead to
 * is not believed. */
void lh_epoch_counter_skip(lh_epoch_counter *counter, uint64_t reported, int64_t now_us);
