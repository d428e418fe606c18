/* TLS for a machine that has no certificate yet and believes nobody but the owner of one key: the
 * CA whose SubjectPublicKeyInfo (DER) has the SHA-256 that its join token says. A client alone; it
 * shows no certificate. The peer's chain has to end in that CA, be valid now, and be that of whom
 * the connection expects (lh_tls_options.expected): all of that within the handshake, before a byte
 * of plain text leaves.
 *
 * Thread: one connection at a time. */
#pragma once

#include "common/base/digest.h"
#include "common/net/tls_credentials.h"

typedef struct lh_tls_pin {
    uint8_t digest[LH_SHA256_BYTES];
    /* Why the last peer's certificate was refused, for whoever pasted the token; "": it was not. */
    char fault[LH_ERROR_MESSAGE_BYTES];
} lh_tls_pin;

/* Credentials for such connections, with ALPN LH_TLS_ALPN_JOIN; they cannot be reloaded. The pin
 * outlives them. LH_ERR_NO_MEMORY. */
lh_status lh_tls_pin_open(lh_tls_pin *pin, lh_tls_credentials **credentials, lh_error *error);
