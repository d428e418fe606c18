/* A double of gateway/engine/engine.h: sequences whose tokens come from a script, on a thread, at
 * set times; no fleet. Its vocabulary is that of tests/support/tiny_llama.h: control tokens 0 to 2,
 * then one token for each byte (3 + byte).
 *
 * The script stands in the prompt, so that a test needs no other way in: "@@" begins it, in any
 * message, and key=value pairs follow, separated by blanks; text= comes last and takes the rest of
 * the line (of the message).
 *
 *     text=T          T byte by byte, then a stop token; without a script a fixed sentence, or at a
 *                     temperature letters drawn from the seed
 *     \xNN in T       that byte
 *     first_ms=N      until the first token
 *     interval_ms=N   between tokens (0: as fast as possible)
 *     fail_after=N    FAILED with LH_ERR_UNAVAILABLE after N tokens; internal=1 makes it LH_ERR_IO,
 *                     limit=1 LH_ERR_LIMIT
 *     refuse=busy | unavailable | limit              what submit says
 *     state=loading | ready | no_chain | draining    the engine's from now on; such a request is
 *                                                    served all the same
 *
 * A sequence whose deadline passes fails with LH_ERR_TIMEOUT. A bias of 100 makes its token the
 * only one, one of -100 takes it out of the text. The logprob of every token is -0.25. */
#pragma once

#include "gateway/engine/engine.h"

typedef struct scripted_engine_counts {
    uint32_t submitted, finished, failed, cancelled, running;
    uint64_t tokens;
} scripted_engine_counts;

/* Aborts without memory. */
lh_engine *scripted_engine_create(void);
void scripted_engine_destroy(lh_engine *engine);
void scripted_engine_set_state(lh_engine *engine, lh_engine_state state);
/* Its workers cannot compute the model, in these static words; NULL: they can. */
/* At first the reason alone, "worker-7 has not loaded its stage". */
void scripted_engine_set_outage(lh_engine *engine, const lh_engine_outage *outage);
void scripted_engine_set_refusal(lh_engine *engine, const char *message);
/* Of a sequence, as long as its chain's KV caches; at first UINT64_MAX. */
void scripted_engine_set_positions(lh_engine *engine, uint64_t positions);
scripted_engine_counts scripted_engine_count(lh_engine *engine);
/* The last sequence's request as it was submitted (its pointers are of no use afterwards). */
lh_sequence_request scripted_engine_last_request(lh_engine *engine);
