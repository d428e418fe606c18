/* Text that is written into a buffer column by column and wrapped at a width, for people who read
 * it in a terminal. The first failure stays, and nothing is appended after it. Thread: the
 * owner's. */
#pragma once

#include "common/base/text_buffer.h"

/* Starts as {.out = ..., .width = ...}; status and column are its own. */
typedef struct lh_text_page {
    lh_text_buffer *out;
    unsigned width;  /* columns at which words are wrapped */
    unsigned column; /* of the next character, from 0 */
    lh_status status;
    bool has_colours;
} lh_text_page;

/* A part of a line, ASCII, as it is. */
void lh_text_page_put(lh_text_page *page, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same, cut to so many columns and filled with spaces up to there. */
void lh_text_page_put_cell(lh_text_page *page, unsigned columns, const char *text);
/* Words after what is there; where they do not fit, on the next line from the column `indent`. */
void lh_text_page_put_words(lh_text_page *page, unsigned indent, const char *text);
/* Spaces up to this column. */
void lh_text_page_move(lh_text_page *page, unsigned column);
void lh_text_page_break(lh_text_page *page);
/* An escape sequence where the page has colours; it takes no columns. */
void lh_text_page_colour(lh_text_page *page, const char *sequence);
