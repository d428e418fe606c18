/* Describes an object of a protocol once, as a table of its fields: by the table the object is
 * written from a plain struct, is read into one from a peer's document with each field checked
 * (json_reader.h), and is documented.
 *
 *   static const lh_json_field fields[] = {
 *       {.key = "rows", .kind = LH_JSON_U32, .least = 1, .most = 512,
 *        LH_JSON_MEMBER(step, rows), .meaning = "rows of the step"}};
 *   static const lh_json_record record = {LH_JSON_RECORD(step, fields)};
 *
 * Fields are written and read in the table's order. What a reader finds in a document and the
 * table does not name is ignored. Thread: any. */
#pragma once

#include "common/json/json_reader.h"

typedef enum lh_json_kind {
    LH_JSON_BOOL,    /* bool */
    LH_JSON_U32,     /* uint32_t of least..most */
    LH_JSON_U64,     /* uint64_t of least..most; beyond INT64_MAX INT64_MAX is written */
    LH_JSON_I64,     /* int64_t of least..most */
    LH_JSON_NUMBER,  /* double of least..most */
    LH_JSON_TEXT,    /* char[]; a control character is read as '?' */
    LH_JSON_LINE,    /* char[] of one byte at least, without control characters */
    LH_JSON_NAME,    /* char[LH_NAME_BYTES]: lh_name_is_valid */
    LH_JSON_ADDRESS, /* char[]: "host:port" */
    LH_JSON_DIGITS,  /* char[]: as many lower-case hex digits as it has room for */
    LH_JSON_HEX_U64, /* uint64_t, as 16 lower-case hex digits */
    LH_JSON_HEX,     /* uint8_t[], as lower-case hex digits */
    LH_JSON_WORD,    /* char[]: one of `words`; where the field may be absent, the first is read */
    LH_JSON_CHOICE,  /* an enum of least..most, by the names of name_of */
    LH_JSON_OBJECT,  /* a struct, by the table `inner` */
    LH_JSON_LIST,    /* structs[most], by the table `inner`, and at `count` a uint32_t */
    LH_JSON_INLINE,  /* the fields of `inner`, which stand in the object itself */
    LH_JSON_OWN      /* by the functions of `own` */
} lh_json_kind;

/* Flags by which a reader accepts a field without a value. */
#define LH_JSON_ABSENT   1u /* the field may be absent; the member stays as it is then */
#define LH_JSON_NULL     2u /* the field may be null, which is read like an absent one */
#define LH_JSON_OPTIONAL 3u /* both */
/* How an empty member is written: "", false, a count of 0, a NUMBER of `least`, a list without
 * elements, and what is not there (`marked`, is_there). As any other value where neither is set. */
#define LH_JSON_AS_NULL  4u
#define LH_JSON_LEFT_OUT 8u
/* An estimate, which may have gone wrong: what the other side would refuse is written as 0, or as
 * the most that it takes. */
#define LH_JSON_ESTIMATE 16u
#define LH_JSON_NOT_READ 32u  /* what it may be depends on others: `check` reads it */
#define LH_JSON_ENDS     64u  /* where this bool is true, no other field follows */
#define LH_JSON_MARKED   128u /* the bool at `mark` says whether it is there; reading sets it */

struct lh_json_record;

/* A value of no other kind. The functions get a pointer to the member. */
typedef struct lh_json_own {
    bool (*is_there)(const void *member);
    json_t *(*render)(const void *member); /* NULL: out of memory */
    void (*read)(const lh_json_reader *reader, const char *key, void *member);
    const char *looks; /* what it looks like, for documents */
} lh_json_own;

typedef struct lh_json_field {
    const char *key;
    lh_json_kind kind;
    unsigned flags;
    size_t at, size;     /* of the member in the struct */
    size_t count, mark;  /* of other members */
    int64_t least, most; /* of numbers */
    const char *const *words;
    const char *(*name_of)(unsigned value);
    const char *wanted; /* of words and names: "\"q8\" or \"q16\"" */
    const struct lh_json_record *inner;
    const lh_json_own *own;
    const char *meaning; /* for documents, in Markdown */
} lh_json_field;

typedef struct lh_json_record {
    size_t bytes; /* of the struct */
    const lh_json_field *fields;
    size_t count;
    bool (*is_there)(const void *object); /* NULL: it always is */
    /* Reads what is NOT_READ, and refuses what cannot be together, after all fields; may be NULL */
    void (*check)(const lh_json_reader *reader, void *object);
} lh_json_record;

/* The beginning of a row; least and most; the table in a record. */
#define LH_JSON_FIELD(type, member, its_key, its_kind, its_flags)                                  \
    .key = (its_key), .kind = LH_JSON_##its_kind, .flags = (its_flags), LH_JSON_MEMBER(type, member)
#define LH_JSON_RANGE(low, high) .least = (low), .most = (high)
#define LH_JSON_MEMBER(type, member)                                                               \
    .at = offsetof(type, member), .size = sizeof(((type *)NULL)->member)
#define LH_JSON_RECORD(type, table)                                                                \
    .bytes = sizeof(type), .fields = (table), .count = sizeof(table) / sizeof((table)[0])

/* A new value, which the caller releases or hands on: the object, or null where it is not there.
 * NULL: out of memory. */
json_t *lh_json_record_render(const lh_json_record *record, const void *object);
/* The same as compact text, malloc'd; the caller frees. Floats keep what tells them apart. NULL:
 * out of memory. */
char *lh_json_record_text(const lh_json_record *record, const void *object);
/* Reads the fields into *object, which has been set to zeros, or to what absent fields stand for.
 * A struct inside of which a field is refused is set to zeros. */
void lh_json_record_read(const lh_json_record *record, const lh_json_reader *reader, void *object);
