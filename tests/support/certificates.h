/* A certificate authority for tests, in a temporary folder. */
#pragma once

#include "common/net/tls_channel.h"

typedef struct authority {
    char folder[64];
    int serial;
} authority;

void authority_open(authority *a);
/* Removes the folder with what is in it. */
void authority_close(authority *a);

/* Writes NAME.pem and NAME.key, signed by the certificate `issuer` (itself when NULL: a CA).
 * `names` is a subjectAltName such as "DNS:localhost,IP:127.0.0.1", or NULL. Valid from ten days
 * ago until `days` from now. */
void authority_issue(authority *a, const char *name, const char *issuer, const char *common_name,
                     const char *names, int days);

/* The options for NAME with the given CA. The strings are static: eight sets of them at a time. */
lh_tls_options authority_options(const authority *a, const char *name, const char *ca);
