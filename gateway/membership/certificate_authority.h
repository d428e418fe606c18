/* A CA of the fleet: a key and the certificate that it has signed for itself, and the certificates
 * that it signs for others. It holds no files and asks for no time.
 *
 * What a certificate says is the caller's alone: subject, names and times are given, and nothing is
 * copied from a request. Signing takes some 50 microseconds (EC P-256).
 *
 * Thread: any; an authority does not change once it is there. */
#pragma once

#include "common/base/digest.h"
#include "common/base/text_buffer.h"

#include <stdint.h>

struct evp_pkey_st; /* OpenSSL's EVP_PKEY */

typedef struct lh_certificate_authority lh_certificate_authority;

#define LH_AUTHORITY_ID_BYTES 17 /* 16 hex digits, and the end */
#define LH_SERIAL_BYTES       33 /* 32 upper-case hex digits, and the end */

/* A new one, valid for ten years, and from a year before now: a clock that is ahead while a CA is
 * made does not make one of the future, which nobody could believe when the clock is right again.
 * LH_ERR_NO_MEMORY. */
lh_status lh_certificate_authority_make(int64_t now_s, lh_certificate_authority **authority,
                                        lh_error *error);
/* From PEM: its certificate, and its key where it is there. LH_ERR_INVALID: there is no certificate
 * of a CA, or the key is another one's; LH_ERR_NO_MEMORY. */
lh_status lh_certificate_authority_parse(const char *pem, size_t length,
                                         lh_certificate_authority **authority, lh_error *error);
/* NULL is allowed. */
void lh_certificate_authority_destroy(lh_certificate_authority *authority);

/* Appends PEM: the key (which the caller wipes), or the certificate. LH_ERR_NO_MEMORY. */
lh_status lh_certificate_authority_render_key(const lh_certificate_authority *authority,
                                              lh_text_buffer *pem);
lh_status lh_certificate_authority_render_certificate(const lh_certificate_authority *authority,
                                                      lh_text_buffer *pem);

/* SHA-256 of the key's SubjectPublicKeyInfo (DER), which a token has; and its first digits in hex,
 * by which the authority is called. */
const uint8_t *lh_certificate_authority_pin(const lh_certificate_authority *authority);
const char *lh_certificate_authority_id(const lh_certificate_authority *authority);
/* Without a key it only tells who is believed. */
bool lh_certificate_authority_has_key(const lh_certificate_authority *authority);

/* What a certificate says of its owner. */
typedef struct lh_certificate_terms {
    const char *common_name; /* at most 63 bytes */
    const char *uri;
    const char *const *hosts; /* names and IP addresses, all valid (host_name.h) */
    size_t host_count;
    int64_t not_before_s, not_after_s; /* Unix time */
} lh_certificate_terms;

/* Whether the PEM has a key, and first a certificate for it that this authority has signed, with
 * the common name, URI and hosts of *terms; its times go to *terms. */
bool lh_certificate_authority_has_issued(const lh_certificate_authority *authority, const char *pem,
                                         size_t length, lh_certificate_terms *terms);

/* Appends the certificate as PEM. It is good for client and server and for no CA. serial: "", and
 * it gets a new one; or that of a certificate that the authority has issued for the same key and
 * the same times, which is issued once more. LH_ERR_INVALID: the authority has no key, or the
 * serial is none; LH_ERR_NO_MEMORY. */
lh_status lh_certificate_authority_issue(const lh_certificate_authority *authority,
                                         struct evp_pkey_st *key, const lh_certificate_terms *terms,
                                         char serial[LH_SERIAL_BYTES], lh_text_buffer *pem,
                                         lh_error *error);
/* The same for a new key, which goes before the certificate. The caller wipes the text. */
lh_status lh_certificate_authority_issue_pair(const lh_certificate_authority *authority,
                                              const lh_certificate_terms *terms,
                                              char serial[LH_SERIAL_BYTES], lh_text_buffer *pem,
                                              lh_error *error);
