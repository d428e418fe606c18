/* Which steps to time on a stage that has just been loaded, and what follows from their times: the
 * profile that a worker reports before it has served anything. Pure: who runs the trials holds the
 * stage and the clock.
 *
 *     lh_calibration_start(&c, &limits);
 *     while (lh_calibration_next(&c, &trial)) { ... run it ... lh_calibration_note(&c, &times); }
 *     lh_calibration_read(&c, &profile);
 *
 * Thread: one at a time. */
#pragma once

#include "common/protocol/measurements.h"

#define LH_CALIBRATION_EMITS 3u
#define LH_CALIBRATION_DRAWS 2u

typedef struct lh_calibration_limits {
    uint32_t rows_max;      /* of one step, >= 1 */
    uint32_t positions_max; /* of one sequence: the context, and what the KV cache holds */
    uint32_t sequences_max; /* that the KV cache holds, of one position each */
    uint32_t column_blocks; /* a column shard of the result is some of these */
    bool is_last;
    /* multiplications for one row's attention to one position, as a part of those for a row's
     * products */
    double attention_part;
    double draw_part; /* those for one row of the output head, as a part of those in all layers */
    /* for all trials together, about; those that would go far beyond are left out */
    double budget_us;
} lh_calibration_limits;

typedef struct lh_calibration_trial {
    uint32_t rows;
    uint32_t position; /* 0: of a new sequence; else of the one before, which is that long */
    bool draws;        /* each row is of a sequence of its own, and draws a token */
    uint32_t shards;   /* of the result, evenly cut */
} lh_calibration_trial;

typedef struct lh_calibration_times {
    double wall_us;  /* that passed: what the trial took of the budget */
    double total_us; /* of the whole step on a machine that does nothing else */
    /* of these: to take the whole activation in one shard; the first stage takes none */
    double take_us;
    double emit_us; /* of these: from the first shard of the result on */
} lh_calibration_times;

typedef enum lh_calibration_phase {
    LH_CALIBRATE_POINTS,
    LH_CALIBRATE_ATTENTION,
    LH_CALIBRATE_DRAW,
    LH_CALIBRATE_EMIT,
    LH_CALIBRATE_DONE
} lh_calibration_phase;

/* All private. */
typedef struct lh_calibration {
    lh_calibration_limits limits;
    lh_calibration_phase phase;
    uint32_t number;                                /* of the trial's kind within its phase */
    uint32_t repeats;                               /* of that trial, done */
    double kind_us;                                 /* they took */
    double spent_us;                                /* all of them */
    double own_us;                                  /* they would have taken on an idle machine */
    lh_calibration_trial trial;                     /* the one that is being run */
    uint32_t point_count;                           /* minima of repeats */
    lh_compute_point points[LH_COMPUTE_POINTS_MAX]; /* whole steps, with their attention */
    double take_us[LH_COMPUTE_POINTS_MAX];
    double us_per_row_position;                 /* 0: not measured */
    uint32_t draw_rows;                         /* of the second trial with draws */
    double draw_total_us[LH_CALIBRATION_DRAWS]; /* 0: not measured */
    double emit_us[LH_CALIBRATION_EMITS];
} lh_calibration;

void lh_calibration_start(lh_calibration *calibration, const lh_calibration_limits *limits);
/* The next trial, to be run and noted; false: done. */
bool lh_calibration_next(lh_calibration *calibration, lh_calibration_trial *trial);
void lh_calibration_note(lh_calibration *calibration, const lh_calibration_times *noted);
/* What is known by now. No point: nothing. */
void lh_calibration_read(const lh_calibration *calibration, lh_compute_profile *profile);
