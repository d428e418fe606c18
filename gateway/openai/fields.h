/* Every field of a request body that this API knows, and what it does with it: so that a field that
 * it knows but cannot honour is refused by name, one that changes nothing is taken, and one that
 * nobody knows is counted. Thread: any. */
#pragma once

#include "gateway/openai/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum lh_openai_endpoint {
    LH_OPENAI_CHAT = 1,
    LH_OPENAI_COMPLETIONS = 2
} lh_openai_endpoint;

/* Walks the body's fields. *unknown: those in no table; strict makes them errors. Ranges and types
 * of the fields that are honoured are their parsers' business. */
bool lh_openai_fields_check(const json_t *body, lh_openai_endpoint endpoint, bool strict,
                            size_t *unknown, lh_openai_error *error);
