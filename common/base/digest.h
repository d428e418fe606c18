/* SHA-256, by OpenSSL. Thread: any; one lh_sha256 is for one thread at a time. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_SHA256_BYTES     32
#define LH_SHA256_HEX_BYTES 65 /* 64 digits and the terminator */

/* LH_ERR_NO_MEMORY. */
lh_status lh_sha256_digest(const void *bytes, size_t length, uint8_t digest[LH_SHA256_BYTES]);

/* Of bytes under a key: HMAC-SHA-256 (RFC 2104). Who does not have the key can neither make nor
 * check it. LH_ERR_NO_MEMORY. */
lh_status lh_sha256_keyed(const void *key, size_t key_length, const void *bytes, size_t length,
                          uint8_t digest[LH_SHA256_BYTES]);

/* Whether they agree, in a time that does not tell where they differ. */
bool lh_sha256_equal(const uint8_t a[LH_SHA256_BYTES], const uint8_t b[LH_SHA256_BYTES]);

/* In pieces. _finish may be called once; _destroy always. NULL is allowed there. */
typedef struct lh_sha256 lh_sha256;
lh_status lh_sha256_create(lh_sha256 **sha256);
lh_status lh_sha256_update(lh_sha256 *sha256, const void *bytes, size_t length);
lh_status lh_sha256_finish(lh_sha256 *sha256, uint8_t digest[LH_SHA256_BYTES]);
void lh_sha256_destroy(lh_sha256 *sha256);

/* Lower-case hex, terminated. */
void lh_sha256_render(const uint8_t digest[LH_SHA256_BYTES], char hex[LH_SHA256_HEX_BYTES]);
/* Exactly 64 lower-case hex digits and the end of the text: false for anything else (so that it can
 * name a file). */
bool lh_sha256_parse(const char *hex, uint8_t digest[LH_SHA256_BYTES]);
