/* Buckets of their own, which are added up by who reads. */
#include "common/metrics/histogram.h"

#include <assert.h>

void lh_histogram_init(lh_histogram *histogram, const double *bounds, uint32_t bound_count) {
    assert(bound_count > 0 && bound_count <= LH_HISTOGRAM_BOUNDS_MAX);
    for (uint32_t i = 1; i < bound_count; i++)
        assert(bounds[i - 1] < bounds[i]);
    *histogram = (lh_histogram){.bounds = bounds, .bound_count = bound_count};
}

static void observe(lh_histogram *histogram, double value, uint64_t millionths) {
    uint32_t bucket = 0;
    while (bucket < histogram->bound_count && value > histogram->bounds[bucket])
        bucket++;
    lh_counter_add(&histogram->buckets[bucket], 1);
    lh_counter_add(&histogram->sum, millionths);
}

void lh_histogram_observe_us(lh_histogram *histogram, int64_t us) {
    int64_t known_us = us > 0 ? us : 0;
    observe(histogram, (double)known_us / LH_HISTOGRAM_UNIT, (uint64_t)known_us);
}

void lh_histogram_observe_count(lh_histogram *histogram, uint64_t count) {
    observe(histogram, (double)count, count * LH_HISTOGRAM_UNIT);
}

uint64_t lh_histogram_count(const lh_histogram *histogram) {
    uint64_t count = 0;
    for (uint32_t i = 0; i <= histogram->bound_count; i++)
        count += lh_counter_read(&histogram->buckets[i]);
    return count;
}
