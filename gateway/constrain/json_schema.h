/* JSON Schema (draft 2020-12, json-schema.org) as a grammar of the JSON texts that satisfy it: what
 * the grammar matches is valid; not all that is valid is matched. What is left out, so that an
 * answer is finite, is read by everybody and can be forced:
 *
 *  - The writing is that of Python's json.dumps: ", " and ": " between tokens, no other space;
 *    members in the schema's order (json_rules.h, schema_object.h).
 *  - Members and elements that no schema mentions are written only where "additionalProperties" or
 *    "items" allows them, or where nothing at all is named.
 *  - Numbers have bounded digits (json_rules.h, decimal_language.h). multipleOf is exact in
 *    decimals: 0.07 is a multiple of 0.01, though its double is not one.
 *  - The values of enum and const are written as they stand.
 *
 * type (lists, too; OpenAPI's nullable), enum, const, properties, required, additionalProperties,
 * patternProperties, minProperties, maxProperties, items, prefixItems, minItems, maxItems,
 * minLength, maxLength, pattern, format, minimum, maximum, exclusiveMinimum, exclusiveMaximum,
 * multipleOf, allOf, anyOf, oneOf, $ref (to places of the same document, recursive, too) and $defs
 * are followed, in any combination. oneOf is taken as anyOf: a value for which two of its schemas
 * hold is not excluded. Older drafts are read, and uniqueItems is not followed (schema_draft.h);
 * what else cannot be followed (not, if, contains, propertyNames, dependent..., $dynamicRef, ...)
 * is refused; words that the standard does not have are annotations. Of a format whose texts are
 * longer than a large maxLength, only shorter ones are matched.
 *
 * Thread: any; a grammar's is its owner's. */
#pragma once

#include "gateway/constrain/grammar.h"

#include <jansson.h>

/* The texts that satisfy the schema, as a node: a whole answer, or a part of one. What is wrong is
 * a failure of the grammar (which sticks), with the place as a JSON pointer and the keyword:
 * LH_ERR_INVALID: no schema, or one that no value satisfies at once; LH_ERR_UNSUPPORTED;
 * LH_ERR_LIMIT; LH_ERR_NO_MEMORY. Nothing of the schema is kept. */
lh_grammar_node lh_json_schema_add(lh_grammar *grammar, const json_t *schema);
/* Any JSON object. */
lh_grammar_node lh_json_object_add(lh_grammar *grammar);
