/* The one form of a chat template: the same bytes for templates that are spelled differently and
 * say the same. Thread: any. */
#pragma once

#include "common/base/status.h"
#include "common/base/text_buffer.h"

#include <stddef.h>

/* Control bytes in a form; no template text holds them. */
enum {
    LH_CHAT_FORM_OUTPUT_BEGIN = 1, /* around an expression that is put out */
    LH_CHAT_FORM_OUTPUT_END,
    LH_CHAT_FORM_STATEMENT_BEGIN, /* around a statement */
    LH_CHAT_FORM_STATEMENT_END,
    LH_CHAT_FORM_SYSTEM, /* not written here: for who takes a system message out of a form */
    LH_CHAT_FORM_QUOTE,  /* around a string in a tag */
    LH_CHAT_FORM_MARKS_END
};

/* Appends the form of text[length]. LH_ERR_UNSUPPORTED: not Jinja, or an escape or control
 * character that we do not read; LH_ERR_NO_MEMORY. Part of a form may have been appended then. */
lh_status lh_chat_form_read(const char *text, size_t length, lh_text_buffer *form, lh_error *error);
