/* The formulas of aim.h. */
#include "gateway/plan/aim.h"

#include "common/base/arithmetic.h"
#include "gateway/cost/decode_groups.h"
#include "gateway/cost/pipeline_depth.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Kernels take rows by eights: shorter chunks are not worth their while. */
#define CHUNK_ROWS_MIN 8u

static const char *const names[] = {"off", "ttft", "tpot", "throughput"};

bool lh_goal_parse(const char *name, lh_goal *goal) {
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) {
            *goal = (lh_goal)i;
            return true;
        }
    return false;
}

const char *lh_goal_name(lh_goal goal) {
    return names[goal];
}

/* ---- Sizes ---- */

static uint32_t chunk_sizes(const lh_aim *aim, lh_aim_size *sizes) {
    static const uint32_t numbers[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        uint32_t rows = (aim->prompt_rows + numbers[i] - 1) / numbers[i];
        if (i > 0 && rows < CHUNK_ROWS_MIN)
            break;
        if (rows > LH_STEP_ROWS_MAX)
            continue;
        uint32_t chunks = (aim->prompt_rows + rows - 1) / rows;
        /* the mean over all chunks: attention grows with the position */
        assert(count < LH_AIM_SIZES_MAX);
        sizes[count++] = (lh_aim_size){
            .rows = rows, .position = (aim->prompt_rows - rows) / 2, .chunks = chunks};
    }
    return count;
}

static uint32_t group_sizes(const lh_aim *aim, lh_aim_size *sizes) {
    uint32_t count = 0;
    for (uint32_t rows = 1; rows <= aim->sequences_max && rows <= LH_STEP_ROWS_MAX; rows *= 2)
        sizes[count++] = (lh_aim_size){.is_decode = true, .rows = rows, .position = aim->position};
    assert(count <= LH_AIM_SIZES_MAX);
    return count;
}

uint32_t lh_aim_sizes(const lh_aim *aim, lh_aim_size sizes[LH_AIM_SIZES_MAX]) {
    switch (aim->goal) {
    case LH_GOAL_EVEN:
        sizes[0] = (lh_aim_size){.rows = LH_EVEN_ROWS, .chunks = 1};
        sizes[1] = (lh_aim_size){.is_decode = true, .rows = 1};
        return 2;
    case LH_GOAL_TTFT:
        return chunk_sizes(aim, sizes);
    case LH_GOAL_TPOT:
        sizes[0] = (lh_aim_size){.is_decode = true, .rows = 1, .position = aim->position};
        return 1;
    case LH_GOAL_THROUGHPUT:
        return group_sizes(aim, sizes);
    }
    return 0;
}

/* ---- Values ---- */

static double groups_value(const lh_aim *aim, const lh_aim_size *size, double ring_us,
                           double busiest_us, uint32_t *groups) {
    uint32_t most = lh_min_u32(lh_max_u32(aim->sequences_max / size->rows, 1), LH_DECODE_DEPTH_MAX);
    double best = INFINITY;
    *groups = 0;
    for (uint32_t k = 1; k <= most; k++) {
        double period_us = lh_decode_groups_period_us(ring_us, k * busiest_us, k);
        if (aim->token_us_max > 0 && period_us > aim->token_us_max)
            break; /* more groups take longer */
        if (period_us / (k * size->rows) < best) {
            best = period_us / (k * size->rows);
            *groups = k;
        }
    }
    return best;
}

double lh_aim_value(const lh_aim *aim, const lh_aim_size *size, double ring_us, double busiest_us) {
    uint32_t groups;
    switch (aim->goal) {
    case LH_GOAL_EVEN:
        return busiest_us;
    case LH_GOAL_TTFT:
        return ring_us + (size->chunks - 1) * busiest_us;
    case LH_GOAL_TPOT:
        return ring_us;
    case LH_GOAL_THROUGHPUT:
        return groups_value(aim, size, ring_us, busiest_us, &groups);
    }
    return INFINITY;
}

uint32_t lh_aim_groups(const lh_aim *aim, const lh_aim_size *size, double ring_us,
                       double busiest_us) {
    uint32_t groups;
    assert(aim->goal == LH_GOAL_THROUGHPUT);
    groups_value(aim, size, ring_us, busiest_us, &groups);
    return groups;
}

lh_cost_step lh_aim_step(const lh_aim_size *size, const lh_cost_chain *chain) {
    if (size->is_decode)
        return lh_cost_decode_step(chain, size->position, size->rows);
    /* only the last chunk draws */
    lh_cost_chain undrawn = *chain;
    assert(chain->stage_count > 0);
    undrawn.stages[chain->stage_count - 1].draw_us = 0;
    return (lh_cost_step){lh_cost_off_us(chain, size->position, size->rows, size->rows),
                          lh_cost_busiest_us(&undrawn, size->position, size->rows)};
}

double lh_aim_judge(const lh_aim *aim, const lh_cost_chain *chain, lh_aim_size *best) {
    lh_aim_size sizes[LH_AIM_SIZES_MAX];
    uint32_t count = lh_aim_sizes(aim, sizes);
    double least = INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        lh_cost_step step = lh_aim_step(&sizes[i], chain);
        double value = lh_aim_value(aim, &sizes[i], step.ring_us, step.busiest_us);
        if (best && (i == 0 || value < least))
            *best = sizes[i];
        least = fmin(least, value);
    }
    return least;
}
