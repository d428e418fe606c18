/* A request's body as a JSON object, within bounds that a hostile body cannot pass: depth, number of values
 * (each costs far more memory than its byte or two on the wire), no duplicate names, strict UTF-8. Thread:
 * any. */
#pragma once

#include "gateway/http/openai_error.h"

#include <jansson.h>

#define LH_JSON_DEPTH_MAX  64
#define LH_JSON_VALUES_MAX (1u << 20)

/* The parsed object, which the caller releases with json_decref; NULL: *error says why (400, or 500 without
 * memory). */
json_t *lh_json_body_parse(const char *bytes, size_t length, lh_openai_error *error);
