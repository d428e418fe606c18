/* The trials, in this order:
 *
 *   points      one new sequence of 1, 2, 4 ... rows
 *   attention   a few rows on top of the longest one: what is more than at position 0 is attention
 *               to it
 *   draw        the last stage: one row that draws a token, beside one that does not; and several
 *               sequences'
 *   emit        other stages: the result in 1, 2 and more shards. From the first shard on these
 *               take E(1) = encoding + shard E(n) = encoding + n * shard + (1 - first shard's part)
 *               * last product so three of them tell what a shard and what the last product takes
 *
 * Each is repeated while that is cheap, and the least time counts: what is more was others' doing.
 * Where a stage is so slow, or the machine so busy, that the budget ends early, the longer steps
 * are left out; those that come by later make points of their own (serve/meter.h). */
#include "worker/control/calibration.h"

#include "common/base/arithmetic.h"

#define REPEATS_MAX 5u
/* The first draw of so many rows is the first to touch the memory for their logits. */
#define DRAW_REPEATS_MIN 2u
/* So much of the budget goes to the repeats of one kind of step ... */
#define KIND_PART 0.06
/* ... and no longer steps are tried when so much is spent: the rest is for the other phases. */
#define POINTS_PART 0.7
/* ... but a stage whose shards are not measured cannot tell what to cut: they may cost more than is
 * left. */
#define EMIT_PART 1.5
/* At first even a slow stage gets two points: a line needs them. */
#define POINTS_MIN 2u
/* Fewer pairs of a row and a position before it say less of attention than the noise of the clock
 * and of the machine: with 2048 of them attention was a twentieth of what was measured, and wrong
 * by up to three times. */
#define PAIRS_MIN 8192u
/* One multiplication in attention, in floats and with an exponential for each few dozen, beside one
 * of quantized weights; and how far from that a measured time may be. A zero would stay one
 * (serve/meter.h works with factors). */
#define ATTENTION_DEARER 2.5
#define ATTENTION_REASON 4.0
/* Of a shard: a message, a wake-up and a frame take that long on any machine, also where the clock
 * does not see it. */
#define SHARD_US_MIN 2.0
/* Twice as many rows take no more than twice as long, but for caches that they outgrow. */
#define DEARER 1.25
/* Of the clock: nothing takes less. */
#define TICK_US 1.0
/* Rows of the trials for attention, and of those for shards: many enough to be no special case,
 * cheap enough to repeat. */
#define ATTENTION_ROWS 32u
#define EMIT_ROWS      16u
#define DRAW_ROWS      8u
/* How far a draw may be from what its multiplications are in proportion to the layers'. What else a
 * busy machine does can hide it, and a zero would stay one here, too. */
#define DRAW_REASON 8.0
/* At most this many rows sample a token for the price of one. */
#define DRAW_ROWS_FREE 64.0
#define EMIT_SHARDS    8u

/* What the repeats so far and one more make of a time. */
static double settle(const lh_calibration *c, double before, double one_more) {
    return c->repeats <= 1 || one_more < before ? one_more : before;
}

/* ---- Which one ---- */

/* Rows of the number-th point: powers of 2; 0: there is none. */
static uint32_t point_rows(const lh_calibration *c, uint32_t number) {
    uint32_t rows_max = lh_min_u32(c->limits.rows_max, c->limits.positions_max);
    uint32_t rows = number < LH_COMPUTE_POINTS_MAX ? 1u << number : 0;
    return rows <= rows_max ? rows : 0;
}

/* The last point of at most `rows` rows. */
static uint32_t point_of(const lh_calibration *c, uint32_t rows) {
    uint32_t i = c->point_count - 1;
    while (i > 0 && c->points[i].rows > rows)
        i--;
    return i;
}

/* Whether trials of so much time are within the first part of the budget, as busy as the machine
 * is. */
static bool is_affordable(const lh_calibration *c, double us, double part) {
    double busy = c->own_us > 0 ? c->spent_us / c->own_us : 1;
    return c->spent_us + us * busy <= part * c->limits.budget_us;
}

static uint32_t emit_shards(const lh_calibration *c, uint32_t number) {
    static const uint32_t shards[LH_CALIBRATION_EMITS] = {1, 2, EMIT_SHARDS};
    return lh_min_u32(shards[number], c->limits.column_blocks);
}

/* What these rows take alone, by the points around them. */
static double base_us(const lh_calibration *c, uint32_t rows) {
    uint32_t i = point_of(c, rows);
    if (i + 1 == c->point_count || c->points[i].rows >= rows)
        return c->points[i].us * rows / c->points[i].rows;
    double part = (double)(rows - c->points[i].rows) / (c->points[i + 1].rows - c->points[i].rows);
    return c->points[i].us + part * (c->points[i + 1].us - c->points[i].us);
}

/* At most: each row as much as the first one that drew. */
static double draws_us(const lh_calibration *c, uint32_t rows) {
    return base_us(c, rows) + rows * (c->draw_total_us[0] - c->points[0].us);
}

/* As many sequences at once as may be drawn for; 0: not even two. */
static uint32_t choose_draw_rows(const lh_calibration *c) {
    uint32_t rows = lh_min_u32(lh_min_u32(DRAW_ROWS, c->limits.rows_max), c->limits.sequences_max);
    while (rows > 1 && !is_affordable(c, draws_us(c, rows), EMIT_PART))
        rows /= 2;
    return rows > 1 ? rows : 0;
}

static bool choose_draw(lh_calibration *c) {
    if (!c->limits.is_last || c->number >= LH_CALIBRATION_DRAWS)
        return false;
    if (c->number == 1 && c->repeats == 0)
        c->draw_rows = choose_draw_rows(c);
    c->trial.rows = c->number == 0 ? 1 : c->draw_rows;
    c->trial.draws = true;
    return c->number == 0 ||
           (c->draw_rows > 0 && is_affordable(c, draws_us(c, c->draw_rows), EMIT_PART));
}

/* Sets c->trial to what this phase has next; false: the phase is over. */
static bool choose(lh_calibration *c) {
    uint32_t longest = c->point_count > 0 ? c->points[c->point_count - 1].rows : 0;
    double longest_us = c->point_count > 0 ? c->points[c->point_count - 1].us : 0;
    double emit_us =
        c->point_count > 0 ? LH_CALIBRATION_EMITS * c->points[point_of(c, EMIT_ROWS)].us : 0;
    c->trial = (lh_calibration_trial){.shards = 1};
    switch (c->phase) {
    case LH_CALIBRATE_POINTS:
        c->trial.rows = point_rows(c, c->number);
        /* twice as many rows: twice the time at most */
        return c->trial.rows > 0 &&
               (c->number < POINTS_MIN || is_affordable(c, 2 * longest_us, POINTS_PART));
    case LH_CALIBRATE_ATTENTION:
        c->trial.rows = c->points[point_of(c, ATTENTION_ROWS)].rows;
        c->trial.position = longest + c->repeats * c->trial.rows;
        return c->number == 0 && c->trial.rows * longest >= PAIRS_MIN &&
               c->trial.position + c->trial.rows <= c->limits.positions_max;
    case LH_CALIBRATE_DRAW:
        return choose_draw(c);
    case LH_CALIBRATE_EMIT:
        c->trial.rows = c->points[point_of(c, EMIT_ROWS)].rows;
        c->trial.shards = c->number < LH_CALIBRATION_EMITS ? emit_shards(c, c->number) : 0;
        return c->number < LH_CALIBRATION_EMITS && !c->limits.is_last &&
               c->limits.column_blocks > 2 &&
               (c->number > 0 || is_affordable(c, emit_us, EMIT_PART));
    case LH_CALIBRATE_DONE:
        break;
    }
    return false;
}

static void go_to(lh_calibration *c, lh_calibration_phase phase, uint32_t number) {
    c->phase = phase;
    c->number = number;
    c->repeats = 0;
    c->kind_us = 0;
}

/* The step before was repeated often enough, or there is no time to. */
static bool is_repeated(const lh_calibration *c) {
    if (c->repeats == 0)
        return false;
    if (c->repeats >= REPEATS_MAX)
        return true;
    const double each_us = c->kind_us / c->repeats;
    if (c->phase == LH_CALIBRATE_DRAW && c->repeats < DRAW_REPEATS_MIN)
        return !is_affordable(c, each_us, EMIT_PART);
    return c->kind_us + each_us > KIND_PART * c->limits.budget_us ||
           c->spent_us + each_us > c->limits.budget_us;
}

bool lh_calibration_next(lh_calibration *c, lh_calibration_trial *trial) {
    if (is_repeated(c))
        go_to(c, c->phase, c->number + 1);
    while (!choose(c)) {
        if (c->phase == LH_CALIBRATE_DONE || c->point_count == 0)
            return false;
        go_to(c, c->phase + 1, 0);
    }
    *trial = c->trial;
    return true;
}

/* ---- What it took ---- */

static void note_point(lh_calibration *c, const lh_calibration_times *times) {
    if (c->point_count == c->number)
        c->points[c->point_count++] = (lh_compute_point){.rows = c->trial.rows};
    c->points[c->number].us = settle(c, c->points[c->number].us, times->total_us);
    c->take_us[c->number] = settle(c, c->take_us[c->number], times->take_us);
}

static void note_attention(lh_calibration *c, double total_us) {
    double more_us = total_us - c->points[point_of(c, ATTENTION_ROWS)].us;
    double each_us = more_us / ((double)c->trial.rows * c->trial.position);
    c->us_per_row_position = settle(c, c->us_per_row_position, each_us);
}

void lh_calibration_note(lh_calibration *c, const lh_calibration_times *noted) {
    lh_calibration_times seen = *noted, *times = &seen;
    times->total_us = seen.total_us > TICK_US ? seen.total_us : TICK_US;
    times->wall_us = seen.wall_us > TICK_US ? seen.wall_us : TICK_US;
    c->spent_us += times->wall_us;
    c->kind_us += times->wall_us;
    c->own_us += times->total_us;
    c->repeats++;
    switch (c->phase) {
    case LH_CALIBRATE_POINTS:
        note_point(c, times);
        break;
    case LH_CALIBRATE_ATTENTION:
        note_attention(c, times->total_us);
        break;
    case LH_CALIBRATE_DRAW:
        c->draw_total_us[c->number] = settle(c, c->draw_total_us[c->number], times->total_us);
        break;
    case LH_CALIBRATE_EMIT:
        c->emit_us[c->number] = settle(c, c->emit_us[c->number], times->emit_us);
        break;
    case LH_CALIBRATE_DONE:
        break;
    }
}

void lh_calibration_start(lh_calibration *calibration, const lh_calibration_limits *limits) {
    *calibration = (lh_calibration){.limits = *limits};
}

/* ---- What follows ---- */

/* What a part of the step on which shares are measured is of the whole. There is more to a step
 * than either end. */
static double share_of(const lh_calibration *c, double part_us) {
    return lh_bounded_f64(part_us / c->points[point_of(c, EMIT_ROWS)].us, 0, 0.5);
}

/* Of `n` even shards: what is not in the first. */
static double part_after_first(const lh_calibration *c, uint32_t n) {
    return 1 - (double)(c->limits.column_blocks / n) / c->limits.column_blocks;
}

/* Two equations, since the encoding falls out of differences: E(2) - E(1) and E(n) - E(1). */
static void solve_emit(const lh_calibration *c, lh_compute_profile *profile) {
    uint32_t n = emit_shards(c, 2);
    double two_us = c->emit_us[1] - c->emit_us[0], n_us = c->emit_us[2] - c->emit_us[0];
    double part_of_two = part_after_first(c, 2), part_of_n = part_after_first(c, n);
    double ratio = part_of_n / part_of_two;
    double shard_us = (n_us - ratio * two_us) / (n - 1 - ratio);
    shard_us = lh_max_f64(shard_us, SHARD_US_MIN);
    double give_us = (n_us - (n - 1) * shard_us) / part_of_n;
    profile->shard_us = shard_us;
    profile->give_share = share_of(c, give_us);
}

/* What was measured, within reason; where there was no time to, what the number of multiplications
 * lets expect. */
static double attention_us(const lh_calibration *c) {
    const lh_compute_point *longest = &c->points[c->point_count - 1];
    double guess_us = ATTENTION_DEARER * c->limits.attention_part * longest->us / longest->rows;
    double measured_us = c->us_per_row_position != 0 ? c->us_per_row_position : guess_us;
    return lh_bounded_f64(measured_us, guess_us / ATTENTION_REASON, guess_us * ATTENTION_REASON);
}

/* The base time: without the rows' attention to each other. */
static double without_attention(const lh_calibration *c, const lh_compute_point *point) {
    double between_us = attention_us(c) * point->rows * (point->rows - 1.0) / 2;
    return between_us < point->us / 2 ? point->us - between_us : point->us / 2;
}

/* Others' doing only adds: so what takes longer than fewer rows allow, or than more rows take, has
 * met some, in all of its repeats. */
static void read_points(const lh_calibration *c, lh_compute_profile *profile) {
    lh_compute_point *points = profile->points;
    for (uint32_t i = 0; i < c->point_count; i++) {
        points[i] = (lh_compute_point){c->points[i].rows, without_attention(c, &c->points[i])};
        double most_us =
            i > 0 ? DEARER * points[i - 1].us * points[i].rows / points[i - 1].rows : points[i].us;
        points[i].us = points[i].us < most_us ? points[i].us : most_us;
    }
    for (uint32_t i = c->point_count - 1; i > 0; i--)
        if (points[i - 1].us > points[i].us)
            points[i - 1].us = points[i].us;
}

/* Of one row, within reason. */
static double draw_us(const lh_calibration *c) {
    double guess_us = c->limits.draw_part * c->points[0].us;
    if (c->draw_total_us[0] == 0)
        return guess_us;
    double measured_us = c->draw_total_us[0] - c->points[0].us;
    return lh_bounded_f64(measured_us, guess_us / DRAW_REASON, guess_us * DRAW_REASON);
}

/* A further row costs no more than the first, and where it was not measured, as much: then the
 * steps of many are believed too long, not too short. */
static void read_draws(const lh_calibration *c, lh_compute_profile *profile) {
    uint32_t rows = c->draw_rows;
    double one_us = draw_us(c);
    profile->draw_us = profile->draw_more_us = one_us;
    if (c->draw_total_us[1] > 0) {
        double all_us = c->draw_total_us[1] - base_us(c, rows);
        double more_us = (all_us - one_us) / (rows - 1);
        profile->draw_more_us = lh_bounded_f64(more_us, one_us / DRAW_ROWS_FREE, one_us);
    }
}

void lh_calibration_read(const lh_calibration *c, lh_compute_profile *profile) {
    *profile = (lh_compute_profile){.point_count = c->point_count};
    if (c->point_count == 0)
        return;
    profile->us_per_row_position = attention_us(c);
    read_points(c, profile);
    profile->take_share = share_of(c, c->take_us[point_of(c, EMIT_ROWS)]);
    if (c->limits.is_last)
        read_draws(c, profile);
    if (c->emit_us[2] > 0)
        solve_emit(c, profile);
    else if (!c->limits.is_last)
        profile->shard_us = SHARD_US_MIN;
}
