/* How often values fell between given bounds. Observing one takes neither a lock nor memory: two
 * additions, so that it may be done for each token. Who reads meanwhile may see the count of a
 * value without its part of the sum; the buckets always add up to the count. Thread: any, but for
 * _init. */
#pragma once

#include "common/metrics/counter.h"

#define LH_HISTOGRAM_BOUNDS_MAX 24u
/* Values are kept in millionths: of seconds as of tokens. */
#define LH_HISTOGRAM_UNIT 1000000

typedef struct lh_histogram {
    const double *bounds; /* [bound_count], ascending: a value counts in the first it is not over */
    uint32_t bound_count;
    lh_counter buckets[LH_HISTOGRAM_BOUNDS_MAX + 1]; /* the last one: over all bounds */
    lh_counter sum;                                  /* in millionths */
} lh_histogram;

/* The bounds outlive it. bound_count: 1..LH_HISTOGRAM_BOUNDS_MAX. */
void lh_histogram_init(lh_histogram *histogram, const double *bounds, uint32_t bound_count);
/* A time in microseconds, of a histogram in seconds; one that is negative counts as 0. */
void lh_histogram_observe_us(lh_histogram *histogram, int64_t us);
/* A number of things. */
void lh_histogram_observe_count(lh_histogram *histogram, uint64_t count);
/* How many values there have been. */
uint64_t lh_histogram_count(const lh_histogram *histogram);
