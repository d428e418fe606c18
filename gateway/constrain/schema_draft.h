/* A schema of an older draft, or of a library that writes null for what it does not say, in the
 * words of draft 2020-12. Thread: any. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/* A copy, which is the caller's; NULL: no memory. In it
 *  - keywords that are null are absent, but for const, default and examples;
 *  - a list of `items` is `prefixItems`, and `additionalItems` is `items`;
 *  - `exclusiveMinimum: true` is the minimum beside it, and so is exclusiveMaximum's;
 *  - a property that is `required: true` is in its object's list;
 *  - `uniqueItems` is absent: no grammar can tell an element from those before it;
 *  - a pattern that looks around is absent where a format says what the text is. */
json_t *lh_schema_draft_renew(const json_t *schema);
/* Whether the schema, or one inside of it, asks for what the last two leave out. */
bool lh_schema_draft_is_loose(const json_t *schema);
