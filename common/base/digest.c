/* OpenSSL's EVP digests, which use the CPU's SHA instructions. */
#include "common/base/digest.h"

#include <assert.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

lh_status lh_sha256_digest(const void *bytes, size_t length, uint8_t digest[LH_SHA256_BYTES]) {
    return EVP_Digest(bytes, length, digest, NULL, EVP_sha256(), NULL) == 1 ? LH_OK
                                                                            : LH_ERR_NO_MEMORY;
}

lh_status lh_sha256_keyed(const void *key, size_t key_length, const void *bytes, size_t length,
                          uint8_t digest[LH_SHA256_BYTES]) {
    assert(key_length <= INT_MAX);
    return HMAC(EVP_sha256(), key, (int)key_length, bytes, length, digest, NULL) ? LH_OK
                                                                                 : LH_ERR_NO_MEMORY;
}

bool lh_sha256_equal(const uint8_t a[LH_SHA256_BYTES], const uint8_t b[LH_SHA256_BYTES]) {
    return CRYPTO_memcmp(a, b, LH_SHA256_BYTES) == 0;
}

/* An lh_sha256 is an EVP_MD_CTX under our name. */
lh_status lh_sha256_create(lh_sha256 **sha256) {
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (!context || EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(context);
        return LH_ERR_NO_MEMORY;
    }
    *sha256 = (lh_sha256 *)context;
    return LH_OK;
}

lh_status lh_sha256_update(lh_sha256 *sha256, const void *bytes, size_t length) {
    return EVP_DigestUpdate((EVP_MD_CTX *)sha256, bytes, length) == 1 ? LH_OK : LH_ERR_NO_MEMORY;
}

lh_status lh_sha256_finish(lh_sha256 *sha256, uint8_t digest[LH_SHA256_BYTES]) {
    return EVP_DigestFinal_ex((EVP_MD_CTX *)sha256, digest, NULL) == 1 ? LH_OK : LH_ERR_NO_MEMORY;
}

void lh_sha256_destroy(lh_sha256 *sha256) {
    EVP_MD_CTX_free((EVP_MD_CTX *)sha256);
}

static const char digits[] = "0123456789abcdef";

void lh_sha256_render(const uint8_t digest[LH_SHA256_BYTES], char hex[LH_SHA256_HEX_BYTES]) {
    for (size_t i = 0; i < LH_SHA256_BYTES; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[2 * LH_SHA256_BYTES] = 0;
}

bool lh_sha256_parse(const char *hex, uint8_t digest[LH_SHA256_BYTES]) {
    for (size_t i = 0; i < 2 * LH_SHA256_BYTES; i++) {
        const char *digit = hex[i] ? strchr(digits, hex[i]) : NULL;
        if (!digit)
            return false;
        unsigned value = (unsigned)(digit - digits);
        digest[i / 2] = (uint8_t)(i % 2 ? digest[i / 2] | value : 16u * value);
    }
    return hex[2 * LH_SHA256_BYTES] == 0;
}
