/* A template cut into tokens, with Jinja's rules for white space around tags (trim_blocks and
 * lstrip_blocks are on, one line feed at the end goes). Thread: the owner's. */
#pragma once

#include "gateway/text/jinja/value.h"

typedef enum jinja_token_kind {
    JINJA_TOKEN_DATA, /* text between tags */
    JINJA_TOKEN_VARIABLE_BEGIN,
    JINJA_TOKEN_VARIABLE_END,
    JINJA_TOKEN_BLOCK_BEGIN,
    JINJA_TOKEN_BLOCK_END,
    JINJA_TOKEN_NAME,
    JINJA_TOKEN_CONSTANT, /* a string or a number */
    JINJA_TOKEN_SIGN,
    JINJA_TOKEN_END
} jinja_token_kind;

/* Signs of two characters, beside those that are the character. */
enum {
    JINJA_SIGN_FLOOR_DIVIDE = 256,
    JINJA_SIGN_POWER,
    JINJA_SIGN_EQUAL,
    JINJA_SIGN_NOT_EQUAL,
    JINJA_SIGN_AT_LEAST,
    JINJA_SIGN_AT_MOST
};

typedef struct jinja_token {
    jinja_token_kind kind;
    uint32_t line;
    jinja_text text; /* as it stands in the template */
    int sign;
    jinja_value constant;
} jinja_token;

/* The tokens, the last of which is JINJA_TOKEN_END. The template's bytes must stay. Fails with
 * LH_ERR_UNSUPPORTED where this is no template. */
const jinja_token *jinja_tokenize(jinja_work *work, const char *bytes, size_t length);
