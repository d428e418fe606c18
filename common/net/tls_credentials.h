/* What a program proves itself with over TLS, and whom it believes: certificate, key and CA, read
 * from files, and read again when it is told to. Connections that are opened from then on use the
 * new ones; those that are open live on with what they began with.
 *
 * Thread: any; a lock of its own guards what is exchanged. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>

typedef struct lh_tls_credentials lh_tls_credentials;

/* What is handed down to everything that speaks TLS. */
typedef struct lh_tls_options {
    const char *certificate_file, *key_file, *ca_file; /* PEM */
    /* What the files held when they were last read; outlives all that was given these options.
     * NULL: who needs it reads the files itself, once. */
    lh_tls_credentials *credentials;
} lh_tls_options;

/* Enough for what lh_tls_credentials_describe writes. */
#define LH_TLS_DESCRIPTION_BYTES 160

/* Reads the files of *options, whose texts outlive the credentials. LH_ERR_INVALID (which file, and
 * why; also where others may read the key, see common/base/private_file.h), LH_ERR_NO_MEMORY. */
lh_status lh_tls_credentials_create(const lh_tls_options *options, lh_tls_credentials **credentials,
                                    lh_error *error);
/* NULL is allowed. */
void lh_tls_credentials_destroy(lh_tls_credentials *credentials);
/* Reads the files again. Where one of them is wrong, *error says so as above and everything stays
 * as it was. Blocks for as long as three small files take. */
lh_status lh_tls_credentials_reload(lh_tls_credentials *credentials, lh_error *error);
/* For the log: "serial=5F02 expires=2027-01-31T12:00:00Z", of the certificate in use. */
void lh_tls_credentials_describe(lh_tls_credentials *credentials,
                                 char text[LH_TLS_DESCRIPTION_BYTES]);

/* What is in use now, for connections in either direction; the caller gives it back with
 * SSL_CTX_free. */
struct ssl_ctx_st *lh_tls_credentials_acquire(lh_tls_credentials *credentials);
