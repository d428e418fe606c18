/* What a worker has measured of itself and of the hop after it: what it reports to the gateway
 * (CONTROL.md), and what the gateway's cost model predicts from. Plain values; estimates carry the
 * age of their newest sample. Times are in microseconds, as doubles, since a shard may take less
 * than one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LH_COMPUTE_POINTS_MAX 12u

/* How fast a machine is, whatever it serves: the time of products with quantized weights that were
 * made up for it, on all of the worker's threads. Measured once, at the worker's start, and the
 * same until its end, so that what is planned by it does not waver. Only figures of different
 * machines beside each other mean something. */
typedef struct lh_machine_speed {
    double prompt_us; /* for each MiB of weights: one row of many. 0: not measured */
    double token_us;  /* for each MiB of weights: a row alone */
} lh_machine_speed;

/* The time of one step on this worker's stage, all of its layers. In all a step of r rows from
 * position p on takes us(r) + us_per_row_position * (r p + r (r - 1) / 2) + shard_us * (column
 * shards after the first, of what it takes and of what it gives), and where rows draw a token
 * draw_us + draw_more_us * (those after the first): they share one pass over the output head. */
typedef struct lh_compute_point {
    uint32_t rows;
    double us; /* of rows that attend to nothing but themselves, and of which none draws a token */
} lh_compute_point;

typedef struct lh_compute_profile {
    uint32_t point_count; /* 0: not measured yet */
    /* ascending in rows; linear between them, and beyond the last along the line through the last
     * two */
    lh_compute_point points[LH_COMPUTE_POINTS_MAX];
    /* what each row costs on top for each position before it: attention */
    double us_per_row_position;
    /* of the time: the first products, which take column shards as they come; the last one, which
     * gives them */
    double take_share, give_share;
    double draw_us,
        /* what the first row of a step that draws a token costs on top, and what each further one:
         * on the last stage, else 0 */
        draw_more_us;
    double shard_us; /* what each column shard after the first costs more */
    double step_us;  /* outside of the arithmetic: queues, encoding, frames, for each step */
    /* as many times as long as when the stage was calibrated, or as at its quickest since, the last
     * steps took; 0: not known */
    double calibrated_times;
    int64_t age_us;
} lh_compute_profile;

/* The way to the next hop: the worker's connection to the one after it, or to the gateway. */
typedef struct lh_hop_profile {
    bool present, connected;
    /* not connected, since at the other end nobody listens: its machine said so */
    bool refused;
    int64_t round_trip_us; /* the least of late: without queues. 0: unknown */
    double bytes_per_us;   /* one way, what the connection carries when it is full; 0: unknown */
    bool bytes_per_us_is_bound;    /* it is at least that: nothing has filled the connection yet */
    double bytes_per_us_deviation; /* mean absolute deviation of the samples */
    /* what may leave at once, before anything has been acknowledged: the congestion window. Less
     * than rate times round trip: the connection is cold */
    double ready_bytes;
    int64_t age_us;                        /* of the rate */
    uint64_t bytes_sent, probe_bytes_sent; /* the second is a part of the first */
} lh_hop_profile;
