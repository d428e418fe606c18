/* The automaton's state, one token at a time. */
#include "gateway/schedule/guide.h"

#include <assert.h>
#include <stddef.h>

lh_status lh_guide_init(lh_guide *guide, lh_constraint *constraint, lh_error *error) {
    *guide = (lh_guide){.state = NULL};
    return constraint ? lh_constraint_state_create(constraint, &guide->state, error) : LH_OK;
}

void lh_guide_init_as(lh_guide *guide, const lh_guide *other) {
    *guide = (lh_guide){.state = other->state ? lh_constraint_state_acquire(other->state) : NULL,
                        .mask = other->mask ? lh_mask_acquire(other->mask) : NULL};
}

/* Before it moves on. */
static lh_status own_state(lh_guide *guide, lh_error *error) {
    if (!lh_constraint_state_is_shared(guide->state))
        return LH_OK;
    lh_constraint_state *own;
    lh_status status = lh_constraint_state_copy(guide->state, &own, error);
    if (status)
        return status;
    lh_constraint_state_destroy(guide->state);
    guide->state = own;
    return LH_OK;
}

static void drop_mask(lh_guide *guide) {
    lh_mask_release(guide->mask);
    guide->mask = NULL;
}

void lh_guide_reset(lh_guide *guide) {
    drop_mask(guide);
    lh_constraint_state_destroy(guide->state);
    guide->state = NULL;
}

bool lh_guide_allows(const lh_guide *guide, uint32_t token) {
    if (!guide->state)
        return true;
    assert(guide->mask);
    return token < guide->mask->vocabulary && guide->mask->words[token / 64] >> token % 64 & 1;
}

lh_status lh_guide_take(lh_guide *guide, uint32_t token, lh_error *error) {
    if (!guide->state)
        return LH_OK;
    drop_mask(guide);
    lh_status status = own_state(guide, error);
    return status ? status : lh_constraint_state_take(guide->state, token, error);
}

uint64_t lh_guide_work(const lh_guide *guide) {
    return guide->state ? lh_constraint_state_work(guide->state) : 0;
}

bool lh_guide_is_finished(const lh_guide *guide) {
    return guide->state && lh_constraint_state_is_finished(guide->state);
}

/* Takes tokens[count] in a row. */
static lh_status take_all(lh_constraint_state *state, const uint32_t *tokens, uint32_t count,
                          lh_error *error) {
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < count && status == LH_OK; i++)
        status = lh_constraint_state_take(state, tokens[i], error);
    return status;
}

/* The same from `before`, but for the last token. */
static lh_status leave_last(lh_guide *guide, lh_constraint_state *before, const uint32_t *tokens,
                            uint32_t *count, lh_error *error) {
    lh_constraint_state_destroy(guide->state);
    guide->state = before;
    --*count;
    return take_all(before, tokens, *count, error);
}

lh_status lh_guide_take_forced(lh_guide *guide, bool keeps_end, uint32_t *tokens, uint32_t max,
                               uint32_t *count, lh_error *error) {
    *count = 0;
    if (!guide->state || max == 0 || lh_constraint_state_is_finished(guide->state))
        return LH_OK;
    lh_constraint_state *before = NULL;
    lh_status status = lh_constraint_state_forced(guide->state, tokens, max, count, error);
    if (status == LH_OK && *count > 0 && keeps_end)
        status = lh_constraint_state_copy(guide->state, &before, error);
    if (status == LH_OK && *count > 0)
        status = own_state(guide, error);
    if (status == LH_OK && *count > 0) {
        drop_mask(guide);
        status = take_all(guide->state, tokens, *count, error);
    }
    if (status == LH_OK && before && lh_constraint_state_is_finished(guide->state))
        return leave_last(guide, before, tokens, count, error);
    lh_constraint_state_destroy(before);
    return status;
}

lh_status lh_guide_find_mask(lh_guide *guide, lh_error *error) {
    if (!guide->state || guide->mask)
        return LH_OK;
    const lh_mask *mask;
    lh_status status = lh_constraint_state_mask(guide->state, &mask, error);
    if (status == LH_OK)
        guide->mask = lh_mask_acquire(mask);
    return status;
}
