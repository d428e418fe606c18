/* What sequences share. */
#include "gateway/constrain/constraint.h"

#include "gateway/constrain/constraint_parts.h"

#include <assert.h>
#include <stdlib.h>

static void destroy(lh_constraint *constraint) {
    lh_stack_copier_reset(&constraint->copier);
    lh_mask_finder_destroy(constraint->finder);
    lh_byte_walk_destroy(constraint->walk);
    lh_closure_destroy(constraint->closure);
    lh_automaton_destroy(constraint->automaton);
    lh_constraint_vocabulary_release(constraint->vocabulary);
    pthread_mutex_destroy(&constraint->lock);
    free(constraint);
}

static lh_status fill(lh_constraint *made, const lh_grammar *grammar, lh_error *error) {
    const lh_tokenizer *tokenizer = lh_constraint_vocabulary_tokenizer(made->vocabulary);
    const lh_token_trie *trie = lh_constraint_vocabulary_trie(made->vocabulary);
    uint32_t stop_count;
    const uint32_t *stops = lh_tokenizer_stop_tokens(tokenizer, &stop_count);
    lh_status status = lh_automaton_create(grammar, trie->vocabulary, &made->automaton, error);
    if (!status)
        status = lh_closure_create(made->automaton, &made->closure, error);
    if (!status)
        status = lh_byte_walk_create(made->automaton, made->closure, trie, &made->walk, error);
    if (!status)
        status = lh_mask_finder_create(made->automaton, made->walk, trie, stops, stop_count,
                                       &made->finder, error);
    return status;
}

lh_status lh_constraint_create(const lh_grammar *grammar,
                               const lh_constraint_vocabulary *vocabulary,
                               lh_constraint **constraint, lh_error *error) {
    lh_constraint *made = calloc(1, sizeof *made);
    if (!made || pthread_mutex_init(&made->lock, NULL)) {
        free(made);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a constraint");
    }
    atomic_init(&made->holders, 1);
    made->vocabulary = lh_constraint_vocabulary_acquire(vocabulary);
    lh_status status = fill(made, grammar, error);
    if (status) {
        destroy(made);
        return status;
    }
    *constraint = made;
    return LH_OK;
}

lh_constraint *lh_constraint_acquire(lh_constraint *constraint) {
    atomic_fetch_add(&constraint->holders, 1);
    return constraint;
}

void lh_constraint_release(lh_constraint *constraint) {
    if (!constraint)
        return;
    unsigned before = atomic_fetch_sub(&constraint->holders, 1);
    assert(before > 0);
    if (before == 1)
        destroy(constraint);
}
