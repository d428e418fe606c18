/* The key that a client has to show, kept as a digest and compared in constant time. Thread: any, once it is
 * set. */
#pragma once

#include "common/digest.h"

#include <stdbool.h>

#define LH_API_KEY_BYTES 256

typedef struct lh_api_key {
    bool required;
    uint8_t digest[LH_SHA256_BYTES];
} lh_api_key;

/* NULL or "": no key is required. LH_ERR_NO_MEMORY. */
lh_status lh_api_key_init(lh_api_key *key, const char *text);
/* Reads the key's text from a file of one line into text[LH_API_KEY_BYTES]: 1 to 255 visible ASCII characters. LH_ERR_INVALID: it
 * holds something else, or others than its owner may read it; LH_ERR_IO. The caller wipes the text. */
lh_status lh_api_key_read(const char *path, char *text, lh_error *error);
/* `authorization`: the header's value, "Bearer KEY", or NULL. */
bool lh_api_key_admits(const lh_api_key *key, const char *authorization);
