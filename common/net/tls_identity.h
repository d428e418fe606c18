/* Who a certificate of the fleet stands for, as its subjectAltName says:
 *
 *   URI:longhaul://worker/NAME?site=SITE
 *   URI:longhaul://gateway
 *
 * to the letter: NAME and SITE as lh_name_is_valid has them, no escapes, nothing behind. Names of
 * other schemes may stand beside it; of this one there is exactly one. The common name and the
 * addresses in a certificate mean nothing here, since addresses change, and NAT lies.
 *
 * Plain values. Thread: any. */
#pragma once

#include "common/base/name.h"
#include "common/net/tls_serial.h"

#include <stdbool.h>
#include <stddef.h>

/* What a certificate needs, for messages. */
#define LH_TLS_WORKER_URI  "URI:longhaul://worker/NAME?site=SITE"
#define LH_TLS_GATEWAY_URI "URI:longhaul://gateway"

struct x509_st; /* OpenSSL's X509 */

typedef enum lh_tls_identity_kind {
    LH_TLS_NONE,     /* there is no TLS */
    LH_TLS_STRANGER, /* no certificate, or one that says nothing of the above */
    LH_TLS_WORKER,
    LH_TLS_GATEWAY
} lh_tls_identity_kind;

typedef struct lh_tls_identity {
    lh_tls_identity_kind kind;
    char name[LH_NAME_BYTES], site[LH_NAME_BYTES]; /* a worker's; else "" */
    lh_tls_serial serial;                          /* of the certificate; "": there is none */
} lh_tls_identity;

/* Of one name of the kind URI; a STRANGER where it is not one of the two above. */
lh_tls_identity lh_tls_identity_parse(const char *uri, size_t length);
/* The name that lh_tls_identity_parse reads so, without "URI:"; of a WORKER or the GATEWAY. */
#define LH_TLS_URI_BYTES (2 * LH_NAME_BYTES + 32)
void lh_tls_identity_render(const lh_tls_identity *identity, char uri[LH_TLS_URI_BYTES]);
/* Of a certificate; NULL: a STRANGER. */
lh_tls_identity lh_tls_identity_of(const struct x509_st *certificate);

/* The worker of that name, whatever its site; "": the gateway. */
lh_tls_identity lh_tls_identity_named(const char *worker);
bool lh_tls_identity_is_worker(const lh_tls_identity *identity, const char *name);
/* Whether the one who answers is the one who was meant: of a worker the name counts; where nobody
 * was meant, anybody of the fleet. */
bool lh_tls_identity_meets(const lh_tls_identity *identity, const lh_tls_identity *expected);

/* "worker office of site attic", "the gateway", "a stranger to the fleet", "a peer without TLS". */
#define LH_TLS_IDENTITY_TEXT_BYTES 160
void lh_tls_identity_describe(const lh_tls_identity *identity,
                              char text[LH_TLS_IDENTITY_TEXT_BYTES]);
