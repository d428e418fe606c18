/* How libmicrohttpd gets the certificate. Private to gateway/http/. */
#pragma once

#include "gateway/http/tls.h"

#include <gnutls/abstract.h>

/* What is offered to clients, in GnuTLS's words. */
#define LH_HTTP_TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* Of each handshake: copies of the certificate and its key, which GnuTLS frees. */
gnutls_certificate_retrieve_function3 lh_http_tls_show;
