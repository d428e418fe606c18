/* Reads a Jinja template tag by tag, without running it. Thread: the owner's. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum lh_jinja_kind {
    LH_JINJA_NAME,
    LH_JINJA_NUMBER,
    LH_JINJA_STRING,
    LH_JINJA_SIGN
} lh_jinja_kind;

typedef struct lh_jinja_token {
    lh_jinja_kind kind;
    const char *text; /* in the template; a string without its quotes, its escapes as they are */
    size_t length;
} lh_jinja_token;

/* Begin with {.at = text, .end = text + length}. */
typedef struct lh_jinja_reader {
    const char *at, *end;
    lh_jinja_token *tokens; /* [count]: of the tag read last */
    size_t count, capacity;
    bool strip_next; /* the last tag ended with '-': white space after it goes */
    /* the last tag was a statement or a comment, without '-' and '+': a line feed goes */
    bool trim_newline;
} lh_jinja_reader;

/* Frees the tokens. */
void lh_jinja_reader_reset(lh_jinja_reader *reader);

/* The next "{{", "{%" or "{#" from reader->at on, or the end. */
const char *lh_jinja_reader_find_tag(const lh_jinja_reader *reader);

/* From behind a tag's opening ("{{", "{%-") to behind its end, which is `close` and a brace: fills
 * the tokens. LH_ERR_UNSUPPORTED: no end, or no token; LH_ERR_NO_MEMORY. */
lh_status lh_jinja_reader_take_tag(lh_jinja_reader *reader, char close, lh_error *error);
/* From behind "{#" to behind the comment's end. LH_ERR_UNSUPPORTED: it has none. */
lh_status lh_jinja_reader_skip_comment(lh_jinja_reader *reader, lh_error *error);
