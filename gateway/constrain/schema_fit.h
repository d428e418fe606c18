/* Whether a value that a schema names itself (enum, const) satisfies the other schemas that hold
 * for it. Thread: the owner's. */
#pragma once

#include "gateway/constrain/schema_document.h"
#include "gateway/constrain/schema_list.h"

/* `source`: the list (enum) of which the value is one, or NULL. oneOf counts as anyOf, as it does
 * for what is generated. False after a failure, too, which sticks in the grammar. */
bool lh_schema_value_fits(const lh_schema_document *document, const lh_schema_list *all,
                          const json_t *source, const json_t *value);
