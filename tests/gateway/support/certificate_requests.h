/* Certificate requests as workers send them, and as others might; and what a certificate says. */
#pragma once

#include <openssl/x509.h>

#include <stdbool.h>

EVP_PKEY *make_key(const char *curve);
/* names: a subjectAltName that the request asks for, or NULL. The PEM is malloc'd. */
char *make_request(EVP_PKEY *key, const char *common_name, const char *names);
/* A request of a new key on P-256. */
char *make_new_request(void);

X509 *read_certificate(const char *pem);
/* The subject's alternative names, in the order in which they stand: "URI:..., IP Address:...". The
 * text is static. */
const char *names_of(X509 *certificate);
/* Whether the certificate is good for a server and a client at this time, by this bundle. */
bool is_believed(X509 *certificate, const char *trust, long long at_s);
