/* Bytes of a peer as a JSON object, within bounds that a hostile body cannot pass: depth, memory (a
 * value takes up to a hundred times its bytes on the wire), no duplicate names, strict UTF-8.
 * Thread: any. */
#pragma once

#include "common/base/status.h"

#include <jansson.h>

#define LH_JSON_DEPTH_MAX 64
/* Of one document, as json_outline.h expects it: a prompt of a million token ids fits. */
#define LH_JSON_MEMORY_MAX (64u << 20)

/* The parsed object, which the caller releases with json_decref; NULL: *error says why, as a
 * sentence about "the body". LH_ERR_MALFORMED, LH_ERR_LIMIT (too deep, too much
 * memory), LH_ERR_NO_MEMORY. */
json_t *lh_json_object_parse(const char *bytes, size_t length, lh_error *error);

/* A path, as json_path.h has it. */
#define LH_JSON_FIELD_BYTES 96

/* The same. Where JSON allows a value that is not taken here, a number beyond 64 bits or a text
 * with the character 0, field is its path and the error's message begins with that; else "". */
json_t *lh_json_object_parse_named(const char *bytes, size_t length,
                                   char field[LH_JSON_FIELD_BYTES], lh_error *error);
