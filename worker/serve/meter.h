/* What a stage costs, kept up from the steps that it computes (lh_compute_profile). It starts from
 * a calibration, and each step corrects it: a machine that turns slower, or shares its cores, shows
 * within a second or two of traffic. One step or two that took far longer, or less, than is
 * believed move nothing: a third has to say the same. Steps of different lengths keep the
 * proportions in which they were calibrated, but for a factor of 2, so that any step tells of all.
 * Sans-I/O: time is an argument. Nothing is allocated. Thread: one at a time. */
#pragma once

#include "common/protocol/measurements.h"

/* A step that was computed well: what it had to do, and the compute thread's time on it. */
typedef struct lh_step_cost {
    uint32_t rows;
    double attended;       /* sum over its rows of the positions before each */
    uint32_t draws;        /* rows that drew a token, on the last stage */
    uint32_t extra_shards; /* column shards after the first, of what it took and of what it gave */
    int64_t busy_us;
} lh_step_cost;

/* By what the last samples were off, as natural logarithms, the newest first; 0 where there was
 * none, or it was believed. So many agree before one that is far off is believed. */
#define LH_METER_WITNESSES_OF_ALL  2u
#define LH_METER_WITNESSES_OF_KIND 4u

/* A time that is followed. */
typedef struct lh_meter_track {
    double us; /* the estimate */
    double recent[LH_METER_WITNESSES_OF_KIND];
} lh_meter_track;

/* The points; attention, the first draw, each further one, a shard; the machine's speed. */
#define LH_METER_STATES (LH_COMPUTE_POINTS_MAX + 5u)

typedef struct lh_stage_meter {
    uint32_t point_count;
    uint32_t rows[LH_COMPUTE_POINTS_MAX]; /* ascending */
    lh_meter_track points[LH_COMPUTE_POINTS_MAX];
    /* The least that has been believed of each of late; 0: it has had no step. */
    double least_us[LH_COMPUTE_POINTS_MAX];
    /* As they were calibrated, the points and what follows them but for the speed; 0: not. */
    double calibrated_us[LH_METER_STATES - 1];
    uint32_t anchor;                          /* the point whose steps were believed last */
    double recent[LH_METER_WITNESSES_OF_ALL]; /* of samples of any kind */
    lh_meter_track overhead;
    /* of the natural logarithms: how unsure each is, and which would be wrong together */
    double covariance[LH_METER_STATES][LH_METER_STATES];
    double us_per_row_position, draw_us, draw_more_us, shard_us;
    double take_share, give_share;
    uint32_t unsettled_steps; /* the next ones, which do not count */
    bool is_held;             /* no step counts now */
    int64_t sampled_at_us;
} lh_stage_meter;

/* calibrated: point_count may be 0; the first step is then all that is known. */
void lh_stage_meter_init(lh_stage_meter *meter, const lh_compute_profile *calibrated,
                         int64_t now_us);
/* The stage's place in a chain has changed, or the process was stopped: its next few steps do not
 * count. */
void lh_stage_meter_unsettle(lh_stage_meter *meter);
/* While the machine does something else for this very worker no step counts, nor do the next few
 * when that is over. */
void lh_stage_meter_hold(lh_stage_meter *meter, bool is_held);
/* A sample without rows or time, or beyond reason, is ignored. */
void lh_stage_meter_note_step(lh_stage_meter *meter, const lh_step_cost *cost, int64_t now_us);
/* What one step that had the worker for itself took outside of the arithmetic. */
void lh_stage_meter_note_overhead(lh_stage_meter *meter, int64_t us);
/* Points ascend in rows and in time. */
void lh_stage_meter_read(const lh_stage_meter *meter, int64_t now_us, lh_compute_profile *profile);
