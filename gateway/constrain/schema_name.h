/* What "propertyNames" says of the names of an object's members: type, minLength, maxLength,
 * pattern, format, enum and const are followed there, other keywords refused. Failures stick in the
 * grammar. Thread: the owner's. */
#pragma once

#include "gateway/constrain/schema_document.h"
#include "gateway/constrain/schema_list.h"

/* Appends nodes of `grammar`, all of whose texts a name is one of, for each of the schemas' own, to
 * nodes[*count], which has room for `max`. */
void lh_schema_names_add(const lh_schema_document *document, const lh_schema_list *all,
                         lh_grammar *grammar, lh_grammar_node *nodes, size_t max, size_t *count);
/* Whether some schema of them says anything. */
bool lh_schema_names_are_bound(const lh_schema_list *all);
/* Whether one schema's "propertyNames" takes a name; false after a failure, too. */
bool lh_schema_name_fits(const lh_schema_document *document, const json_t *schema,
                         const char *name);
