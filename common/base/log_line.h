/* One line of the log as bytes. Message and fields are found in the format, which is the program's
 * own, and each conversion is rendered for itself: what was put in is always one value, whatever it
 * looks like. Pure; thread: any. */
#pragma once

#include "common/base/log.h"

#include <stdarg.h>
#include <stddef.h>

#define LH_LOG_LINE_BYTES 4096u /* of PIPE_BUF: a pipe takes it whole or not at all */

typedef struct lh_log_head {
    const char *time, *level, *module; /* the program's own words: written as they are */
} lh_log_head;

/* Renders a line with its line feed, not terminated, and returns its length. `format` is what
 * lh_log takes: conversions d i u x X c s f e g with flags, width, precision and length; no %n, no
 * %p. In text a value is quoted where the format says so, or where it needs it. Control characters
 * are escaped as in JSON, what is not UTF-8 becomes U+FFFD. What does not fit is left out, a long
 * value at its end: a JSON line is whole all the same. */
size_t lh_log_line_render(lh_log_format form, const lh_log_head *head, const char *format,
                          va_list args, char line[LH_LOG_LINE_BYTES]);
