/* What a prompt will cost on a chain: predicts when its first token is back at the gateway, for any
 * chunks and any cuts, from what the workers have measured. Pure arithmetic: no I/O, no clock, no
 * allocation.
 *
 * A prompt of T rows from position P goes as chunks r(1), r(2), ...; each passes hop 0 (gateway to
 * first worker), stage 1, hop 1, ..., stage S, hop S (last worker to gateway). A stage computes one
 * chunk at a time, a hop carries one piece at a time, both in order; everything else overlaps:
 *
 *   stage s, chunk c, in the order of time:
 *     F      = points(r) of the stage's profile; A = us_per_row_position * (r * P(c) + r * (r - 1)
 *            / 2), the attention to all that came before, where P(c) is the chunk's first position
 *     QKV    the first QKV projection, take_share * F, column shard by column shard: each when it
 *            has come and the stage is free (first stage: at once)
 *     middle all that lies between: step_us + (1 - take_share - give_share) * F + A
 *     down   the last down projection, give_share * F, column shard by column shard, each of which
 *            leaves when it is done; each after the first costs shard_us, here and at the next
 *            stage. The last stage computes it in one piece
 *     sample draw_us at the last stage, with the last chunk; and draw_more_us for each further row
 *            that samples, in the steps that decode
 *   hop h: a piece of b bytes that is ready at t has left at  max(t, free) + b / rate  and come a
 *     delay later. Before a step's shards goes its manifest, which a stage passes on as soon as it
 *     has it.
 *     A cold connection: n bytes have not left before
 *         t0 + k * round trip + (n - W (2^k - 1)) / rate
 *     where the first left at t0, W = ready_bytes, and k counts the round trips that slow start
 *     needs:  W (2^(k+1) - 1) >= n,  as long as  W 2^k < rate * round trip.
 *   The gateway lets `depth` chunks be under way: chunk c leaves when chunk c - depth has come
 *   around.
 *
 * The bound (what no cut can beat): the greatest busy time of a stage or hop for the whole prompt,
 * each row at the cost of the chunk length that is cheapest per row, plus all one-way delays. Off
 * (nothing overlaps): the sum of the busy times and delays of each step of at most rows_max rows.
 *
 * Thread: any. */
#pragma once

#include "common/base/status.h"
#include "common/protocol/measurements.h"
#include "common/protocol/step.h"

#define LH_COST_STAGES_MAX 64u
#define LH_COST_CHUNKS_MAX 256u

typedef struct lh_cost_hop {
    double bytes_per_us;   /* > 0 */
    double delay_us;       /* one way: half of the round trip */
    double ready_bytes;    /* 0: as many as the hop holds (it is warm) */
    double step_bytes;     /* of each step: headers, manifest or results */
    double step_row_bytes; /* of each row, in the manifest */
    /* of each row that samples, in a decode step: its part of the manifest, or its result */
    double draw_bytes;
    double row_bytes;   /* of each row, in the shards: all columns */
    double shard_bytes; /* of each shard: its frame */
} lh_cost_hop;

typedef struct lh_cost_chain {
    uint32_t stage_count;
    uint32_t width; /* columns of an activation */
    lh_compute_profile stages[LH_COST_STAGES_MAX];
    lh_cost_hop hops[LH_COST_STAGES_MAX + 1];
} lh_cost_chain;

/* Whether predictions can be made: all stages measured, every number finite and in a range that
 * makes sense. LH_ERR_UNAVAILABLE: the message says what has not been measured; LH_ERR_INVALID:
 * which number is impossible. The functions below need a chain that has passed. */
lh_status lh_cost_chain_check(const lh_cost_chain *chain, lh_error *error);

typedef struct lh_cost_schedule {
    uint32_t position; /* of the first row */
    uint32_t count;    /* of chunks, 1..LH_COST_CHUNKS_MAX */
    const uint32_t *rows;
    /* [stage_count - 1], for the hops between workers; NULL or a count of 0: one shard */
    const lh_step_cut *cuts;
    uint32_t depth; /* chunks under way at once; 0: all */
} lh_cost_schedule;

/* Scratch, owned by the caller; its content means nothing between calls. */
typedef struct lh_cost_work {
    double stage_free_us[LH_COST_STAGES_MAX];
    struct lh_cost_memo {
        uint32_t rows;
        double us;
    } memo[LH_COST_STAGES_MAX];
    struct lh_cost_wire {
        double free_us, begun_us, sent_bytes, round_us, round_bytes, window;
    } wires[LH_COST_STAGES_MAX + 1];
    double back_us[LH_COST_CHUNKS_MAX];
} lh_cost_work;

/* Microseconds from the first step's leaving to the first token's arrival at the gateway. */
double lh_cost_predict_us(const lh_cost_chain *chain, const lh_cost_schedule *schedule,
                          lh_cost_work *work);
/* The greatest busy time of a stage or hop for the rows as one chunk. */
double lh_cost_busiest_us(const lh_cost_chain *chain, uint32_t position, uint32_t rows);
/* At most what lh_cost_predict_us says of any schedule of these rows. */
double lh_cost_bound_us(const lh_cost_chain *chain, uint32_t position, uint32_t rows);
double lh_cost_off_us(const lh_cost_chain *chain, uint32_t position, uint32_t rows,
                      uint32_t rows_max);
/* The time of one stage for rows from a position on, as one chunk without anything around it. */
double lh_cost_stage_us(const lh_compute_profile *stage, uint32_t position, uint32_t rows);

/* A decode step: the next row of each of some sequences, all of which sample. */
typedef struct lh_cost_step {
    double ring_us; /* from its leaving to its tokens' arrival at the gateway, alone on the chain */
    /* of that, the greatest part of one stage or hop: such steps cannot leave more often */
    double busiest_us;
} lh_cost_step;
/* At about this position; rows > 0. */
lh_cost_step lh_cost_decode_step(const lh_cost_chain *chain, uint32_t position, uint32_t rows);
