/* From a grammar's nodes to states. Thread: the owner's. */
#pragma once

#include "gateway/constrain/automaton.h"
#include "gateway/constrain/grammar_form.h"

/* Fills states, edges, targets and rules (start and name), the root last, of an empty automaton.
 * LH_ERR_INVALID: a rule that is called is not defined, no root, a token that is not in the
 * vocabulary; LH_ERR_LIMIT, LH_ERR_NO_MEMORY. */
lh_status lh_automaton_build(lh_automaton *automaton, const lh_grammar *grammar,
                             uint32_t vocabulary, lh_error *error);
