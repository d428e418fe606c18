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
 * A filter of this kind believes every number, so that one step during which the process was
 * stopped would spoil a dozen estimates. So a sample that is far from what is believed is held back
 * (a hard redescender: F. R. Hampel et al., "Robust Statistics", 1986), until others say the same:
 * they are off to the same side and by about the same factor, and the least of them counts.
 *
 *   - Three in a row, of whatever kind: the machine has changed, or this kind was never known well.
 *   - Five in a row of one kind, between which others were as believed: it is this kind alone.
 *
 * So one wrong sample or two in a row move nothing, whatever they say, and the third one after a
 * change already does. What is believed of a length that no steps have any more comes nearer to the
 * line through its neighbours, by and by.
 *
 * That alone would not do where other work holds up a machine for minutes: it slows steps of some
 * lengths far more than others. When it is over, only steps of a length that is believed to be
 * quick come, and nothing would ever correct the others. But others' work only adds to what a step
 * takes by itself; and that a calibration has measured, at most too high where it was held up, too.
 * So this is a reference, or where steps have been quicker the least that was believed of them; and
 * whatever step is believed, all others are held to the proportions of their references beside it:
 * closely where the whole machine has changed, else but for PROPORTION_FACTOR. */
#include "worker/serve/meter.h"

#include "common/base/arithmetic.h"

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
/* A sample that is off by more than that many deviations, or by more than this factor however
 * little is known, is far from what is believed. */
#define FAR_FACTOR 1.5
/* Samples say the same that differ by no more than this factor: those of a machine with other work
 * do. */
#define SAME_FACTOR 2.5
/* How much more, or less, a step is believed to take beside the last one that was believed than
 * their references say; and what is no whole step: calibrations know less of that. */
#define PROPORTION_FACTOR 2.0
#define PART_FACTOR       4.0
/* A calibration that was held up, too, is too high by no more. */
#define CORRECTION_FACTOR 4.0
/* What is known to a fifth differs by no more; what differs by more is forgotten in so long, by and
 * by. */
#define USUAL_FACTOR 1.2
#define UNUSUAL_S    60.0
/* The least that was believed of a kind of steps is forgotten, by and by: e times as much after so
 * long. One disturbance is over by then, and what was wrong at that time has its end. */
#define LEAST_S 3600.0
/* By so much of what is missing one step lowers it: one that was wrong says little. */
#define LEAST_GAIN 0.125
/* How far one sample moves the estimate of the time outside of the arithmetic: by so much of what
 * it is off by, and one that is far off as one that is just not (P. J. Huber, "Robust Estimation of
 * a Location Parameter", 1964); unless the two before it say the same, and it is off by more than
 * this factor. */
#define OVERHEAD_GAIN 0.1
#define OVERHEAD_LEAP 3.0
/* What the line through the others says of a step of many more rows is a guess. */
#define NEW_POINT_START 1.5
/* At another place in a chain pages and caches are still cold; and a stop lies within one step, or
 * between two. */
#define UNSETTLED_STEPS 2u
/* What is known better counts no more than this. */
#define VARIANCE_MIN 1e-6
/* Rows beyond the last point by this factor make a point of their own. */
#define STRETCH 2.0
/* Of a step outside of the arithmetic, before one has been seen: two thread wake-ups and a few
 * frames on an ordinary machine. */
#define OVERHEAD_US 100.0

/* What is known of one length of step beside its neighbours is forgotten in so many seconds, by and
 * by: a length that was believed too slow is not chosen, so that nothing would ever correct it. */
#define FORGETTING_S 300.0

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

static double positive(double value) {
    return value > 0 && isfinite(value) ? value : 0;
}

static double scaled(double us, double factor) {
    return us > 0 ? lh_bounded_f64(us * factor, TIME_US_MIN, TIME_US_MAX) : 0;
}

/* ---- Whether a sample is believed ---- */

/* Why; HELD_BACK: it is not. */
typedef enum belief { HELD_BACK, NEAR, ALL_SAY_SO, KIND_SAYS_SO } belief;

/* Whether all that were before say the same; then *residual is what all of them say at least. */
static bool agree(const double recent[], uint32_t count, double *residual) {
    double least = *residual, most = *residual;
    for (uint32_t i = 0; i < count; i++) {
        least = fmin(least, recent[i]);
        most = fmax(most, recent[i]);
    }
    if (least * most <= 0 || most - least > log(SAME_FACTOR))
        return false;
    *residual = *residual > 0 ? least : most;
    return true;
}

static void remember(double recent[], uint32_t count, double residual) {
    memmove(recent + 1, recent, (count - 1) * sizeof recent[0]);
    recent[0] = residual;
}

/* A sample of a kind differs from what is believed by *residual. */
static belief consider(lh_stage_meter *meter, lh_meter_track *kind, double *residual, double far) {
    double seen = *residual;
    belief why = fabs(seen) <= far                                           ? NEAR
                 : agree(meter->recent, LH_METER_WITNESSES_OF_ALL, residual) ? ALL_SAY_SO
                 : agree(kind->recent, LH_METER_WITNESSES_OF_KIND, residual) ? KIND_SAYS_SO
                                                                             : HELD_BACK;
    remember(meter->recent, LH_METER_WITNESSES_OF_ALL, seen);
    remember(kind->recent, LH_METER_WITNESSES_OF_KIND, seen);
    if (why == ALL_SAY_SO || why == KIND_SAYS_SO) {
        memset(meter->recent, 0, sizeof meter->recent);
        memset(kind->recent, 0, sizeof kind->recent);
    }
    return why;
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
    meter->points[meter->point_count++] = (lh_meter_track){.us = scaled(us, 1)};
}

/* ---- What is believed ---- */

static double *estimate_of(lh_stage_meter *meter, uint32_t i) {
    double *parts[] = {&meter->us_per_row_position, &meter->draw_us, &meter->draw_more_us,
                       &meter->shard_us};
    return i < ATTENTION ? &meter->points[i].us : parts[i - ATTENTION];
}

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
    double elapsed_s = lh_bounded_f64((double)elapsed_us * 1e-6, 0, DRIFT_S_MAX);
    doubt(meter, SPEED_DRIFT * SPEED_DRIFT * elapsed_s, OWN_DRIFT * OWN_DRIFT * elapsed_s,
          DEVIATION_MAX * DEVIATION_MAX);
}

/* Points come nearer to the line through those beside them. */
static void forget(lh_stage_meter *meter, int64_t elapsed_us) {
    double part = 1 - exp(-lh_bounded_f64((double)elapsed_us * 1e-6 / FORGETTING_S, 0, 100));
    for (uint32_t i = 1; i + 1 < meter->point_count; i++) {
        double low_us = meter->points[i - 1].us, high_us = meter->points[i + 1].us;
        double gap = meter->rows[i + 1] - meter->rows[i - 1];
        double line_us = low_us + (high_us - low_us) * (meter->rows[i] - meter->rows[i - 1]) / gap;
        meter->points[i].us = scaled(meter->points[i].us, pow(line_us / meter->points[i].us, part));
    }
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

/* The last point has only now been put there: nearly all that its steps are off by is its own. */
static void doubt_last_point(lh_stage_meter *meter) {
    uint32_t last = meter->point_count - 1, like = last > 0 ? last - 1 : ATTENTION;
    for (uint32_t i = 0; i < STATES; i++)
        meter->covariance[last][i] = meter->covariance[i][last] = meter->covariance[like][i];
    meter->covariance[last][last] =
        meter->covariance[like][like] + NEW_POINT_START * NEW_POINT_START;
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

/* ---- Proportions ---- */

/* A step takes no more than its calibration found, but for others' work; one that was not
 * calibrated no more than as many as make up its rows of the length before it. */
static double most_us(const lh_stage_meter *meter, uint32_t i, double before_us) {
    if (meter->calibrated_us[i] > 0)
        return meter->calibrated_us[i];
    if (i > 0)
        return before_us * meter->rows[i] / meter->rows[i - 1];
    return meter->least_us[i] > 0 ? meter->least_us[i] : meter->points[i].us;
}

/* A calibration that was found too high. */
static bool is_corrected(const lh_stage_meter *meter, uint32_t i) {
    return meter->calibrated_us[i] > 0 && meter->least_us[i] > 0;
}

/* As corrections go from the one to the other of the two beside it, or as the one that is on one
 * side only. */
static double part_between(const lh_stage_meter *meter, const double parts[], uint32_t i) {
    uint32_t low = i, high = i;
    while (low > 0 && !is_corrected(meter, low))
        low--;
    while (high + 1 < meter->point_count && !is_corrected(meter, high))
        high++;
    bool has_low = is_corrected(meter, low), has_high = is_corrected(meter, high);
    if (!has_low || !has_high)
        return has_low ? parts[low] : has_high ? parts[high] : 0;
    double gap = log((double)meter->rows[high] / meter->rows[low]);
    double part = gap > 0 ? log((double)meter->rows[i] / meter->rows[low]) / gap : 0;
    return parts[low] + part * (parts[high] - parts[low]);
}

/* What steps take where nothing holds them up, as far as is known; returns how many times as long
 * those of the length that was believed last are believed to take. */
static double find_references(const lh_stage_meter *meter, double reference_us[]) {
    double parts[LH_COMPUTE_POINTS_MAX], most[LH_COMPUTE_POINTS_MAX];
    for (uint32_t i = 0; i < meter->point_count; i++) {
        most[i] = most_us(meter, i, i > 0 ? reference_us[i - 1] : 0);
        double least = meter->calibrated_us[i] > 0 ? most[i] / CORRECTION_FACTOR
                       : i > 0                     ? reference_us[i - 1]
                                                   : 0;
        double seen = meter->least_us[i] > 0 ? meter->least_us[i] : most[i];
        reference_us[i] = fmax(fmin(seen, most[i]), least);
        parts[i] = log(reference_us[i] / most[i]);
    }
    for (uint32_t i = 0; i < meter->point_count; i++)
        if (meter->calibrated_us[i] > 0)
            reference_us[i] = most[i] * exp(part_between(meter, parts, i));
    return meter->point_count > 0 ? meter->points[meter->anchor].us / reference_us[meter->anchor]
                                  : 1;
}

/* It is no more than that of what it is believed to be, whatever else is. */
static void settle_at(lh_stage_meter *meter, uint32_t i, double us) {
    *estimate_of(meter, i) = scaled(us, 1);
    for (uint32_t j = 0; j < STATES; j++)
        meter->covariance[i][j] = meter->covariance[j][i] = 0;
    meter->covariance[i][i] = OWN_START * OWN_START;
}

/* Within a factor of what its reference and the machine's speed say. */
static void hold(lh_stage_meter *meter, uint32_t i, double usual_us, double factor) {
    double us = *estimate_of(meter, i);
    if (!(usual_us > 0) || !(us > 0))
        return;
    if (us > usual_us * factor)
        settle_at(meter, i, usual_us * factor);
    else if (us < usual_us / factor && meter->calibrated_us[i] > 0)
        settle_at(meter, i, usual_us / factor);
}

/* Not even one that was measured itself stays above what is usual for long, while no steps of it
 * come. */
static void forget_unusual(lh_stage_meter *meter, int64_t elapsed_us) {
    double part = 1 - exp(-lh_bounded_f64((double)elapsed_us * 1e-6 / UNUSUAL_S, 0, 100));
    double reference_us[LH_COMPUTE_POINTS_MAX], times = find_references(meter, reference_us);
    for (uint32_t i = 0; i < meter->point_count; i++) {
        double us = meter->points[i].us, usual_us = reference_us[i] * times * USUAL_FACTOR;
        if (i != meter->anchor && us > usual_us)
            meter->points[i].us = scaled(us, pow(usual_us / us, part));
    }
}

/* All are held to the proportions of their references beside the one whose steps were believed
 * last. */
static void keep_proportions(lh_stage_meter *meter, double factor) {
    double reference_us[LH_COMPUTE_POINTS_MAX], times = find_references(meter, reference_us);
    for (uint32_t i = 0; i < ESTIMATES; i++)
        if (i < meter->point_count && i != meter->anchor)
            hold(meter, i, reference_us[i] * times, factor);
        else if (i >= ATTENTION)
            hold(meter, i, meter->calibrated_us[i] * times, PART_FACTOR);
}

static void note_least(lh_stage_meter *meter, uint32_t point) {
    double least = meter->least_us[point], us = meter->points[point].us;
    if (!(least > 0))
        least = meter->calibrated_us[point] > 0 ? meter->calibrated_us[point] : us;
    meter->least_us[point] = us < least ? scaled(least, pow(us / least, LEAST_GAIN)) : least;
}

static void forget_least(lh_stage_meter *meter, int64_t elapsed_us) {
    double factor = exp(lh_bounded_f64((double)elapsed_us * 1e-6 / LEAST_S, 0, 100));
    for (uint32_t i = 0; i < meter->point_count; i++)
        meter->least_us[i] = scaled(meter->least_us[i], factor);
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

static void scale_by(lh_stage_meter *meter, const double factors[ESTIMATES]) {
    for (uint32_t i = 0; i < ESTIMATES; i++)
        if (is_there(meter, i))
            *estimate_of(meter, i) = scaled(*estimate_of(meter, i), factors[i]);
}

/* The estimates move towards what a step of these shares was off by; noise: the variance of such a
 * step's time. is_own: steps of other kinds were as believed meanwhile. */
static void correct(lh_stage_meter *meter, const double shares[STATES], double residual,
                    double noise, bool is_own) {
    double along[STATES], factors[ESTIMATES];
    double variance = noise + doubt_of(meter, shares, along);
    if (is_own || residual * residual > SURPRISE * SURPRISE * variance) {
        double more = is_own ? 0 : residual * residual / 2;
        meter->covariance[SPEED][SPEED] += more;
        doubt_parts(meter, shares, residual * residual - more);
        variance = noise + doubt_of(meter, shares, along);
    }
    for (uint32_t i = 0; i < ESTIMATES; i++)
        factors[i] = exp(residual * (along[SPEED] + along[i]) / variance);
    for (uint32_t i = 0; i < STATES; i++)
        for (uint32_t j = 0; j < STATES; j++)
            meter->covariance[i][j] -= along[i] * along[j] / variance;
    scale_by(meter, factors);
}

/* A step of far more rows than any before: a point of its own, where the others say that it is. The
 * first one of all says it itself. */
static void add_point_of(lh_stage_meter *meter, const lh_step_cost *cost) {
    double us = meter->point_count > 0 ? base_us(meter, cost->rows) : (double)cost->busy_us;
    put_point(meter, cost->rows, us);
    doubt_last_point(meter);
}

static bool is_possible(const lh_step_cost *cost) {
    return cost->rows > 0 && cost->busy_us > 0 && (double)cost->busy_us <= TIME_US_MAX &&
           cost->attended >= 0 && cost->attended <= ATTENDED_MAX;
}

void lh_stage_meter_note_step(lh_stage_meter *meter, const lh_step_cost *cost, int64_t now_us) {
    double parts[STATES], along[STATES], busy_us = (double)cost->busy_us;
    if (!is_possible(cost) || meter->is_held)
        return;
    if (meter->unsettled_steps > 0) {
        meter->unsettled_steps--;
        return;
    }
    doubt_by_time(meter, now_us - meter->sampled_at_us);
    forget(meter, now_us - meter->sampled_at_us);
    forget_unusual(meter, now_us - meter->sampled_at_us);
    forget_least(meter, now_us - meter->sampled_at_us);
    meter->sampled_at_us = now_us;
    if (wants_point(meter, cost->rows))
        add_point_of(meter, cost);
    place at = find_place(meter, cost->rows);
    uint32_t near = at.part < 0.5 ? at.low : at.high;
    double sum = predict(meter, cost, parts), residual = log(busy_us / sum);
    double noise = NOISE + NOISE_US / busy_us;
    for (uint32_t i = 0; i < ESTIMATES; i++)
        parts[i] /= sum;
    parts[SPEED] = 1;
    double deviation = sqrt(noise * noise + doubt_of(meter, parts, along));
    double far = fmin(SURPRISE * deviation, log(FAR_FACTOR));
    belief why = consider(meter, &meter->points[near], &residual, far);
    if (why == HELD_BACK)
        return;
    correct(meter, parts, residual, noise * noise, why == KIND_SAYS_SO);
    if (why != KIND_SAYS_SO)
        meter->anchor = near;
    note_least(meter, near);
    keep_proportions(meter, why == ALL_SAY_SO ? USUAL_FACTOR : PROPORTION_FACTOR);
}

void lh_stage_meter_note_overhead(lh_stage_meter *meter, int64_t us) {
    lh_meter_track *track = &meter->overhead;
    double far = log(FAR_FACTOR);
    if (us <= 0 || (double)us > TIME_US_MAX || meter->unsettled_steps > 0 || meter->is_held)
        return;
    double seen = log((double)us / track->us), residual = seen;
    bool leaps = fabs(seen) > log(OVERHEAD_LEAP) &&
                 agree(track->recent, LH_METER_WITNESSES_OF_ALL, &residual);
    remember(track->recent, LH_METER_WITNESSES_OF_ALL, leaps ? 0 : seen);
    track->us =
        scaled(track->us, exp(leaps ? residual : OVERHEAD_GAIN * lh_bounded_f64(seen, -far, far)));
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
                              .overhead = {.us = OVERHEAD_US},
                              .sampled_at_us = now_us - calibrated->age_us};
    for (uint32_t i = 0; i < calibrated->point_count; i++)
        if (positive(calibrated->points[i].us) > 0)
            put_point(meter, calibrated->points[i].rows, calibrated->points[i].us);
    for (uint32_t i = 0; i < ESTIMATES; i++)
        meter->calibrated_us[i] = is_there(meter, i) ? *estimate_of(meter, i) : 0;
    doubt(meter, SPEED_START * SPEED_START, OWN_START * OWN_START, INFINITY);
    meter->covariance[ATTENTION][ATTENTION] += ATTENTION_START * ATTENTION_START;
}

void lh_stage_meter_unsettle(lh_stage_meter *meter) {
    meter->unsettled_steps = UNSETTLED_STEPS;
}

void lh_stage_meter_hold(lh_stage_meter *meter, bool is_held) {
    if (meter->is_held && !is_held)
        lh_stage_meter_unsettle(meter);
    meter->is_held = is_held;
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

static double calibrated_times(const lh_stage_meter *meter) {
    double reference_us[LH_COMPUTE_POINTS_MAX], times = find_references(meter, reference_us);
    return meter->calibrated_us[0] > 0 ? times : 0;
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
                                    .calibrated_times = calibrated_times(meter),
                                    .age_us = now_us - meter->sampled_at_us};
    for (uint32_t i = 0; i < level_count; i++) {
        for (uint32_t j = 0; j < levels[i].point_count; j++) {
            profile->points[profile->point_count] =
                (lh_compute_point){meter->rows[profile->point_count], levels[i].us};
            profile->point_count++;
        }
    }
}
