/* Token counts: an array of entries and an open-addressing index into it. */
#include "gateway/schedule/token_census.h"

#include <stdlib.h>

struct lh_token_census {
    lh_step_token_count *entries;
    uint32_t count, capacity;
    uint32_t *slots; /* [slot_count], a power of two: index of an entry + 1, or 0 */
    uint32_t slot_count;
};

#define FIRST_CAPACITY 64u /* distinct tokens of a short prompt */

lh_status lh_token_census_create(lh_token_census **census) {
    lh_token_census *c = calloc(1, sizeof *c);
    if (!c)
        return LH_ERR_NO_MEMORY;
    c->capacity = FIRST_CAPACITY;
    c->slot_count = 2 * FIRST_CAPACITY;
    c->entries = malloc(c->capacity * sizeof *c->entries);
    c->slots = calloc(c->slot_count, sizeof *c->slots);
    if (!c->entries || !c->slots) {
        lh_token_census_destroy(c);
        return LH_ERR_NO_MEMORY;
    }
    *census = c;
    return LH_OK;
}

void lh_token_census_destroy(lh_token_census *census) {
    if (!census)
        return;
    free(census->entries);
    free(census->slots);
    free(census);
}

/* The slot that holds the token, or the empty one where it belongs. */
static uint32_t *find_slot(const lh_token_census *census, uint32_t token) {
    uint32_t mask = census->slot_count - 1;
    uint32_t i = (token * 2654435761u) & mask; /* Knuth's multiplicative hash */
    while (census->slots[i] && census->entries[census->slots[i] - 1].token != token)
        i = (i + 1) & mask;
    return &census->slots[i];
}

static lh_status grow(lh_token_census *census) {
    uint32_t capacity = census->capacity * 2;
    lh_step_token_count *entries = realloc(census->entries, capacity * sizeof *entries);
    if (!entries)
        return LH_ERR_NO_MEMORY;
    census->entries = entries;
    uint32_t *slots = calloc(2 * (size_t)capacity, sizeof *slots);
    if (!slots)
        return LH_ERR_NO_MEMORY;
    free(census->slots);
    census->slots = slots;
    census->slot_count = 2 * capacity;
    census->capacity = capacity;
    for (uint32_t i = 0; i < census->count; i++)
        *find_slot(census, entries[i].token) = i + 1;
    return LH_OK;
}

lh_status lh_token_census_add(lh_token_census *census, uint32_t token, bool is_output) {
    uint32_t *slot = find_slot(census, token);
    if (!*slot) {
        if (census->count == census->capacity) {
            if (grow(census) != LH_OK)
                return LH_ERR_NO_MEMORY;
            slot = find_slot(census, token);
        }
        census->entries[census->count] = (lh_step_token_count){.token = token};
        *slot = ++census->count;
    }
    lh_step_token_count *entry = &census->entries[*slot - 1];
    if (is_output)
        entry->output_count++;
    else
        entry->prompt_count++;
    return LH_OK;
}

const lh_step_token_count *lh_token_census_entries(const lh_token_census *census, uint32_t *count) {
    *count = census->count;
    return census->entries;
}
