/* Unicode's normalization form C: "e" and a combining acute become "é". Thread: any. */
#pragma once

#include "common/base/status.h"
#include "common/base/text_buffer.h"

/* The composed form of text[length], valid UTF-8, in place of what `out` holds; *composed and
 * *composed_length are it, or the text itself where it is composed already. O(n log n).
 * LH_ERR_NO_MEMORY. */
lh_status lh_nfc_compose(const char *text, size_t length, lh_text_buffer *out,
                         const char **composed, size_t *composed_length, lh_error *error);
