/* OpenSSL encodes, and digests. */
#include "common/net/tls_key_digest.h"

#include <openssl/x509.h>

bool lh_tls_key_digest(const X509_PUBKEY *key, uint8_t digest[LH_SHA256_BYTES]) {
    unsigned char *bytes = NULL;
    int length = i2d_X509_PUBKEY(key, &bytes);
    bool is_made = length > 0 && lh_sha256_digest(bytes, (size_t)length, digest) == LH_OK;
    OPENSSL_free(bytes);
    return is_made;
}

bool lh_tls_key_has_digest(const X509_PUBKEY *key, const uint8_t digest[LH_SHA256_BYTES]) {
    uint8_t own[LH_SHA256_BYTES];
    return lh_tls_key_digest(key, own) && lh_sha256_equal(own, digest);
}
