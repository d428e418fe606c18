/* Arrays of a JSON Schema: items, prefixItems, minItems, maxItems. Behind prefixItems nothing
 * follows unless items says so. Thread: the owner's. */
#pragma once

#include "gateway/constrain/schema_values.h"

/* An array for which all schemas hold. Failures stick in the grammar. */
lh_grammar_node lh_schema_array_add(lh_schema_values *values, const lh_schema_list *all);
