/* Token counts: an array of entries and an open-addressing index into it. */
#include "gateway/schedule/token_counts.h"

#include <assert.h>
#include <stdlib.h>

struct lh_token_counts {
    uint32_t count, capacity;
    uint32_t mask;   /* of the number of slots, a power of two of which half stay empty */
    uint32_t *slots; /* index of an entry + 1, or 0 */
    lh_token_count entries[];
};

lh_token_counts *lh_token_counts_create(uint32_t tokens) {
    lh_token_counts *made = calloc(1, sizeof *made + tokens * sizeof made->entries[0]);
    if (!made)
        return NULL;
    made->capacity = tokens;
    size_t slots = 2;
    while (slots < 2 * (size_t)tokens)
        slots *= 2;
    made->mask = (uint32_t)(slots - 1);
    made->slots = calloc(slots, sizeof *made->slots);
    if (made->slots)
        return made;
    free(made);
    return NULL;
}

void lh_token_counts_destroy(lh_token_counts *token_counts) {
    if (!token_counts)
        return;
    free(token_counts->slots);
    free(token_counts);
}

lh_token_count *lh_token_counts_entry(lh_token_counts *token_counts, uint32_t token) {
    uint32_t i = (token * 2654435761u) & token_counts->mask; /* Knuth's multiplicative hash */
    for (; token_counts->slots[i]; i = (i + 1) & token_counts->mask) {
        lh_token_count *entry = &token_counts->entries[token_counts->slots[i] - 1];
        if (entry->token == token)
            return entry;
    }
    assert(token_counts->count < token_counts->capacity);
    lh_token_count *entry = &token_counts->entries[token_counts->count];
    entry->token = token;
    token_counts->slots[i] = ++token_counts->count;
    return entry;
}

const lh_token_count *lh_token_counts_entries(const lh_token_counts *token_counts,
                                              uint32_t *count) {
    *count = token_counts->count;
    return token_counts->entries;
}
