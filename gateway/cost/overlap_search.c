/* Coarse to fine: how many chunks; then ramps, and longer bodies between them; then column shards,
 * first the same on all hops and then hop by hop; then the length of the chunks once more. */
#include "gateway/cost/overlap_search.h"

#include <string.h>

/* Twice as many pieces must save at least this share. Each piece has costs that are not measured;
 * and since the times of steps of half the rows are known to a few per cent only, the least of many
 * predictions is more often than not one that errs. */
#define SAVING_PER_DOUBLING 0.005
/* Steps of one stage that one search may predict: each takes 10 to 20 ns. */
#define PREDICTED_STEPS_MAX 40000u

static bool has_budget(const lh_overlap_search *s) {
    return s->predicted_steps < PREDICTED_STEPS_MAX;
}

static uint32_t inner_hops(const lh_overlap_search *s) {
    return s->chain->stage_count - 1;
}

double lh_overlap_search_predict(lh_overlap_search *s, const lh_overlap_shape *shape,
                                 uint32_t depth) {
    lh_cost_schedule schedule = {
        .position = s->position, .rows = s->chunks, .cuts = s->cuts, .depth = depth};
    if (!lh_overlap_shape_chunks(shape, s->rows, s->rows_max, s->chunks, &schedule.count))
        return -1;
    for (uint32_t h = 0; h < inner_hops(s); h++)
        s->cuts[h] = shape->cuts[h] > 1 ? lh_overlap_cut(shape->cuts[h], s->chain->width)
                                        : (lh_step_cut){.count = 0};
    s->predicted_chunks = schedule.count;
    s->predicted_steps += schedule.count * s->chain->stage_count;
    return lh_cost_predict_us(s->chain, &schedule, &s->work);
}

/* log2, to a quarter: enough for a preference. */
static double doublings(uint32_t pieces) {
    double result = 0;
    for (; pieces >= 4; pieces /= 2)
        result += 1;
    return result + (pieces == 3 ? 1.5 : pieces == 2 ? 1 : 0);
}

/* Of the shape that was predicted last. */
static uint32_t pieces_of(const lh_overlap_search *s, const lh_overlap_shape *shape) {
    uint32_t shards = 0, count = s->predicted_chunks;
    for (uint32_t h = 0; h < inner_hops(s); h++)
        shards += lh_overlap_cut_shards(shape->cuts[h]);
    return inner_hops(s) ? count * shards / inner_hops(s) : count;
}

double lh_overlap_search_score(lh_overlap_search *s, const lh_overlap_shape *shape) {
    double us = lh_overlap_search_predict(s, shape, s->depth_max);
    return us < 0 ? us : us * (1 + SAVING_PER_DOUBLING * doublings(pieces_of(s, shape)));
}

/* True: it is the best one so far. */
static bool consider(lh_overlap_search *s, const lh_overlap_shape *shape) {
    double score = lh_overlap_search_score(s, shape);
    if (score < 0 || (s->best_score >= 0 && score >= s->best_score))
        return false;
    s->best = *shape;
    s->best_score = score;
    return true;
}

/* ---- Rows ---- */

static void search_number(lh_overlap_search *s) {
    static const uint32_t numbers[] = {2,  3,  4,  5,  6,  8,  10,  12,  16,  20, 24,
                                       32, 40, 48, 64, 80, 96, 128, 160, 192, 256};
    uint32_t least = (s->rows + s->rows_max - 1) / s->rows_max, worse = 0;
    consider(s, &(lh_overlap_shape){.body_rows = (s->rows + least - 1) / least});
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && worse < 4 && has_budget(s); i++)
        if (numbers[i] > least && numbers[i] <= s->rows)
            worse =
                consider(s, &(lh_overlap_shape){.body_rows = s->rows / numbers[i]}) ? 0 : worse + 1;
}

static void search_ramps(lh_overlap_search *s) {
    static const uint32_t lengths_percent[] = {100, 140, 200, 300};
    uint32_t body = s->best.body_rows;
    for (size_t i = 0; i < sizeof lengths_percent / sizeof lengths_percent[0]; i++)
        for (uint8_t head = 0; head <= LH_OVERLAP_RAMP_MAX; head++)
            for (uint8_t tail = 0; tail <= LH_OVERLAP_RAMP_MAX && has_budget(s); tail++)
                if (head + tail > 0)
                    consider(s, &(lh_overlap_shape){.body_rows = body * lengths_percent[i] / 100,
                                                    .head = head,
                                                    .tail = tail});
}

static void refine_length(lh_overlap_search *s) {
    static const uint32_t lengths_percent[] = {60, 75, 85, 92, 108, 118, 135, 170, 200, 300};
    lh_overlap_shape shape = s->best;
    uint32_t body = shape.body_rows;
    for (size_t i = 0; i < sizeof lengths_percent / sizeof lengths_percent[0] && has_budget(s);
         i++) {
        shape.body_rows = body * lengths_percent[i] / 100;
        if (shape.body_rows > 0)
            consider(s, &shape);
    }
}

/* ---- Columns ---- */

static void search_columns_everywhere(lh_overlap_search *s) {
    static const uint8_t numbers[] = {2, 3, 4, 6, 8};
    lh_overlap_shape shape = s->best;
    for (size_t i = 0; i < sizeof numbers && has_budget(s); i++) {
        memset(shape.cuts, numbers[i], inner_hops(s));
        consider(s, &shape);
    }
}

static void search_columns_of(lh_overlap_search *s, uint32_t hop) {
    static const uint8_t numbers[] = {1, 2, 3, 4, 6, 8};
    lh_overlap_shape shape = s->best;
    for (size_t i = 0; i < sizeof numbers && has_budget(s); i++) {
        shape.cuts[hop] = numbers[i];
        if (numbers[i] != s->best.cuts[hop])
            consider(s, &shape);
    }
    shape = s->best;
    uint8_t number = shape.cuts[hop];
    for (uint8_t ends = LH_OVERLAP_CUT_FIRST;
         number > 1 && ends <= (LH_OVERLAP_CUT_FIRST | LH_OVERLAP_CUT_LAST);
         ends = (uint8_t)(ends + LH_OVERLAP_CUT_FIRST)) {
        shape.cuts[hop] = number | ends;
        if (has_budget(s))
            consider(s, &shape);
    }
}

/* ---- All ---- */

bool lh_overlap_search_run(lh_overlap_search *search) {
    lh_overlap_search *s = search;
    s->predicted_steps = 0;
    s->best_score = -1;
    search_number(s);
    if (s->best_score < 0)
        return false;
    search_ramps(s);
    search_columns_everywhere(s);
    for (uint32_t hop = 0; hop < inner_hops(s) && has_budget(s); hop++)
        search_columns_of(s, hop);
    refine_length(s);
    return true;
}

uint32_t lh_overlap_search_depth(lh_overlap_search *s, const lh_overlap_shape *shape) {
    double limit_us = lh_overlap_search_predict(s, shape, s->depth_max) * 1.001;
    uint32_t low = 1, high = s->depth_max;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (lh_overlap_search_predict(s, shape, middle) <= limit_us)
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}
