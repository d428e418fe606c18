/* Finds the first of a request's stop strings in text that arrives in pieces. Of the text that came
 * it passes on everything before the stop string and nothing of it; while the end of the text may
 * still become a stop string, that end is held back, and no more than that. Time is linear in the
 * text, whatever the strings are.
 *
 * The stop string that ends first wins; of those that end at the same byte, the one that starts
 * first. Thread: the owner's. */
#pragma once

#include "common/base/text_buffer.h"

#include <stdbool.h>

#define LH_STOP_STRINGS_MAX 16

typedef struct lh_stop_matcher lh_stop_matcher;

typedef struct lh_stop_string {
    const char *bytes;
    size_t length;
} lh_stop_string;

/* Copies the strings. count may be 0. LH_ERR_INVALID: an empty string; LH_ERR_LIMIT: more than
 * LH_STOP_STRINGS_MAX; LH_ERR_NO_MEMORY. */
lh_status lh_stop_matcher_create(const lh_stop_string *strings, size_t count,
                                 lh_stop_matcher **matcher, lh_error *error);
void lh_stop_matcher_destroy(lh_stop_matcher *matcher);

/* Takes a piece of text and appends to `out` what can no longer be part of a stop string. *stopped:
 * one was found, now or earlier; the rest of the text is ignored. Whole UTF-8 characters in
 * (strings and pieces) give whole characters out. LH_ERR_NO_MEMORY: the matcher can only be
 * destroyed. */
lh_status lh_stop_matcher_push(lh_stop_matcher *matcher, const char *bytes, size_t length,
                               lh_text_buffer *out, bool *stopped, lh_error *error);

/* The end of the text: appends what was held back. LH_ERR_NO_MEMORY. */
lh_status lh_stop_matcher_finish(lh_stop_matcher *matcher, lh_text_buffer *out, lh_error *error);

/* Which string was found: its index, or -1 for none. */
int lh_stop_matcher_found(const lh_stop_matcher *matcher);
/* The matcher's copy of the string of that index. */
lh_stop_string lh_stop_matcher_string(const lh_stop_matcher *matcher, int index);
