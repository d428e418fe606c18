/* Python's two ways to put values into a text: "%s" % x and "{}".format(x); and what else cuts a
 * text into lines. Thread: the owner's. */
#pragma once

#include "gateway/text/jinja/value.h"

/* `values` is a tuple, a dict (for "%(name)s") or one value. Fails where the format is none, or
 * does not suit the values. */
jinja_text jinja_format_percent(jinja_work *work, jinja_text format, jinja_value values);
/* Fields "{}", "{0}" and "{name}" with "!r" or "!s", and for text and numbers "[[fill]align][sign]
 * [0][width][,][.precision][type]"; other fields are refused. */
jinja_text jinja_format_braces(jinja_work *work, jinja_text format,
                               const jinja_arguments *arguments);
/* The lines of a text as strings, as str.splitlines() has them. */
jinja_sequence *jinja_split_lines(jinja_work *work, jinja_text text, bool keeps_ends);
