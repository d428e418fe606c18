/* What schemas that all hold for a value say, as alternatives: in each of them "$ref", "allOf",
 * "anyOf" and "oneOf" are resolved, so that only keywords are left that speak of the value itself
 * and of what is inside it. oneOf is taken as anyOf: a value for which two of its schemas hold is
 * not excluded. Thread: the owner's. */
#pragma once

#include "gateway/constrain/schema_document.h"
#include "gateway/constrain/schema_list.h"

/* Alternatives of one value; and schemas that are looked at to find them. */
#define LH_SCHEMA_CLAUSES_MAX 1024u
#define LH_SCHEMA_STEPS_MAX   100000u
/* Schemas that hold for one value in one alternative: as deep goes the stack, 1 KB for each. */
#define LH_SCHEMA_CHAIN_MAX 256u

typedef struct lh_schema_clause {
    lh_schema_list all; /* objects with keywords other than the four */
    unsigned types;     /* that all of them allow, lh_schema_type; not 0 */
} lh_schema_clause;

typedef struct lh_schema_clauses {
    lh_schema_clause *clauses; /* [count]; none: no value satisfies all */
    size_t count, capacity;
} lh_schema_clauses;

/* *clauses was {0}; either way the caller resets it. Failures stick in the grammar: LH_ERR_INVALID,
 * LH_ERR_UNSUPPORTED, LH_ERR_LIMIT, LH_ERR_NO_MEMORY. */
void lh_schema_clauses_find(const lh_schema_document *document, const lh_schema_list *all,
                            lh_schema_clauses *clauses);
void lh_schema_clauses_reset(lh_schema_clauses *clauses);
