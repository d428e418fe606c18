/* The certificate of the public port: what clients are shown, and the key that proves it. It may be
 * read again while connections are open; those that are keep what they began with. TLS 1.2 and 1.3
 * by GnuTLS, with which libmicrohttpd is built.
 *
 * libmicrohttpd asks for a certificate by a function that is told of no server: so a process has
 * one such certificate. Thread: any. */
#pragma once

#include "common/base/status.h"

typedef struct lh_http_tls lh_http_tls;

/* Reads two PEM files: the certificate with those that vouch for it behind it, and the key, which
 * others may not read (common/base/private_file.h). The paths outlive it. LH_ERR_INVALID: which
 * file, and why, also where the key is not that of the certificate; LH_ERR_NO_MEMORY. */
lh_status lh_http_tls_create(const char *certificate_file, const char *key_file, lh_http_tls **tls,
                             lh_error *error);
/* After the server that uses it. NULL is allowed. */
void lh_http_tls_destroy(lh_http_tls *tls);
/* Reads the files again; where one is wrong everything stays as it was, and *error says so as
 * above. */
lh_status lh_http_tls_reload(lh_http_tls *tls, lh_error *error);
