/* Several regular parts of a grammar as one deterministic automaton, which tells for each text
 * which of the parts have it: so their intersection, and what none of them has. Thread: the
 * owner's. */
#pragma once

#include "gateway/constrain/dfa.h"
#include "gateway/constrain/grammar.h"

#define LH_TEXT_PARTS_MAX 31u

/* The label of texts that exactly these parts have (bit i: part i); 0: they are not wanted. */
typedef uint32_t lh_text_label(const void *context, uint32_t parts);

/* parts[part_count]: nodes of `grammar` without calls and tokens. *work counts on.
 * LH_ERR_UNSUPPORTED, LH_ERR_LIMIT, LH_ERR_NO_MEMORY; the message goes on from what the texts are
 * called. Either way the caller resets *dfa, which was empty. */
lh_status lh_text_product_build(const lh_grammar *grammar, const lh_grammar_node *parts,
                                size_t part_count, lh_text_label *label, const void *context,
                                size_t *work, lh_dfa *dfa, lh_error *error);
