/* The name of a public key: SHA-256 of its SubjectPublicKeyInfo in DER (RFC 5280, 4.1.2.7), as join
 * tokens pin a CA and as the records tell the keys of members apart. Thread: any. */
#pragma once

#include "common/base/digest.h"

#include <stdbool.h>

struct X509_pubkey_st; /* OpenSSL's X509_PUBKEY, in a certificate or a request for one */

/* False: no memory, or it cannot be encoded. */
bool lh_tls_key_digest(const struct X509_pubkey_st *key, uint8_t digest[LH_SHA256_BYTES]);
bool lh_tls_key_has_digest(const struct X509_pubkey_st *key, const uint8_t digest[LH_SHA256_BYTES]);
