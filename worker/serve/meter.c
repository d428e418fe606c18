/* How one number, a step's time, corrects a dozen estimates: a Kalman filter (R. E. Kalman, "A New
 * Approach to Linear Filtering and Prediction Problems", 1960) of their logarithms, in which a
 * factor on a time is a difference.
 *
 * The time of a step is predicted as a sum: the base time of its rows (linear between two points),
 * attention, draws, extra shards. What the measured time differs from that, as a factor, is passed
 * on to the estimates. How much each gets follows from why times change:
 *
 *   - the machine gets slower or faster, from second to second: all times by the same factor. So
 *     decode steps also correct what is believed of prefill steps of 512, before the next one
 *     comes;
 *   - what one kind of step takes beside another hardly changes, but a calibration knows it to a
 *     fifth, since it saw each kind at another moment. So each point learns from its own steps,
 *     much at first and ever less: points that are compared to choose a chunk's length are then
 *     known to two or three per cent also where the machine swings by ten.
 *
 * With h the share of each estimate in the prediction, and 1 of the speed, P the covariance and R
 * the noise of a time, a step moves them by P h / (h' P h + R) of the difference, and P becomes P -
 * P h h' P / (h' P h + R).
 *
 * A sample is believed not beyond a factor, and only where the last three of its kind agree that
 * there is a change: their median counts. So one step during which the thread was not on its core
 * moves nothing, and the second and third one after a change already do. */
#include "worker/serve/meter.h"

#include <math.h>
#include <string.h>

/* Standard deviations of logarithms, so about parts of a time. At first, the machine's speed and
 * each estimate beside the others; and what attention takes, which a calibration has to guess where
 * the machine is slow: */
#define SPEED_START     0.2
#define OWN_START       0.2
#define ATTENTION_START 0.5
/* What a second adds to them (as variances: the squares add up), for DRIFT_S_MAX seconds at most
 * and up to DEVIATION_MAX: */
#define SPEED_DRIFT   0.05
#define OWN_DRIFT     0.002
#define DRIFT_S_MAX   10.0
#define DEVIATION_MAX 0.3
/* Of a step's time, and more where it is short: */
#define NOISE    0.08
#define NOISE_US 100.0
/* A difference of more than this many deviations: either the machine has changed, or what was
 * believed of this kind of step was wrong all the time. Both are held to be as likely, and the
 * covariance keeps that they exclude each other: the next step of another kind tells. */
#define SURPRISE 4.0
/* How far one sample moves the estimate of the time outside of the arithmetic. */
#define OVERHEAD_GAIN 0.1
/* A sample that is further off counts as one that is off by this factor. */
#define FACTOR_MAX 4.0
/* Samples that are older say nothing about whether a new one is an outlier. */
#define RECENT_US 5000000
/* What is known better counts no more than this. */
#define VARIANCE_MIN 1e-6
/* Rows beyond the last point by this factor make a point of their own. */
#define STRETCH 2.0
/* Of a step outside of the arithmetic, before one has been seen: two thread wake-ups and a few
 * frames on an ordinary machine. */
#define OVERHEAD_US 100.0

/* Eleven days: no step takes as long, and no estimate gets there. */
#define TIME_US_MAX 1e12
/* Estimates that are there stay there: a factor could not bring back a zero. */
#define TIME_US_MIN 1e-6
/* Thousands of rows that each look back on millions of positions. */
#define ATTENDED_MAX 1e12

/* The estimates in one row: the points, and behind them these. In the covariance the machine's
 * speed follows, which is no estimate by itself: a step tells it and the estimates, each beside it,
 * from one another. */
enum {
    ATTENTION = LH_COMPUTE_POINTS_MAX,
    DRAW,
    DRAW_MORE,
    SHARD,
    ESTIMATES,
    SPEED = ESTIMATES,
    STATES = LH_METER_STATES
};

static double bounded(double value, double least, double most) {
    return value < least ? least : value > most ? most : value;
}

static double positive(double value) {
    return value > 0 && isfinite(value) ? value : 0;
}

/* ---- A track ---- */

static double median_of_3(double a, double b, double c) {
    double low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

/* Remembers what a sample would make of the logarithm of the estimate, and returns what the last
 * ones together make of it. */
static double note_level(lh_meter_track *track, double level, int64_t now_us) {
    if (now_us - track->recent_at_us > RECENT_US)
        track->recent_count = 0;
    double agreed =
        track->recent_count == 2 ? median_of_3(level, track->recent[0], track->recent[1]) : level;
    track->recent[1] = track->recent[0];
    track->recent[0] = level;
    track->recent_count += track->recent_count < 2;
    track->recent_at_us = now_us;
    return agreed;
}

/* ---- Points ---- */

/* The two points around these rows and the second one's part: 1 beyond the last. */
typedef struct place {
    uint32_t low, high;
    double part;
} place;

static place find_place(const lh_stage_meter *meter, uint32_t rows) {
    uint32_t last = meter->point_count - 1, high = 0;
    while (high < last && meter->rows[high] < rows)
        high++;
    if (high == 0 || meter->rows[high] <= rows)
        return (place){high, high, 1};
    double gap = meter->rows[high] - meter->rows[high - 1];
    return (place){high - 1, high, (rows - meter->rows[high - 1]) / gap};
}

/* Base time of these rows: between the points, or along the line through the last two. */
static double base_us(const lh_stage_meter *meter, uint32_t rows) {
    uint32_t last = meter->point_count - 1;
    place at = find_place(meter, rows);
    double us = (1 - at.part) * meter->points[at.low].us + at.part * meter->points[at.high].us;
    if (rows > meter->rows[last]) {
        double slope = last > 0 ? (meter->points[last].us - meter->points[last - 1].us) /
                                      (meter->rows[last] - meter->rows[last - 1])
                                : meter->points[last].us / meter->rows[last];
        us += positive(slope) * (rows - meter->rows[last]);
    }
    return us;
}

static bool wants_point(const lh_stage_meter *meter, uint32_t rows) {
    return meter->point_count < LH_COMPUTE_POINTS_MAX &&
           (meter->point_count == 0 || rows >= STRETCH * meter->rows[meter->point_count - 1]);
}

static void put_point(lh_stage_meter *meter, uint32_t rows, double us) {
    meter->rows[meter->point_count] = rows;
    meter->points[meter->point_count++] = (lh_meter_track){.us = us};
}

/* ---- What is believed ---- */

static bool is_there(const lh_stage_meter *meter, uint32_t i) {
    return i >= ATTENTION || i < meter->point_count;
}

/* How far what changes one estimate beside the others changes another: points half as far as those
 * of half the rows. */
static double kinship(const lh_stage_meter *meter, uint32_t i, uint32_t j) {
    if (i == j)
        return 1;
    if (i >= ATTENTION || j >= ATTENTION)
        return 0;
    return i < j ? (double)meter->rows[i] / meter->rows[j]
                 : (double)meter->rows[j] / meter->rows[i];
}

/* Adds to the variances of the speed and of each estimate beside it, where they are at most
 * `most`. */
static void doubt(lh_stage_meter *meter, double speed, double own, double most) {
    bool grows[ESTIMATES];
    for (uint32_t i = 0; i < ESTIMATES; i++)
        grows[i] = is_there(meter, i) && meter->covariance[i][i] <= most;
    for (uint32_t i = 0; i < ESTIMATES; i++)
        for (uint32_t j = 0; grows[i] && j < ESTIMATES; j++)
            meter->covariance[i][j] += grows[j] ? own * kinship(meter, i, j) : 0;
    meter->covariance[SPEED][SPEED] += meter->covariance[SPEED][SPEED] <= most ? speed : 0;
}

static void doubt_by_time(lh_stage_meter *meter, int64_t elapsed_us) {
    double elapsed_s = bounded((double)elapsed_us * 1e-6, 0, DRIFT_S_MAX);
    doubt(meter, SPEED_DRIFT * SPEED_DRIFT * elapsed_s, OWN_DRIFT * OWN_DRIFT * elapsed_s,
          DEVIATION_MAX * DEVIATION_MAX);
}

/* The same for what a step of these shares consists of, and for what is akin to that. */
static void doubt_parts(lh_stage_meter *meter, const double shares[STATES], double variance) {
    double along[ESTIMATES] = {0};
    for (uint32_t i = 0; i < ESTIMATES; i++)
        for (uint32_t j = 0; is_there(meter, i) && j < ESTIMATES; j++)
            along[i] += shares[j] > 0 ? kinship(meter, i, j) * shares[j] : 0;
    for (uint32_t i = 0; i < ESTIMATES; i++)
        for (uint32_t j = 0; j < ESTIMATES; j++)
            meter->covariance[i][j] += variance * along[i] * along[j];
}

/* The last point has only now been put there: as unsure as the one before it, the first as
 * attention, and a little more. */
static void doubt_last_point(lh_stage_meter *meter) {
    uint32_t last = meter->point_count - 1, like = last > 0 ? last - 1 : ATTENTION;
    for (uint32_t i = 0; i < STATES; i++)
        meter->covariance[last][i] = meter->covariance[i][last] = meter->covariance[like][i];
    meter->covariance[last][last] = meter->covariance[like][like] + OWN_START * OWN_START;
}

/* P h, for the shares that a prediction has of each estimate, and all of the speed; returns h' P h.
 */
static double doubt_of(const lh_stage_meter *meter, const double shares[STATES],
                       double along[STATES]) {
    double variance = 0;
    for (uint32_t i = 0; i < STATES; i++) {
        along[i] = 0;
        for (uint32_t j = 0; j < STATES; j++)
            along[i] += meter->covariance[i][j] * shares[j];
        variance += shares[i] * along[i];
    }
    return variance;
}

/* ---- A step ---- */

/* All but the base time. */
static double besides(const double parts[ESTIMATES]) {
    return parts[ATTENTION] + parts[DRAW] + parts[DRAW_MORE] + parts[SHARD];
}

/* The parts of the time that is predicted, by estimate; returns their sum. */
static double predict(const lh_stage_meter *meter, const lh_step_cost *cost,
                      double parts[ESTIMATES]) {
    place at = find_place(meter, cost->rows);
    double base = base_us(meter, cost->rows);
    memset(parts, 0, ESTIMATES * sizeof parts[0]);
    parts[at.low] += (1 - at.part) * meter->points[at.low].us;
    parts[at.high] += base - parts[at.low];
    parts[ATTENTION] = meter->us_per_row_position * cost->attended;
    parts[DRAW] = cost->draws > 0 ? meter->draw_us : 0;
    parts[DRAW_MORE] = cost->draws > 1 ? meter->draw_more_us * (cost->draws - 1) : 0;
    parts[SHARD] = meter->shard_us * cost->extra_shards;
    return base + besides(parts);
}

static double scaled(double us, double factor) {
    return us > 0 ? bounded(us * factor, TIME_US_MIN, TIME_US_MAX) : 0;
}

static void scale_by(lh_stage_meter *meter, const double factors[ESTIMATES]) {
    for (uint32_t i = 0; i < meter->point_count; i++)
        meter->points[i].us = scaled(meter->points[i].us, factors[i]);
    meter->us_per_row_position = scaled(meter->us_per_row_position, factors[ATTENTION]);
    meter->draw_us = scaled(meter->draw_us, factors[DRAW]);
    meter->draw_more_us = scaled(meter->draw_more_us, factors[DRAW_MORE]);
    meter->shard_us = scaled(meter->shard_us, factors[SHARD]);
}

/* The estimates move towards what a step of these shares was off by; noise: the variance of such a
 * step's time. */
static void correct(lh_stage_meter *meter, const double shares[STATES], double residual,
                    double noise) {
    double along[STATES], factors[ESTIMATES];
    double variance = noise + doubt_of(meter, shares, along);
    if (residual * residual > SURPRISE * SURPRISE * variance) {
        meter->covariance[SPEED][SPEED] += residual * residual / 2;
        doubt_parts(meter, shares, residual * residual / 2);
        variance = noise + doubt_of(meter, shares, along);
    }
    for (uint32_t i = 0; i < ESTIMATES; i++)
        factors[i] = exp(residual * (along[SPEED] + along[i]) / variance);
    for (uint32_t i = 0; i < STATES; i++)
        for (uint32_t j = 0; j < STATES; j++)
            meter->covariance[i][j] -= along[i] * along[j] / variance;
    scale_by(meter, factors);
}

/* A step of far more rows than any before: what the line through the others would say of it was a
 * guess, so that it says nothing about them. */
static void add_point_of(lh_stage_meter *meter, const lh_step_cost *cost) {
    double parts[ESTIMATES] = {0}, busy_us = (double)cost->busy_us;
    if (meter->point_count > 0)
        predict(meter, cost, parts);
    double base = busy_us - besides(parts);
    double least = meter->point_count > 0 ? meter->points[meter->point_count - 1].us : 0;
    put_point(meter, cost->rows, base > least ? base : least);
    doubt_last_point(meter);
}

void lh_stage_meter_note_step(lh_stage_meter *meter, const lh_step_cost *cost, int64_t now_us) {
    double parts[STATES], busy_us = (double)cost->busy_us;
    if (cost->rows == 0 || cost->busy_us <= 0 || busy_us > TIME_US_MAX || !(cost->attended >= 0) ||
        cost->attended > ATTENDED_MAX) {
        return;
    }
    doubt_by_time(meter, now_us - meter->sampled_at_us);
    meter->sampled_at_us = now_us;
    if (wants_point(meter, cost->rows)) {
        add_point_of(meter, cost);
        return;
    }
    place at = find_place(meter, cost->rows);
    lh_meter_track *near = &meter->points[at.part < 0.5 ? at.low : at.high];
    double sum = predict(meter, cost, parts), noise = NOISE + NOISE_US / busy_us;
    double level = log(near->us) + log(busy_us / sum);
    double residual = note_level(near, level, now_us) - log(near->us);
    for (uint32_t i = 0; i < ESTIMATES; i++)
        parts[i] /= sum;
    parts[SPEED] = 1;
    correct(meter, parts, bounded(residual, -log(FACTOR_MAX), log(FACTOR_MAX)), noise * noise);
}

void lh_stage_meter_note_overhead(lh_stage_meter *meter, int64_t us, int64_t now_us) {
    lh_meter_track *track = &meter->overhead;
    if (us <= 0 || (double)us > TIME_US_MAX)
        return;
    double residual = note_level(track, log((double)us), now_us) - log(track->us);
    track->us = scaled(track->us,
                       exp(OVERHEAD_GAIN * bounded(residual, -log(FACTOR_MAX), log(FACTOR_MAX))));
}

/* ---- Start and end ---- */

void lh_stage_meter_init(lh_stage_meter *meter, const lh_compute_profile *calibrated,
                         int64_t now_us) {
    *meter = (lh_stage_meter){.us_per_row_position = positive(calibrated->us_per_row_position),
                              .draw_us = positive(calibrated->draw_us),
                              .draw_more_us = positive(calibrated->draw_more_us),
                              .shard_us = positive(calibrated->shard_us),
                              .take_share = calibrated->take_share,
                              .give_share = calibrated->give_share,
                              .overhead.us = OVERHEAD_US,
                              .sampled_at_us = now_us - calibrated->age_us};
    for (uint32_t i = 0; i < calibrated->point_count; i++)
        if (positive(calibrated->points[i].us) > 0)
            put_point(meter, calibrated->points[i].rows, calibrated->points[i].us);
    doubt(meter, SPEED_START * SPEED_START, OWN_START * OWN_START, INFINITY);
    meter->covariance[ATTENTION][ATTENTION] += ATTENTION_START * ATTENTION_START;
}

/* Points that are believed to take the same, since they cannot take less than those of fewer rows.
 */
typedef struct level {
    double us, weight;
    uint32_t point_count;
} level;

static double weight_of(const lh_stage_meter *meter, uint32_t point) {
    double variance = meter->covariance[SPEED][SPEED] + 2 * meter->covariance[SPEED][point] +
                      meter->covariance[point][point];
    return 1 / (variance > VARIANCE_MIN ? variance : VARIANCE_MIN);
}

/* The ascending times that are nearest to the estimates, those that are known well counting for
 * more: pool adjacent violators (Ayer et al., "An Empirical Distribution Function for Sampling with
 * Incomplete Information", 1955). Each makes a level that swallows the ones before it that are
 * above. */
static uint32_t ascend(const lh_stage_meter *meter, level levels[LH_COMPUTE_POINTS_MAX]) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < meter->point_count; i++) {
        level top = {meter->points[i].us, weight_of(meter, i), 1};
        for (; count > 0 && levels[count - 1].us > top.us; count--) {
            level below = levels[count - 1];
            double weight = below.weight + top.weight;
            top = (level){(below.us * below.weight + top.us * top.weight) / weight, weight,
                          below.point_count + top.point_count};
        }
        levels[count++] = top;
    }
    return count;
}

void lh_stage_meter_read(const lh_stage_meter *meter, int64_t now_us, lh_compute_profile *profile) {
    level levels[LH_COMPUTE_POINTS_MAX];
    uint32_t level_count = ascend(meter, levels);
    *profile = (lh_compute_profile){.us_per_row_position = meter->us_per_row_position,
                                    .take_share = meter->take_share,
                                    .give_share = meter->give_share,
                                    .draw_us = meter->draw_us,
                                    .draw_more_us = meter->draw_more_us,
                                    .shard_us = meter->shard_us,
                                    .step_us = meter->overhead.us,
                                    .age_us = now_us - meter->sampled_at_us};
    for (uint32_t i = 0; i < level_count; i++) {
        for (uint32_t j = 0; j < levels[i].point_count; j++) {
            profile->points[profile->point_count] =
                (lh_compute_point){meter->rows[profile->point_count], levels[i].us};
            profile->point_count++;
        }
    }
}
