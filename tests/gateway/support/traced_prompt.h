/* A request over two workers whose clocks are skewed, as the trace store would give it: a prompt in
 * chunks that travel as two column shards each, and decode steps; every time of it is known. Times
 * in microseconds.
 *
 *     gateway --100--> a (2000 a chunk) --1000, 700 a shard--> b (3000 a chunk) --500--> gateway */
#pragma once

#include "gateway/trace/trace_store.h"

#define TRACED_WAYS   1600 /* once around the ring */
#define TRACED_SKEW_A 1000000000
#define TRACED_SKEW_B (-400000)
#define TRACED_BEGIN  5000000 /* the gateway's clock when the request was received */

/* decode: further tokens. The caller destroys it. Fails the test without memory. */
lh_trace *traced_prompt(uint32_t chunks, uint32_t decode);
/* What the stages were believed to compute for an entry. */
void traced_prompt_believe(lh_trace *trace, uint32_t entry, double a_us, double b_us);
/* Replaces the times that an entry's workers told. */
void traced_prompt_retell(lh_trace *trace, uint32_t entry, const uint8_t *frames, size_t length);
