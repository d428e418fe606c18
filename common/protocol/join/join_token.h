/* The word that lets a machine join a fleet, once: `lh1.PIN.ID.SECRET` (JOINING.md). The pin tells
 * whom to trust before anything is said, the id which token it is, and the secret that whoever has
 * it may join. No message of this module quotes a token. Thread: any. */
#pragma once

#include "common/base/base64url.h"
#include "common/base/digest.h"
#include "common/base/status.h"

#include <stdint.h>

#define LH_JOIN_ID_BYTES       17u /* 16 lower-case hex digits and the terminator */
#define LH_JOIN_SECRET_BYTES   32u
#define LH_JOIN_PIN_LETTERS    (LH_BASE64URL_TEXT_BYTES(LH_SHA256_BYTES) - 1)
#define LH_JOIN_SECRET_LETTERS (LH_BASE64URL_TEXT_BYTES(LH_JOIN_SECRET_BYTES) - 1)
/* "lh1.", the three parts with two dots between them, and the terminator. */
#define LH_JOIN_TOKEN_TEXT_BYTES                                                                   \
    (4 + LH_JOIN_PIN_LETTERS + 1 + LH_JOIN_ID_BYTES - 1 + 1 + LH_JOIN_SECRET_LETTERS + 1)

typedef struct lh_join_token {
    uint8_t pin[LH_SHA256_BYTES]; /* SHA-256 of the CA's SubjectPublicKeyInfo (DER) */
    char id[LH_JOIN_ID_BYTES];
    uint8_t secret[LH_JOIN_SECRET_BYTES];
} lh_join_token;

/* Precondition: the id is 16 lower-case hex digits. */
void lh_join_token_render(const lh_join_token *token, char text[LH_JOIN_TOKEN_TEXT_BYTES]);
/* LH_ERR_INVALID: no such token; LH_ERR_UNSUPPORTED: of another version ("lh2."). *token is zeros
 * then. */
lh_status lh_join_token_parse(const char *text, lh_join_token *token, lh_error *error);
