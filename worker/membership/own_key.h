/* The private key of this machine, and the request for a certificate of it. The key is made here
 * and never leaves. Thread: any. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>

/* PEM (PKCS 8) of a key on P-256, with the terminator: some 240 bytes. */
#define LH_OWN_KEY_BYTES 512u

/* Makes a key on P-256. LH_ERR_NO_MEMORY. */
lh_status lh_own_key_make(char key[LH_OWN_KEY_BYTES], lh_error *error);
/* A certificate request (RFC 2986), PEM, which the key has signed and which asks for nothing: who
 * certifies it says who we are. LH_ERR_INVALID: that is no key; LH_ERR_LIMIT: it does not fit;
 * LH_ERR_NO_MEMORY. */
lh_status lh_own_key_request(const char *key, char *request, size_t capacity, lh_error *error);
