/* A sequence's places in the grammar, with the stacks below them. */
#include "gateway/constrain/constraint.h"

#include "gateway/constrain/constraint_parts.h"
#include "gateway/constrain/forced_text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Stacks of one sequence that lie below its places. */
#define STACKS_LIVE_MAX (1u << 14)
/* With fewer, nobody looks for those that nothing needs any more. */
#define STACKS_KEPT_MIN 256

struct lh_constraint_state {
    atomic_uint holders;
    lh_constraint *constraint;
    lh_stack_pool pool;
    lh_places places;
    size_t stacks_kept; /* when they were last looked through */
    bool has_ended;     /* a token that ends the generation was taken */
    uint64_t work;      /* done for it so far */
    const lh_mask *mask;
};

/* NULL: no memory. */
static lh_constraint_state *create_empty(lh_constraint *constraint, lh_error *error) {
    lh_constraint_state *made = calloc(1, sizeof *made);
    if (!made) {
        lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the state of a constraint");
        return NULL;
    }
    atomic_init(&made->holders, 1);
    made->constraint = lh_constraint_acquire(constraint);
    made->pool.count_max = lh_constraint_vocabulary_trie(constraint->vocabulary)->depth_max;
    return made;
}

lh_status lh_constraint_state_create(lh_constraint *constraint, lh_constraint_state **state,
                                     lh_error *error) {
    lh_constraint_state *made = create_empty(constraint, error);
    if (!made)
        return LH_ERR_NO_MEMORY;
    pthread_mutex_lock(&constraint->lock);
    lh_status status = lh_closure_begin(constraint->closure, &made->pool, &made->places, error);
    pthread_mutex_unlock(&constraint->lock);
    if (status) {
        lh_constraint_state_destroy(made);
        return status;
    }
    *state = made;
    return LH_OK;
}

/* The same stacks in another pool, without those that nothing needs. */
static lh_status copy_stacks(lh_constraint *constraint, const lh_stack_pool *from,
                             lh_stack_pool *to, lh_places *places, lh_error *error) {
    lh_stack_copy copy = {constraint->automaton, from, to, LH_STACK_DEPTH_ALL, false};
    return lh_stack_copier_run(&constraint->copier, &copy, places, error);
}

lh_status lh_constraint_state_copy(const lh_constraint_state *state, lh_constraint_state **copy,
                                   lh_error *error) {
    lh_constraint *constraint = state->constraint;
    lh_constraint_state *made = create_empty(constraint, error);
    if (!made)
        return LH_ERR_NO_MEMORY;
    made->has_ended = state->has_ended;
    made->work = state->work + state->places.count + state->pool.stack_count;
    lh_status status = lh_places_copy(&made->places, &state->places, error);
    if (!status) {
        pthread_mutex_lock(&constraint->lock);
        status = copy_stacks(constraint, &state->pool, &made->pool, &made->places, error);
        pthread_mutex_unlock(&constraint->lock);
    }
    if (status) {
        lh_constraint_state_destroy(made);
        return status;
    }
    *copy = made;
    return LH_OK;
}

lh_constraint_state *lh_constraint_state_acquire(lh_constraint_state *state) {
    atomic_fetch_add(&state->holders, 1);
    return state;
}

bool lh_constraint_state_is_shared(const lh_constraint_state *state) {
    return atomic_load(&state->holders) > 1;
}

void lh_constraint_state_destroy(lh_constraint_state *state) {
    if (!state || atomic_fetch_sub(&state->holders, 1) > 1)
        return;
    lh_mask_release(state->mask);
    lh_places_reset(&state->places);
    lh_stack_pool_reset(&state->pool);
    lh_constraint_release(state->constraint);
    free(state);
}

/* ---- Tokens ---- */

static bool is_stop_token(const lh_constraint *constraint, uint32_t token) {
    uint32_t count;
    const uint32_t *stops = lh_tokenizer_stop_tokens(
        lh_constraint_vocabulary_tokenizer(constraint->vocabulary), &count);
    for (uint32_t i = 0; i < count; i++)
        if (stops[i] == token)
            return true;
    return false;
}

static bool names_token(const lh_constraint_state *state, uint32_t token) {
    for (size_t i = 0; i < state->places.count; i++) {
        const lh_automaton_state *at =
            &state->constraint->automaton->states[state->places.items[i].state];
        if (at->kind == LH_STATE_TOKEN && at->value == token)
            return true;
    }
    return false;
}

static lh_status refuse(uint32_t token, lh_error *error) {
    return lh_fail(error, LH_ERR_INVALID, "token %u is not what the grammar allows here", token);
}

/* Where the sequence is after these bytes: *places, which is overwritten. */
static lh_status read_bytes(lh_constraint_state *state, const char *bytes, size_t length,
                            lh_places *places, lh_error *error) {
    lh_places from = {0};
    lh_status status = lh_places_copy(places, &state->places, error);
    for (size_t i = 0; i < length && !status && lh_places_is_alive(places); i++) {
        lh_places read = from;
        from = *places;
        status = lh_closure_step(state->constraint->closure, &state->pool, &from, (uint8_t)bytes[i],
                                 &read, error);
        state->work += lh_closure_work(state->constraint->closure);
        *places = read;
    }
    lh_places_reset(&from);
    return status;
}

static lh_status read_token(lh_constraint_state *state, uint32_t token, lh_places *places,
                            lh_error *error) {
    const lh_tokenizer *tokenizer =
        lh_constraint_vocabulary_tokenizer(state->constraint->vocabulary);
    const char *bytes;
    size_t length;
    if (names_token(state, token))
        return lh_closure_step_token(state->constraint->closure, &state->pool, &state->places,
                                     token, places, error);
    if (lh_tokenizer_token_bytes(tokenizer, token, &bytes, &length) || length == 0)
        return refuse(token, error);
    lh_status status = read_bytes(state, bytes, length, places, error);
    return !status && !lh_places_is_alive(places) ? refuse(token, error) : status;
}

/* Once there are many stacks, those that nothing needs are given up. */
static lh_status drop_stacks(lh_constraint_state *state, lh_places *places, lh_error *error) {
    if (state->pool.stack_count < STACKS_KEPT_MIN ||
        state->pool.stack_count < 4 * state->stacks_kept)
        return LH_OK;
    lh_stack_pool kept = {.count_max = state->pool.count_max};
    lh_places copies = {0};
    lh_status status = lh_places_copy(&copies, places, error);
    /* The places that are left, if this fails later, need theirs as well: so they are copied, and
     * the pool is only exchanged when all is done. */
    if (!status)
        status = copy_stacks(state->constraint, &state->pool, &kept, &copies, error);
    if (!status && kept.stack_count > STACKS_LIVE_MAX)
        status = lh_fail(error, LH_ERR_LIMIT,
                         "the text is nested too deeply, or can be read in too many ways by its "
                         "grammar");
    if (status) {
        lh_stack_pool_reset(&kept);
        lh_places_reset(&copies);
        return status;
    }
    lh_stack_pool_reset(&state->pool);
    lh_places_reset(places);
    state->pool = kept;
    state->stacks_kept = kept.stack_count;
    *places = copies;
    return LH_OK;
}

static lh_status take(lh_constraint_state *state, uint32_t token, lh_error *error) {
    lh_places places = {0};
    lh_status status = read_token(state, token, &places, error);
    if (!status)
        status = drop_stacks(state, &places, error);
    if (status) {
        lh_places_reset(&places);
        return status;
    }
    lh_places_reset(&state->places);
    state->places = places;
    return LH_OK;
}

lh_status lh_constraint_state_take(lh_constraint_state *state, uint32_t token, lh_error *error) {
    lh_constraint *constraint = state->constraint;
    assert(!lh_constraint_state_is_shared(state));
    lh_status status = LH_OK;
    if (state->has_ended)
        return refuse(token, error);
    if (is_stop_token(constraint, token) && !names_token(state, token)) {
        if (!state->places.may_end)
            return refuse(token, error);
        state->has_ended = true;
    } else {
        pthread_mutex_lock(&constraint->lock);
        status = take(state, token, error);
        pthread_mutex_unlock(&constraint->lock);
    }
    if (!status) {
        lh_mask_release(state->mask);
        state->mask = NULL;
    }
    return status;
}

lh_status lh_constraint_state_mask(lh_constraint_state *state, const lh_mask **mask,
                                   lh_error *error) {
    lh_constraint *constraint = state->constraint;
    size_t work = 0;
    if (state->has_ended)
        return lh_fail(error, LH_ERR_INVALID, "the sequence has ended");
    if (!state->mask) {
        pthread_mutex_lock(&constraint->lock);
        lh_status status = lh_mask_finder_find(constraint->finder, &state->pool, &state->places,
                                               &state->mask, &work, error);
        pthread_mutex_unlock(&constraint->lock);
        state->work += work;
        if (status)
            return status;
    }
    if (state->mask->allowed == 0)
        return lh_fail(error, LH_ERR_LIMIT,
                       "no token of the vocabulary is what the grammar allows here");
    *mask = state->mask;
    return LH_OK;
}

lh_status lh_constraint_state_forced(lh_constraint_state *state, uint32_t *tokens, uint32_t max,
                                     uint32_t *count, lh_error *error) {
    lh_constraint *constraint = state->constraint;
    *count = 0;
    if (state->has_ended || !lh_forced_text_begins(constraint->automaton, &state->places))
        return LH_OK;
    lh_constraint_state *copy;
    size_t work = 0;
    lh_status status = lh_constraint_state_copy(state, &copy, error);
    if (status)
        return status;
    pthread_mutex_lock(&constraint->lock);
    status = lh_forced_text_tokens(&(lh_forced_text){constraint->automaton, constraint->closure,
                                                     constraint->vocabulary, &copy->pool,
                                                     &copy->places, &work},
                                   tokens, max, count, error);
    pthread_mutex_unlock(&constraint->lock);
    state->work += work;
    lh_constraint_state_destroy(copy);
    return status;
}

uint64_t lh_constraint_state_work(const lh_constraint_state *state) {
    return state->work;
}

bool lh_constraint_state_may_end(const lh_constraint_state *state) {
    return !state->has_ended && state->places.may_end;
}

bool lh_constraint_state_is_finished(const lh_constraint_state *state) {
    return state->has_ended || (state->places.may_end && state->places.count == 0);
}
