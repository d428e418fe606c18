/* The signature of a chat template: a hash of what the Jinja text says, not of how it is spelled.
 * Two templates with the same signature render the same text from the same messages. Thread: any.
 */
#pragma once

#include "common/base/status.h"
#include "common/base/text_buffer.h"

#include <stddef.h>
#include <stdint.h>

/* Templates are some kilobytes long; this is far above any. */
#define LH_CHAT_TEMPLATE_BYTES_MAX (1U << 20)

typedef struct lh_chat_signature {
    uint64_t hash; /* the first 8 bytes of a SHA-256 */
    /* the system message that the template puts in where the conversation has none; may be empty */
    lh_text_buffer system;
} lh_chat_signature;

/* Reads a template. The caller resets signature->system, also after a failure. LH_ERR_UNSUPPORTED:
 * not Jinja, or an escape that we do not read; LH_ERR_LIMIT; LH_ERR_NO_MEMORY. */
lh_status lh_chat_signature_read(const char *text, size_t length, lh_chat_signature *signature,
                                 lh_error *error);
