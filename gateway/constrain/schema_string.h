/* Strings of a JSON Schema: minLength, maxLength, pattern, and format. Of the formats, date, time,
 * date-time, duration, uuid, email, hostname, ipv4, ipv6 and uri are followed (some of them with
 * less than their standards allow, never with more); the others of the standard are
 * LH_ERR_UNSUPPORTED, and names that it does not know are annotations. Thread: the owner's. */
#pragma once

#include "gateway/constrain/json_rules.h"
#include "gateway/constrain/schema_document.h"
#include "gateway/constrain/schema_list.h"

/* A string with its quotes for which all schemas hold. Failures stick in the grammar. */
lh_grammar_node lh_schema_string_add(const lh_schema_document *document, const lh_json_rules *rules,
                                     const lh_schema_list *all);
/* Appends what one schema asks of a text, without its quotes, as nodes of `grammar`, to
 * nodes[*count], which has room for `max`. */
void lh_schema_string_add_parts(const lh_schema_document *document, const json_t *schema,
                                lh_grammar *grammar, lh_grammar_node *nodes, size_t max,
                                size_t *count);
/* Whether a text satisfies one schema's keywords; false after a failure, too. */
bool lh_schema_string_fits(const lh_schema_document *document, const json_t *schema,
                           const json_t *text);
