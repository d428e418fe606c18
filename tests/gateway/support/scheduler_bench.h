/* A scheduler alone, with a chain of two stages in its mind: what it sends is taken from it, what a
 * chain would answer is brought to it, and what its sequences are told is written down. */
#pragma once

#include "gateway/schedule/scheduler.h"

#define MS 1000 /* microseconds */

/* What a sequence has been told. */
typedef struct heard {
    uint32_t tokens[64], count, position;
    bool is_finished, is_failed;
    lh_finish_reason reason;
    lh_status status;
    char message[64]; /* of a failure */
    const char *chain;
    uint32_t epoch;
} heard;

extern heard ears[8]; /* by the sequence's handle */

extern const lh_scheduler_sink bench_sink; /* which writes down what is heard */

/* Chunks of so many rows, 4 sequences at once and 2 that wait, steps of 64 rows, a vocabulary of
 * 1000; nobody has heard anything. */
lh_scheduler_options options_of(uint32_t chunk_rows);
lh_scheduler *create_by(const lh_scheduler_options *options);
lh_scheduler *create_scheduler(uint32_t chunk_rows);
/* With a chain of epoch 7. */
lh_scheduler *create_ready(uint32_t chunk_rows);
/* The same, with prefixes kept and shared. */
lh_scheduler *create_sharing(uint32_t chunk_rows);
/* And with one request of handle 0, which is sequence 1. */
lh_scheduler *create_with_prompt(uint32_t chunk_rows, uint32_t prompt_tokens, uint32_t max_tokens);
/* Blocks that are not free: of 16 positions. */
uint64_t blocks_held(const lh_scheduler *scheduler);
/* A chain of two stages of 100 pages of 16 positions. */
void bring_chain_up(lh_scheduler *scheduler, uint32_t epoch, int64_t now_us);
/* The same one, whose workers have kept their caches but for so many of the first. */
void bring_chain_back(lh_scheduler *scheduler, uint32_t epoch, uint32_t lost_stages);
/* What such a chain costs: a row takes 0.5 ms on the first stage and 1 ms on the second one, and
 * 0.5 ms on each hop. */
lh_cost_chain costs_of_chain(void);

/* A greedy request; token i of its prompt is i % 50. */
lh_sequence_request request_of(uint32_t prompt_tokens, uint32_t max_tokens);
lh_status submit_request(lh_scheduler *scheduler, const lh_sequence_request *request,
                         uint64_t handle, int64_t now_us);

/* The next step, which must be there; at time 0. */
lh_step_manifest next_step(lh_scheduler *scheduler);
void assert_no_step(lh_scheduler *scheduler);
/* The ring's end: a token has come. */
lh_status bring_token(lh_scheduler *scheduler, uint32_t epoch, uint64_t step, uint64_t sequence,
                      uint32_t position, uint32_t token);
/* The first hop's answer to a step of epoch 7: it went well. */
void answer_step(lh_scheduler *scheduler, uint64_t step);
