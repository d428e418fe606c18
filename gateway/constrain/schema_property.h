/* The members that several schemas of an object speak of: each name with the schemas that hold for
 * its value, and what holds for names that none of them names. Thread: the owner's. */
#pragma once

#include "gateway/constrain/schema_document.h"
#include "gateway/constrain/schema_list.h"

#define LH_SCHEMA_PROPERTIES_MAX 5000u
/* "patternProperties" of all schemas together. */
#define LH_SCHEMA_PATTERNS_MAX 16u

typedef struct lh_schema_property {
    const char *name;
    bool is_required;
} lh_schema_property;

typedef struct lh_schema_properties {
    const lh_schema_document *document;
    const lh_schema_list *all;
    lh_schema_property *properties; /* [count], in the schemas' order */
    size_t count, capacity;
    json_t *index; /* name -> its place */
    /* patterns[pattern_count], which each schema's own schemas belong to */
    const char *patterns[LH_SCHEMA_PATTERNS_MAX];
    const json_t *pattern_schemas[LH_SCHEMA_PATTERNS_MAX], *pattern_owners[LH_SCHEMA_PATTERNS_MAX];
    size_t pattern_count;
    bool has_others; /* names that are in none of the schemas may be written */
    uint32_t least, most;
} lh_schema_properties;

/* Either way the caller resets *properties. Failures stick in the grammar. */
void lh_schema_properties_find(const lh_schema_document *document, const lh_schema_list *all,
                               lh_schema_properties *properties);
void lh_schema_properties_reset(lh_schema_properties *properties);

/* What holds for the value of a member. `name`: NULL for one that is not named; `matched`: the
 * patterns that match its name, bit by bit. */
lh_schema_list lh_schema_properties_of(const lh_schema_properties *properties, const char *name,
                                       uint32_t matched);
