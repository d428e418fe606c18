/* Reads the fields of a peer's JSON document, each checked for type and range before it is
 * believed. The first field that is wrong decides the status and is named, with its path, in the
 * error; reads after it have no effect on either. What a getter returns for a wrong field is 0,
 * false or "". Fields that nobody asks for are ignored. Thread: any. */
#pragma once

#include "common/base/name.h"
#include "common/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_json_document {
    const char *name;  /* "the worker's report" */
    lh_status refusal; /* the status where a field is wrong */
    lh_status status;
    lh_error *error;
    json_t *root;
} lh_json_document;

/* One object of the document; a copy is as good as the original. */
typedef struct lh_json_reader {
    lh_json_document *document;
    const json_t *object;
    char path[64]; /* "kv."; "" for the root */
} lh_json_reader;

/* Parses the bytes within the bounds of json_object.h, and gives the root's reader; name and
 * refusal are set. LH_ERR_MALFORMED: not a JSON object, or beyond a bound; LH_ERR_NO_MEMORY:
 * nothing is to be read then. */
lh_status lh_json_document_open(lh_json_document *document, const char *bytes, size_t length,
                                lh_error *error, lh_json_reader *root);
/* Releases what was parsed. The status: LH_OK, or the first failure. */
lh_status lh_json_document_close(lh_json_document *document);

/* The document's status is the refusal, unless it has failed before: "the worker's report: kv.epoch
 * must be WANTED". */
void lh_json_refuse(const lh_json_reader *reader, const char *field, const char *wanted, ...)
    __attribute__((format(printf, 3, 4)));
bool lh_json_is_good(const lh_json_reader *reader);

bool lh_json_is_present(const lh_json_reader *reader, const char *field);
/* Present, and not null. */
bool lh_json_is_there(const lh_json_reader *reader, const char *field);

int64_t lh_json_read_integer(const lh_json_reader *reader, const char *field, int64_t least,
                             int64_t most);
double lh_json_read_number(const lh_json_reader *reader, const char *field, double least,
                           double most);
bool lh_json_read_bool(const lh_json_reader *reader, const char *field);
/* Less than `capacity` bytes; a control character becomes '?'. */
void lh_json_read_text(const lh_json_reader *reader, const char *field, char *text,
                       size_t capacity);
/* 1 to capacity - 1 bytes, none of them a control character. */
void lh_json_read_line(const lh_json_reader *reader, const char *field, char *text,
                       size_t capacity);
void lh_json_read_name(const lh_json_reader *reader, const char *field, char name[LH_NAME_BYTES]);
/* Lower case; text[digits + 1]. */
void lh_json_read_hex(const lh_json_reader *reader, const char *field, char *text, size_t digits);
/* For values that the caller knows by name; NULL, without a refusal: not a string. It lives as long
 * as the document. */
const char *lh_json_peek_string(const lh_json_reader *reader, const char *field);

/* The object of this name. False: it is none; refused unless it may be null, and is. */
bool lh_json_read_object(const lh_json_reader *reader, const char *field, bool may_be_null,
                         lh_json_reader *inner);
/* The number of elements, 0 to `most`. An element that is an object is read by _element, whose
 * errors have the path of the object around the array. */
size_t lh_json_read_array(const lh_json_reader *reader, const char *field, size_t most);
lh_json_reader lh_json_element(const lh_json_reader *reader, const char *field, size_t index);
/* An element that is a name. */
void lh_json_element_name(const lh_json_reader *reader, const char *field, size_t index,
                          char name[LH_NAME_BYTES]);
