/* Characters as the inside of a JSON string has them (RFC 8259, section 7). Thread: the owner's. */
#pragma once

#include "gateway/constrain/grammar.h"

/* One character of the ranges, written in one way only: ", \ and control characters by their
 * shortest escape, all others as they are. The ranges may overlap. */
lh_grammar_node lh_json_characters(lh_grammar *grammar, const lh_character_range *ranges,
                                   size_t count);
