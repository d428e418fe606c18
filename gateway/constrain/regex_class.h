/* Sets of characters, as a class in brackets or an escape like \d collects them. Thread: the
 * owner's. */
#pragma once

#include "gateway/constrain/grammar.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_character_set {
    lh_character_range *ranges;
    size_t count, capacity;
    bool has_failed; /* no memory for a range */
} lh_character_set;

/* An empty set is {0}. */
void lh_character_set_reset(lh_character_set *set);
void lh_character_set_add(lh_character_set *set, uint32_t first, uint32_t last);
/* Adds the set of \d \D \w \W \s \S, named by its letter. False: it is none of these. */
bool lh_character_set_add_named(lh_character_set *set, uint32_t letter);
/* Becomes what it was not. */
void lh_character_set_negate(lh_character_set *set);
bool lh_character_set_has(const lh_character_set *set, uint32_t character);

/* One of these characters; as_json: as it is written inside a JSON string. */
lh_grammar_node lh_character_set_node(const lh_character_set *set, bool as_json,
                                      lh_grammar *grammar);
