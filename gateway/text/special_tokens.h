/* Finds control and user-defined tokens in text by their literal names: the longest one at a
 * position. Read-only after creation: any thread. */
#pragma once

#include "common/base/status.h"
#include "gateway/text/vocabulary.h"

#include <stddef.h>
#include <stdint.h>

/* So many bytes at most are looked at for one position, which keeps the search linear. Real ones
 * have up to 40. */
#define LH_SPECIAL_TOKEN_BYTES_MAX 256

typedef struct lh_special_tokens lh_special_tokens;

/* Collects the vocabulary's control, unknown and user-defined tokens; those without text are left
 * out. LH_ERR_LIMIT: a name longer than LH_SPECIAL_TOKEN_BYTES_MAX; LH_ERR_MALFORMED: the same name
 * twice; LH_ERR_NO_MEMORY. */
lh_status lh_special_tokens_create(const lh_vocabulary *vocabulary, lh_special_tokens **special,
                                   lh_error *error);
void lh_special_tokens_destroy(lh_special_tokens *special);

/* The longest token at the front of text[length], or -1; *size is its length. User-defined tokens
 * may be anywhere; control and unknown tokens count only where they end within the first
 * control_length bytes. */
int64_t lh_special_tokens_match(const lh_special_tokens *special, const char *text, size_t length,
                                size_t control_length, size_t *size);
