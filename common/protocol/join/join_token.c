/* Three parts between dots, each of a fixed length. */
#include "common/protocol/join/join_token.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define ID_DIGITS (LH_JOIN_ID_BYTES - 1)

static bool is_id(const char *text) {
    return strspn(text, "0123456789abcdef") >= ID_DIGITS;
}

void lh_join_token_render(const lh_join_token *token, char text[LH_JOIN_TOKEN_TEXT_BYTES]) {
    char pin[LH_JOIN_PIN_LETTERS + 1], secret[LH_JOIN_SECRET_LETTERS + 1];
    assert(is_id(token->id) && token->id[ID_DIGITS] == '\0');
    lh_base64url_render(token->pin, sizeof token->pin, pin);
    lh_base64url_render(token->secret, sizeof token->secret, secret);
    snprintf(text, LH_JOIN_TOKEN_TEXT_BYTES, "lh1.%s.%s.%s", pin, token->id, secret);
    explicit_bzero(secret, sizeof secret);
}

static bool is_other_version(const char *text) {
    return strncmp(text, "lh", 2) == 0 && isdigit((unsigned char)text[2]) &&
           strncmp(text, "lh1.", 4) != 0;
}

/* Of a text of the right length that begins with "lh1.". */
static bool parse_parts(const char *text, lh_join_token *token) {
    const char *pin = text + 4, *id = pin + LH_JOIN_PIN_LETTERS + 1, *secret = id + ID_DIGITS + 1;
    if (id[-1] != '.' || secret[-1] != '.' || !is_id(id))
        return false;
    memcpy(token->id, id, ID_DIGITS);
    return lh_base64url_parse(pin, LH_JOIN_PIN_LETTERS, token->pin, sizeof token->pin) &&
           lh_base64url_parse(secret, LH_JOIN_SECRET_LETTERS, token->secret, sizeof token->secret);
}

lh_status lh_join_token_parse(const char *text, lh_join_token *token, lh_error *error) {
    size_t length = strlen(text);
    *token = (lh_join_token){0};
    if (is_other_version(text))
        return lh_fail(error, LH_ERR_UNSUPPORTED,
                       "the token is of another version than this program, which takes lh1: use "
                       "the same version of Longhaul on both machines");
    if (strncmp(text, "lh1.", 4) != 0)
        return lh_fail(error, LH_ERR_INVALID,
                       "that is no token: it begins with lh1. and `longhaul-gateway token` prints "
                       "it");
    if (length != LH_JOIN_TOKEN_TEXT_BYTES - 1)
        return lh_fail(error, LH_ERR_INVALID,
                       "the token has %zu characters in place of %zu: was it cut while it was "
                       "copied?",
                       length, (size_t)LH_JOIN_TOKEN_TEXT_BYTES - 1);
    if (parse_parts(text, token))
        return LH_OK;
    explicit_bzero(token, sizeof *token);
    return lh_fail(error, LH_ERR_INVALID,
                   "the token is damaged: copy it again as `longhaul-gateway token` printed it");
}
