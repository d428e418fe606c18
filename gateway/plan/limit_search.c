/* Keeps the intervals in a list: there are few, and a heap would be no quicker. */
#include "gateway/plan/limit_search.h"

#include <assert.h>
#include <math.h>

#define INTERVALS_MAX 512u

/* Better by less than this is not better: sums are rounded. */
#define ROUNDING 1e-12

/* What is left of the interval in which the greatest ring is looked for. */
#define HALVINGS 24u

/* Limits above `low` and up to `high`, none of whose rings is shorter than ring_us. */
typedef struct interval {
    double low_us, high_us, ring_us;
    double promise; /* no value in it is less */
} interval;

typedef struct intervals {
    uint32_t count;
    interval items[INTERVALS_MAX];
} intervals;

static bool is_promising(const interval *i, const lh_found *best) {
    return i->promise < best->value * (1 - ROUNDING) ||
           (isinf(best->value) && isfinite(i->promise));
}

/* Where there is no room it is not tried: there is room for as many as halving makes. */
static void push(intervals *all, const lh_limit_search *search, double low_us, double high_us,
                 double ring_us) {
    assert(low_us <= high_us && ring_us >= 0);
    double promise = lh_aim_value(search->aim, search->size, ring_us, low_us);
    if (all->count < INTERVALS_MAX)
        all->items[all->count++] = (interval){low_us, high_us, ring_us, promise};
}

static interval pop(intervals *all) {
    uint32_t best = 0;
    assert(all->count > 0);
    for (uint32_t i = 1; i < all->count; i++)
        if (all->items[i].promise < all->items[best].promise)
            best = i;
    interval popped = all->items[best];
    all->items[best] = all->items[--all->count];
    return popped;
}

static void consider(const lh_limit_search *search, const lh_part_ring *ring, lh_found *best) {
    double value = lh_aim_value(search->aim, search->size, ring->ring_us, ring->busiest_us);
    if (value < best->value * (1 - ROUNDING) || (isinf(best->value) && isfinite(value)))
        *best = (lh_found){value, *ring, *search->size};
}

/* No ring that is longer makes anything better in this interval. */
static double greatest_ring(const lh_limit_search *search, const interval *i,
                            const lh_found *best) {
    double low_us = i->ring_us, high_us = fmax(low_us, 1);
    if (isinf(best->value))
        return INFINITY;
    while (lh_aim_value(search->aim, search->size, high_us, i->low_us) < best->value)
        high_us *= 2;
    for (uint32_t halvings = 0; halvings < HALVINGS; halvings++) {
        double middle_us = (low_us + high_us) / 2;
        bool is_better =
            lh_aim_value(search->aim, search->size, middle_us, i->low_us) < best->value;
        low_us = is_better ? middle_us : low_us;
        high_us = is_better ? high_us : middle_us;
    }
    return high_us;
}

void lh_limit_search_run(const lh_limit_search *search, lh_found *best) {
    intervals all = {0};
    lh_part_ring ring;
    push(&all, search, search->busiest_least_us, search->from_us > 0 ? search->from_us : INFINITY,
         search->ring_least_us);
    for (uint32_t tries = 0; all.count > 0 && tries < search->tries_max;) {
        interval i = pop(&all);
        if (!is_promising(&i, best))
            break; /* nor is any other */
        tries++;
        assert(i.low_us <= i.high_us);
        ring.ring_us = greatest_ring(search, &i, best);
        if (!search->find(search->context, i.high_us, &ring))
            continue;
        consider(search, &ring, best);
        double below_us = nextafter(ring.busiest_us, 0), middle_us = (i.low_us + below_us) / 2;
        if (below_us <= i.low_us)
            continue;
        push(&all, search, middle_us, below_us, ring.ring_us);
        push(&all, search, i.low_us, middle_us, ring.ring_us);
    }
}
