/* A JSON Schema (draft 2020-12, json-schema.org) as it was given: its keywords read and checked,
 * its references resolved, and what is wrong with it said with the place where it stands. Failures
 * stick in the grammar. Thread: the owner's. */
#pragma once

#include "gateway/constrain/grammar.h"

#include <jansson.h>

#define LH_SCHEMA_DEPTH_MAX 512
/* Values of the whole document, names included. */
#define LH_SCHEMA_VALUES_MAX 50000u
#define LH_SCHEMA_BYTES_MAX  (512u << 10)

typedef struct lh_schema_document {
    const json_t *root;
    lh_grammar *grammar;
    size_t *work; /* the grammar's */
} lh_schema_document;

/* Keeps all. LH_ERR_LIMIT: nested too deeply, or too large; LH_ERR_INVALID: no schema. */
lh_status lh_schema_document_open(lh_schema_document *document, const json_t *root,
                                  lh_grammar *grammar);
bool lh_schema_document_is_good(const lh_schema_document *document);

/* Adds to the grammar's work; false: it is too much, which is said of the schema, or something has
 * failed before. */
bool lh_schema_count_work(const lh_schema_document *document, const json_t *schema, size_t more);

/* "#/properties/age: 'minimum' must be a number". NULL for keyword: it is about the schema. Gives
 * LH_GRAMMAR_FAILED. */
lh_grammar_node lh_schema_refuse(const lh_schema_document *document, const json_t *schema,
                                 const char *keyword, lh_status status, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Looks at all keywords of one schema, not at those inside: what is known and cannot be followed is
 * LH_ERR_UNSUPPORTED; what nobody knows is an annotation. */
bool lh_schema_check_keywords(const lh_schema_document *document, const json_t *schema);

/* The schema that its "$ref" means; NULL: it is none of this document's. */
const json_t *lh_schema_resolve(const lh_schema_document *document, const json_t *schema);

/* Keywords of a schema; a getter refuses what is of a wrong type or no schema. NULL or `otherwise`:
 * it is absent. */
const json_t *lh_schema_get_list(const lh_schema_document *document, const json_t *schema,
                                 const char *keyword);
const json_t *lh_schema_get_map(const lh_schema_document *document, const json_t *schema,
                                const char *keyword);
const json_t *lh_schema_get_number(const lh_schema_document *document, const json_t *schema,
                                   const char *keyword);
const json_t *lh_schema_get_text(const lh_schema_document *document, const json_t *schema,
                                 const char *keyword);
uint32_t lh_schema_get_count(const lh_schema_document *document, const json_t *schema,
                             const char *keyword, uint32_t otherwise);

typedef enum lh_schema_type {
    LH_SCHEMA_NULL = 1,
    LH_SCHEMA_BOOLEAN = 2,
    LH_SCHEMA_INTEGER = 4,
    LH_SCHEMA_FRACTION = 8, /* a number that is no integer */
    LH_SCHEMA_STRING = 16,
    LH_SCHEMA_ARRAY = 32,
    LH_SCHEMA_OBJECT = 64,
    LH_SCHEMA_NUMBER = LH_SCHEMA_INTEGER | LH_SCHEMA_FRACTION,
    LH_SCHEMA_ANY = 127
} lh_schema_type;

/* What "type" (and OpenAPI's "nullable") allows, and "not" does not take away. */
unsigned lh_schema_get_types(const lh_schema_document *document, const json_t *schema);
/* true, or nothing but annotations. */
bool lh_schema_is_trivial(const json_t *schema);
/* How many of its keywords are no annotations. */
size_t lh_schema_keywords(const json_t *schema);
