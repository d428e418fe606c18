/* The formats of strings that JSON Schema names, as regular expressions (regex.h). Thread: any. */
#pragma once

#include <stdbool.h>

/* For the whole text; NULL: there is none. */
const char *lh_string_format_pattern(const char *format);
/* One of JSON Schema's own names (draft 2020-12, validation, 7.3). */
bool lh_string_format_is_standard(const char *format);
