/* What an answer may be: a grammar, compiled for one tokenizer, and the place of a sequence in it.
 * At each place a mask says which tokens may come next. Tokens are judged by their bytes, so a
 * character may be spread over tokens, and a token over parts of the grammar. Control tokens are
 * allowed only where the grammar names them, and those that end a generation only where the grammar
 * may end.
 *
 * A constraint is shared: between requests, sequences and threads. It keeps the masks that were
 * computed, up to LH_CONSTRAINT_CACHE_BYTES_MAX. A state is one sequence's: one thread at a time.
 */
#pragma once

#include "common/base/status.h"
#include "gateway/constrain/grammar.h"
#include "gateway/constrain/mask.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Masks that nobody holds any more go when a constraint's masks take more than this. */
#define LH_CONSTRAINT_CACHE_BYTES_MAX (32u << 20)

typedef struct lh_constraint_vocabulary lh_constraint_vocabulary; /* constraint_vocabulary.h */
typedef struct lh_constraint lh_constraint;
typedef struct lh_constraint_state lh_constraint_state;

/* Compiles a grammar, of which it keeps nothing; it holds a reference to the vocabulary. Any
 * grammar takes less than a second. The failure that stuck in the grammar is given as it is.
 * LH_ERR_INVALID: a rule that is called is not defined, the grammar has no root, or no text matches
 * it; LH_ERR_UNSUPPORTED: left recursion, with the rule's name; LH_ERR_LIMIT: what was too large;
 * LH_ERR_NO_MEMORY. The caller holds one reference. */
lh_status lh_constraint_create(const lh_grammar *grammar,
                               const lh_constraint_vocabulary *vocabulary,
                               lh_constraint **constraint, lh_error *error);
/* Another reference. Any thread. */
lh_constraint *lh_constraint_acquire(lh_constraint *constraint);
/* NULL is allowed. Any thread. */
void lh_constraint_release(lh_constraint *constraint);

/* A sequence of which nothing is written yet. Holds a reference. LH_ERR_NO_MEMORY. */
lh_status lh_constraint_state_create(lh_constraint *constraint, lh_constraint_state **state,
                                     lh_error *error);
/* The same place once more, which moves by itself from now on. LH_ERR_NO_MEMORY. */
lh_status lh_constraint_state_copy(const lh_constraint_state *state, lh_constraint_state **copy,
                                   lh_error *error);
/* Another reference to the same state, which moves only where there is one. Any thread. */
lh_constraint_state *lh_constraint_state_acquire(lh_constraint_state *state);
bool lh_constraint_state_is_shared(const lh_constraint_state *state);
/* Gives a reference up, and the state with the last. NULL is allowed. */
void lh_constraint_state_destroy(lh_constraint_state *state);

/* The sequence goes on with `token`; the state is not shared. LH_ERR_INVALID: it was not allowed
 * here; LH_ERR_LIMIT: the text can be read in too many ways at once, or is nested too deeply;
 * LH_ERR_NO_MEMORY. After a failure the state is where it was. A token that ends the generation is
 * taken where it is allowed; after it nothing is. */
lh_status lh_constraint_state_take(lh_constraint_state *state, uint32_t token, lh_error *error);

/* What may come next. The mask lives until the state is next taken on, asked for its mask or
 * destroyed; lh_mask_acquire keeps it longer. LH_ERR_INVALID: nothing may, the sequence has ended;
 * LH_ERR_LIMIT: as above, or no token of the vocabulary fits; LH_ERR_NO_MEMORY. */
lh_status lh_constraint_state_mask(lh_constraint_state *state, const lh_mask **mask,
                                   lh_error *error);

/* Where only one text may come next: its tokens, as the tokenizer divides it, as far as they are
 * the same whatever follows. Writes up to `max` of them to tokens[max] and their number to *count,
 * which may be 0; the state stays where it is, and would take them. LH_ERR_LIMIT, LH_ERR_NO_MEMORY.
 */
lh_status lh_constraint_state_forced(lh_constraint_state *state, uint32_t *tokens, uint32_t max,
                                     uint32_t *count, lh_error *error);

/* What the calls above have looked at for the state so far: edges, places, nodes of the trie, in
 * units of some LH_CONSTRAINT_WORK_NS. */
#define LH_CONSTRAINT_WORK_NS 20u
uint64_t lh_constraint_state_work(const lh_constraint_state *state);

/* The answer may end here. */
bool lh_constraint_state_may_end(const lh_constraint_state *state);
/* The answer must end here: nothing but the end is allowed, or it has ended. */
bool lh_constraint_state_is_finished(const lh_constraint_state *state);
