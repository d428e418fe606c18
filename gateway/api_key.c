/* SHA-256 on both sides, then every byte is looked at. */
#include "gateway/api_key.h"

#include <string.h>
#include <strings.h>

lh_status lh_api_key_init(lh_api_key *key, const char *text) {
    *key = (lh_api_key){.required = text && *text};
    return key->required ? lh_sha256_digest(text, strlen(text), key->digest) : LH_OK;
}

bool lh_api_key_admits(const lh_api_key *key, const char *authorization) {
    if (!key->required)
        return true;
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return false;
    const char *shown = authorization + 7;
    shown += strspn(shown, " ");
    uint8_t digest[LH_SHA256_BYTES];
    if (lh_sha256_digest(shown, strlen(shown), digest))
        return false;
    unsigned difference = 0;
    for (size_t i = 0; i < sizeof digest; i++)
        difference |= (unsigned)(digest[i] ^ key->digest[i]);
    return difference == 0;
}
