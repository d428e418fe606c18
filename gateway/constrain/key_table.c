/* Open addressing. */
#include "gateway/constrain/key_table.h"

#include <assert.h>
#include <stdlib.h>

#define SLOTS_MIN 64

void lh_key_table_reset(lh_key_table *table, void release(void *value)) {
    for (size_t i = 0; table->slots && i <= table->mask; i++)
        if (table->slots[i].value)
            release(table->slots[i].value);
    free(table->slots);
    *table = (lh_key_table){0};
}

/* The key's slot, or the empty one where it would be. */
static lh_key_slot *slot_of(lh_key_slot *slots, size_t mask, lh_stack_hash key) {
    size_t at = (size_t)key.low & mask;
    while (slots[at].value && (slots[at].key.low != key.low || slots[at].key.high != key.high))
        at = (at + 1) & mask;
    return &slots[at];
}

void *lh_key_table_find(const lh_key_table *table, lh_stack_hash key) {
    return table->slots ? slot_of(table->slots, table->mask, key)->value : NULL;
}

static bool grow(lh_key_table *table) {
    size_t count = table->slots ? (table->mask + 1) * 2 : SLOTS_MIN;
    lh_key_slot *made = calloc(count, sizeof *made);
    if (!made)
        return false;
    for (size_t i = 0; table->slots && i <= table->mask; i++)
        if (table->slots[i].value)
            *slot_of(made, count - 1, table->slots[i].key) = table->slots[i];
    free(table->slots);
    table->slots = made;
    table->mask = count - 1;
    return true;
}

bool lh_key_table_add(lh_key_table *table, lh_stack_hash key, void *value) {
    if ((!table->slots || table->count * 2 > table->mask) && !grow(table))
        return false;
    lh_key_slot *slot = slot_of(table->slots, table->mask, key);
    assert(!slot->value && value);
    *slot = (lh_key_slot){key, value};
    table->count++;
    return true;
}
