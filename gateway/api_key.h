/* The key that a client has to show, kept as a digest and compared in constant time. Thread: any, once it is
 * set. */
#pragma once

#include "common/digest.h"

#include <stdbool.h>

typedef struct lh_api_key {
    bool required;
    uint8_t digest[LH_SHA256_BYTES];
} lh_api_key;

/* NULL or "": no key is required. LH_ERR_NO_MEMORY. */
lh_status lh_api_key_init(lh_api_key *key, const char *text);
/* `authorization`: the header's value, "Bearer KEY", or NULL. */
bool lh_api_key_admits(const lh_api_key *key, const char *authorization);
