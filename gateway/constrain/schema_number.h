/* Numbers of a JSON Schema: minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf. All
 * of them are exact, as decimals (decimal_language.h). Thread: the owner's. */
#pragma once

#include "gateway/constrain/json_rules.h"
#include "gateway/constrain/schema_document.h"
#include "gateway/constrain/schema_list.h"

/* A number, or where integers_only an integer, for which all schemas hold. Failures stick in the
 * grammar. */
lh_grammar_node lh_schema_number_add(const lh_schema_document *document, const lh_json_rules *rules,
                                     const lh_schema_list *all, bool integers_only);
/* Whether a number satisfies one schema's keywords; false after a failure, too. */
bool lh_schema_number_fits(const lh_schema_document *document, const json_t *schema,
                           const json_t *number);
/* Whether two numbers are the same. */
bool lh_schema_numbers_are_equal(const json_t *a, const json_t *b);
