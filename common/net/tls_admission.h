/* Which certificates are accepted, of those that our CA has signed:
 * all of them, or those with a serial number in a list. What is in use belongs
 * to an SSL_CTX and does not change; another list is another SSL_CTX's.
 *
 * Thread: any. */
#pragma once

#include "common/net/tls_serial.h"

#include <stdbool.h>
#include <stddef.h>

struct ssl_ctx_st;
struct x509_st;

/* From now on the context accepts those alone. The list is copied. False: no
 * memory. */
bool lh_tls_admission_attach(struct ssl_ctx_st *context, const lh_tls_serial *serials,
                             size_t count);
/* Whether the context accepts this certificate. */
bool lh_tls_admission_has(const struct ssl_ctx_st *context, const struct x509_st *certificate);
/* Whether the context has a list, and this certificate is in it. */
bool lh_tls_admission_lists(const struct ssl_ctx_st *context, const struct x509_st *certificate);
