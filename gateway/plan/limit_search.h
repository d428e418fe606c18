/* The best layout for one size of step, by way of a finder that knows the shortest ring whose
 * stages and wires all keep a limit: since an aim's value grows with ring and busiest, the best
 * layout is the shortest ring for some limit (aim.h).
 *
 * Not every limit is tried. A ring found for a limit has a busiest part b of its own, so limits
 * between the two have nothing better; and of an interval of limits below b no layout is better
 * than the shortest ring so far with the interval's lower end as its busiest part. The interval
 * that promises most is tried next, until none promises anything: with an exact finder what is
 * found is the best there is. Thread: one at a time. */
#pragma once

#include "gateway/plan/part_costs.h"

/* The shortest ring whose stages and wires take busiest_max_us at most; INFINITY: any. A ring of
 * ring->ring_us or more, as it is when this is called, is of no use: it need not be found. False:
 * there is none, or the finder found none. */
typedef bool (*lh_ring_finder)(void *context, double busiest_max_us, lh_part_ring *ring);

typedef struct lh_limit_search {
    lh_ring_finder find;
    void *context;
    const lh_aim *aim;
    const lh_aim_size *size;
    uint32_t tries_max; /* of the finder, which may cost much or not be exact */
    double from_us;     /* the greatest limit that is tried; 0: none */
    /* no ring is shorter, and no ring's busiest part; 0: that is not known */
    double ring_least_us, busiest_least_us;
} lh_limit_search;

typedef struct lh_found {
    double value; /* INFINITY: nothing yet */
    lh_part_ring ring;
    lh_aim_size size;
} lh_found;

/* Replaces *best where something better is found. */
void lh_limit_search_run(const lh_limit_search *search, lh_found *best);
