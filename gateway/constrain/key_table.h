/* What was found out, by a key of 128 bits that is a hash already. Thread: the owner's. */
#pragma once

#include "gateway/constrain/stack_pool.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct lh_key_slot {
    lh_stack_hash key;
    void *value; /* NULL: the slot is empty */
} lh_key_slot;

typedef struct lh_key_table {
    lh_key_slot *slots; /* [mask + 1] */
    size_t count, mask;
} lh_key_table;

/* An empty table is {0}. `release` is called for each value. */
void lh_key_table_reset(lh_key_table *table, void release(void *value));
/* NULL where the key is not there. */
void *lh_key_table_find(const lh_key_table *table, lh_stack_hash key);
/* The key is not there yet. False: no memory, and the value was not taken. */
bool lh_key_table_add(lh_key_table *table, lh_stack_hash key, void *value);
