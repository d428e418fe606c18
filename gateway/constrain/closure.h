/* From where a text has been read to, where it can go on: through calls, ends of rules and
 * repetitions, as far as no byte is needed. Places are pairs of an automaton's state and a stack.
 * Thread: the owner's. */
#pragma once

#include "common/base/status.h"
#include "gateway/constrain/automaton.h"
#include "gateway/constrain/stack_pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Places at once: as many as a grammar with a choice among thousands of rules needs. */
#define LH_PLACES_MAX (1u << 16)

typedef struct lh_place {
    uint32_t state, stack;
} lh_place;

/* Everywhere that a text can go on, once it has been read. */
typedef struct lh_places {
    lh_place *items; /* [count]: of the kinds BYTES and TOKEN, each once, in ascending order */
    size_t count, capacity;
    bool may_end; /* the whole grammar is at its end here */
    bool escapes; /* the text may go on below an unknown stack */
} lh_places;

/* An empty one is {0}. */
void lh_places_reset(lh_places *places);
/* LH_ERR_NO_MEMORY: `copy` is as it was. */
lh_status lh_places_copy(lh_places *copy, const lh_places *places, lh_error *error);
/* Puts them in order; of equal ones one stays. */
void lh_places_order(lh_places *places);
/* Whether any text can follow, or end here. */
bool lh_places_is_alive(const lh_places *places);

/* Scratch: large with a large grammar, so share it where threads allow. */
typedef struct lh_closure lh_closure;

/* The automaton must outlive it. LH_ERR_NO_MEMORY. */
lh_status lh_closure_create(const lh_automaton *automaton, lh_closure **closure, lh_error *error);
void lh_closure_destroy(lh_closure *closure);

/* Where the grammar begins. *places is overwritten; stacks are made in `pool`, also in the other
 * functions. LH_ERR_LIMIT, LH_ERR_NO_MEMORY. */
lh_status lh_closure_begin(lh_closure *closure, lh_stack_pool *pool, lh_places *places,
                           lh_error *error);
/* Where `from` goes on after one byte: perhaps nowhere. *places is overwritten, and is not `from`.
 * LH_ERR_LIMIT, LH_ERR_NO_MEMORY. */
lh_status lh_closure_step(lh_closure *closure, lh_stack_pool *pool, const lh_places *from,
                          uint8_t byte, lh_places *places, lh_error *error);
/* The same after a token that the grammar names. */
lh_status lh_closure_step_token(lh_closure *closure, lh_stack_pool *pool, const lh_places *from,
                                uint32_t token, lh_places *places, lh_error *error);
/* What the last of these three did: edges, places and calls that it looked at. */
size_t lh_closure_work(const lh_closure *closure);
