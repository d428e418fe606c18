/* A grammar as an automaton over bytes with a stack. Each rule is a nondeterministic automaton of
 * its own, built as Thompson's (doi 10.1145/363347.363387); one of its states calls another rule,
 * and goes on when that is at its end. A repetition with large bounds is a call, too, of what is
 * repeated: the stack counts (stack_pool.h). What is repeated a few times is copied.
 *
 * Read-only after creation: any thread. */
#pragma once

#include "common/base/status.h"
#include "gateway/constrain/grammar.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 8 MiB, and so are edges and targets at most. */
#define LH_AUTOMATON_STATES_MAX (1u << 18)
#define LH_AUTOMATON_EDGES_MAX  (1u << 20)
/* A grammar's nodes, each as often as it is copied. */
#define LH_AUTOMATON_WORK_MAX (1u << 21)

typedef enum lh_state_kind {
    LH_STATE_DEAD,   /* no text leads from here to the rule's end */
    LH_STATE_FINAL,  /* the rule is at its end */
    LH_STATE_END,    /* on a stack only: where the whole grammar is at its end */
    LH_STATE_ESCAPE, /* on a stack only: what lies below is not known (byte_walk.h) */
    LH_STATE_BYTES,  /* one byte on each of the edges */
    LH_STATE_SPLIT,  /* nothing, to all of the targets */
    LH_STATE_CALL,   /* the rule `value`, then `next` */
    LH_STATE_LOOP,   /* `min` to `max` times the rule `value`, then `next` */
    LH_STATE_TOKEN   /* the token `value`, then `next` */
} lh_state_kind;

/* One of each is enough, since rules end alike. */
enum { LH_AUTOMATON_FINAL, LH_AUTOMATON_END, LH_AUTOMATON_ESCAPE, LH_AUTOMATON_FIRST_STATE };

typedef struct lh_automaton_state {
    lh_state_kind kind;
    uint32_t first, count; /* BYTES: edges; SPLIT: targets */
    uint32_t value, next;  /* CALL, LOOP, TOKEN */
    uint32_t min, max;     /* LOOP: max > 0, perhaps LH_GRAMMAR_UNBOUNDED */
} lh_automaton_state;

typedef struct lh_automaton_edge {
    uint32_t target;
    uint8_t first, last;
} lh_automaton_edge;

typedef struct lh_automaton_rule {
    uint32_t start;
    uint32_t rank;    /* a rule at whose front another may be called has a lower rank than it */
    bool is_nullable; /* the empty text is one of its own */
    uint32_t name;    /* the grammar's rule of which it is, or is a part; LH_GRAMMAR_FAILED: root */
} lh_automaton_rule;

typedef struct lh_automaton {
    lh_automaton_state *states;
    lh_automaton_edge *edges;
    uint32_t *targets;
    lh_automaton_rule *rules; /* [rule_count]; the last is the root */
    uint32_t *by_rank;        /* [rule_count]: rules */
    size_t state_count, state_capacity, edge_count, edge_capacity, target_count, target_capacity,
        rule_count, rule_capacity;
    uint32_t root;
    uint8_t class_of[256]; /* bytes that no edge tells apart are in one class */
    uint32_t class_count;  /* 1 .. 256 */
} lh_automaton;

/* Keeps nothing of the grammar. `vocabulary`: tokens must be below. The errors are those of
 * lh_constraint_create. */
lh_status lh_automaton_create(const lh_grammar *grammar, uint32_t vocabulary,
                              lh_automaton **automaton, lh_error *error);
void lh_automaton_destroy(lh_automaton *automaton);
