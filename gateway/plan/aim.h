/* What a plan is to be good at, as a number: less is better. A chain counts by two figures of its
 * cost model for one step: `ring`, the time once around for a step that is alone, and `busiest`,
 * the longest that one stage or wire takes for it. An aim looks at several sizes of steps, and
 * takes the best:
 *
 *   ttft        a prompt of P rows in c chunks of P / c rows:   ring + (c - 1) busiest
 *   tpot        one row:                                        ring
 *   throughput  k groups of n sequences:   max(ring, k busiest) / (k n), a little more where the
 *               two are close (decode_groups.h); none where a token takes longer than the bound
 *
 * These grow with ring and with busiest: so of layouts whose busiest part is the same the one with
 * the shortest ring is best, which is what the searches rely on. The scheduler itself goes on from
 * there: its cuts of a prompt have ramps and column shards as well, so its first token is
 * no later than what ttft says, as far as its search finds them.
 *
 * Without an objective the aim is another one, `even`: all machines that can have a stage have one,
 * in the order of sites, and the slowest stage takes as little as can be for LH_EVEN_ROWS rows of a
 * prompt, then for a token (even_split.h). Links do not count. Thread: any. */
#pragma once

#include "common/protocol/wire_type.h"
#include "gateway/cost/cost_model.h"

#define LH_AIM_SIZES_MAX 16u
#define LH_EVEN_ROWS     512u

typedef enum lh_goal { LH_GOAL_EVEN, LH_GOAL_TTFT, LH_GOAL_TPOT, LH_GOAL_THROUGHPUT } lh_goal;

typedef struct lh_aim {
    lh_goal goal;
    /* of EVEN: the order of sites along the chain, "home,office", others follow by name ("" or
     * NULL: all do); and how many machines to use, 0: all */
    const char *sites;
    uint32_t stages;
    uint32_t prompt_rows;   /* of a prompt, 1 or more */
    uint32_t position;      /* at which tokens are made */
    uint32_t sequences_max; /* of throughput: how many decode at once, 1 or more */
    double token_us_max;    /* of throughput: the bound for the time per token; 0: none */
    lh_wire_type wire;      /* of activations */
} lh_aim;

/* One size of step. */
typedef struct lh_aim_size {
    bool is_decode;
    uint32_t rows, position;
    uint32_t chunks; /* of a prompt */
} lh_aim_size;

/* "off" (EVEN), "ttft", "tpot", "throughput". */
bool lh_goal_parse(const char *name, lh_goal *goal);
const char *lh_goal_name(lh_goal goal);

/* The sizes that the aim looks at; returns their number. */
uint32_t lh_aim_sizes(const lh_aim *aim, lh_aim_size sizes[LH_AIM_SIZES_MAX]);
/* INFINITY: over the bound. Of throughput: microseconds for each token of all sequences. */
double lh_aim_value(const lh_aim *aim, const lh_aim_size *size, double ring_us, double busiest_us);
/* Of throughput: into how many groups (0: it is over the bound). */
uint32_t lh_aim_groups(const lh_aim *aim, const lh_aim_size *size, double ring_us,
                       double busiest_us);
/* Both figures of a chain for such a step. */
lh_cost_step lh_aim_step(const lh_aim_size *size, const lh_cost_chain *chain);
/* The best value over all sizes, and which that is (NULL: not wanted). */
double lh_aim_judge(const lh_aim *aim, const lh_cost_chain *chain, lh_aim_size *best);
