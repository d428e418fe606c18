/* Objects of a JSON Schema: properties, required, additionalProperties, patternProperties,
 * minProperties, maxProperties.
 *
 * Members come in the schema's order, as OpenAI and the peers have it, those that are not required
 * may be absent; then those that are not named, where they are allowed. Where properties are named
 * and "additionalProperties" says nothing, there are no others (as with llama.cpp and xgrammar): a
 * model that may invent members does. An object of which nothing is named may have any.
 *
 * Of members that are not named, two may have the same name, of which readers take the last. So at
 * most one of them counts where "minProperties" asks for more than are required.
 *
 * Thread: the owner's. */
#pragma once

#include "gateway/constrain/schema_values.h"

/* Places of members, for each number of those that were written before, where numbers matter. */
#define LH_SCHEMA_MEMBER_STATES_MAX 20000u

/* An object for which all schemas hold. Failures stick in the grammar. */
lh_grammar_node lh_schema_object_add(lh_schema_values *values, const lh_schema_list *all);
