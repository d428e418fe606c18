/* What a program proves itself with over TLS, and whom it believes: certificate, key and CA, read
 * from files, and read again when it is told to. Connections that are opened from then on use the
 * new ones; those that are open live on with what they began with.
 *
 * Thread: any; a lock of its own guards what is exchanged. */
#pragma once

#include "common/base/host_facts.h"
#include "common/base/status.h"
#include "common/net/tls_admission.h"
#include "common/net/tls_identity.h"

#include <stddef.h>

struct ssl_ctx_st; /* OpenSSL's SSL_CTX */

typedef struct lh_tls_credentials lh_tls_credentials;

/* What is handed down to everything that speaks TLS. */
typedef struct lh_tls_options {
    const char *certificate_file, *key_file, *ca_file; /* PEM */
    /* What the files held when they were last read; outlives all that was given these options.
     * NULL: who needs it reads the files itself, once. */
    lh_tls_credentials *credentials;
    /* What the certificate has to be, WORKER or GATEWAY; NONE: it is not looked at. */
    lh_tls_identity_kind own;
    lh_tls_identity expected; /* client: whom it connects to */
} lh_tls_options;

/* The same, for connections to this worker; "": to the gateway. */
lh_tls_options lh_tls_options_for(const lh_tls_options *options, const char *worker);

/* ALPN of those who have no certificate yet and want one (common/protocol/JOINING.md). */
#define LH_TLS_ALPN_JOIN "longhaul-join/1"

/* Of a certificate, for the log. */
typedef struct lh_tls_description {
    lh_tls_serial serial; /* "5F02" */
    char expires[32];     /* "2027-01-31T12:00:00Z"; "": not known */
} lh_tls_description;

/* Reads the files of *options, whose texts outlive the credentials. LH_ERR_INVALID (which file, and
 * why; also where others may read the key, see common/base/private_file.h, and where the
 * certificate is not that of `own`), LH_ERR_NO_MEMORY. */
lh_status lh_tls_credentials_create(const lh_tls_options *options, lh_tls_credentials **credentials,
                                    lh_error *error);
/* Of a context that was made without files, which is taken over, also on failure; they cannot be
 * reloaded. LH_ERR_NO_MEMORY. */
lh_status lh_tls_credentials_adopt(struct ssl_ctx_st *context, lh_tls_credentials **credentials,
                                   lh_error *error);
/* NULL is allowed. */
void lh_tls_credentials_destroy(lh_tls_credentials *credentials);
/* Reads the files again. Where one of them is wrong, or the certificate is another one's than
 * before and `own` was given, *error says so as above and everything stays as it was. Blocks for as
 * long as three small files take. */
lh_status lh_tls_credentials_reload(lh_tls_credentials *credentials, lh_error *error);
/* The same, and from then on peers are accepted by these certificates alone (tls_admission.h),
 * also after each further reload. */
lh_status lh_tls_credentials_reload_for(lh_tls_credentials *credentials,
                                        const lh_tls_serial *serials, size_t count,
                                        lh_error *error);
/* Whom the certificate in use stands for. */
lh_tls_identity lh_tls_credentials_identity(lh_tls_credentials *credentials);
/* Of the certificate in use. */
lh_tls_description lh_tls_credentials_describe(lh_tls_credentials *credentials);
/* Sets from when until when the certificate in use is good. */
void lh_tls_credentials_note(lh_tls_credentials *credentials, lh_host_facts *facts);

/* What is in use now, for connections in either direction; the caller gives it back with
 * SSL_CTX_free. */
struct ssl_ctx_st *lh_tls_credentials_acquire(lh_tls_credentials *credentials);
