/* A certificate request (PKCS #10, RFC 2986) from outside: the key that it asks to be certified,
 * once its signature shows that whoever asks has it. What else it asks for is not looked at.
 *
 * Thread: any; each request belongs to its caller. */
#pragma once

#include "common/base/digest.h"

struct evp_pkey_st; /* OpenSSL's EVP_PKEY */

typedef struct lh_certificate_request lh_certificate_request;

/* LH_ERR_INVALID: no such request, another key than EC P-256, or a signature that is not the key's;
 * LH_ERR_NO_MEMORY. */
lh_status lh_certificate_request_parse(const char *pem, size_t length,
                                       lh_certificate_request **request, lh_error *error);
/* NULL is allowed. */
void lh_certificate_request_destroy(lh_certificate_request *request);

/* Both live as long as the request. The second: SHA-256 of the key's SubjectPublicKeyInfo (DER),
 * which names it. */
struct evp_pkey_st *lh_certificate_request_key(const lh_certificate_request *request);
const uint8_t *lh_certificate_request_key_sha256(const lh_certificate_request *request);
