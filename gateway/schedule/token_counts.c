/* Token counts: an array of entries and an open-addressing index into it. */
#include "gateway/schedule/token_counts.h"

#include <stdlib.h>

struct lh_token_counts {
    lh_token_count *entries;
    uint32_t count, capacity;
    uint32_t *slots; /* [slot_count], a power of two: index of an entry + 1, or 0 */
    uint32_t slot_count;
};

#define FIRST_CAPACITY 64u /* distinct tokens of a short prompt */

lh_status lh_token_counts_create(lh_token_counts **token_counts) {
    lh_token_counts *c = calloc(1, sizeof *c);
    if (!c)
        return LH_ERR_NO_MEMORY;
    c->capacity = FIRST_CAPACITY;
    c->slot_count = 2 * FIRST_CAPACITY;
    c->entries = malloc(c->capacity * sizeof *c->entries);
    c->slots = calloc(c->slot_count, sizeof *c->slots);
    if (!c->entries || !c->slots) {
        lh_token_counts_destroy(c);
        return LH_ERR_NO_MEMORY;
    }
    *token_counts = c;
    return LH_OK;
}

void lh_token_counts_destroy(lh_token_counts *token_counts) {
    if (!token_counts)
        return;
    free(token_counts->entries);
    free(token_counts->slots);
    free(token_counts);
}

/* The slot that holds the token, or the empty one where it belongs. */
static uint32_t *find_slot(const lh_token_counts *token_counts, uint32_t token) {
    uint32_t mask = token_counts->slot_count - 1;
    uint32_t i = (token * 2654435761u) & mask; /* Knuth's multiplicative hash */
    while (token_counts->slots[i] &&
           token_counts->entries[token_counts->slots[i] - 1].token != token)
        i = (i + 1) & mask;
    return &token_counts->slots[i];
}

static lh_status grow(lh_token_counts *token_counts) {
    uint32_t capacity = token_counts->capacity * 2;
    lh_token_count *entries = realloc(token_counts->entries, capacity * sizeof *entries);
    if (!entries)
        return LH_ERR_NO_MEMORY;
    token_counts->entries = entries;
    uint32_t *slots = calloc(2 * (size_t)capacity, sizeof *slots);
    if (!slots)
        return LH_ERR_NO_MEMORY;
    free(token_counts->slots);
    token_counts->slots = slots;
    token_counts->slot_count = 2 * capacity;
    token_counts->capacity = capacity;
    for (uint32_t i = 0; i < token_counts->count; i++)
        *find_slot(token_counts, entries[i].token) = i + 1;
    return LH_OK;
}

lh_status lh_token_counts_add(lh_token_counts *token_counts, uint32_t token, bool is_output) {
    uint32_t *slot = find_slot(token_counts, token);
    if (!*slot) {
        if (token_counts->count == token_counts->capacity) {
            if (grow(token_counts) != LH_OK)
                return LH_ERR_NO_MEMORY;
            slot = find_slot(token_counts, token);
        }
        token_counts->entries[token_counts->count] = (lh_token_count){.token = token};
        *slot = ++token_counts->count;
    }
    lh_token_count *entry = &token_counts->entries[*slot - 1];
    if (is_output)
        entry->output_count++;
    else
        entry->prompt_count++;
    return LH_OK;
}

const lh_token_count *lh_token_counts_entries(const lh_token_counts *token_counts,
                                              uint32_t *count) {
    *count = token_counts->count;
    return token_counts->entries;
}
