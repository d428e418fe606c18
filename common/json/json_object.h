/* Bytes of a peer as a JSON object, within bounds that a hostile body cannot pass: depth, memory (a
 * value takes up to a hundred times its bytes on the wire), no duplicate names, strict UTF-8.
 * Thread: any. */
#pragma once

#include "common/base/status.h"

#include <jansson.h>

#define LH_JSON_DEPTH_MAX 512
/* Of one document, as json_outline.h expects it: a prompt of a million token ids fits. */
#define LH_JSON_MEMORY_MAX (64u << 20)

/* The parsed object, which the caller releases with json_decref; NULL: *error says why, as a
 * sentence about "the body". LH_ERR_MALFORMED, LH_ERR_LIMIT (too deep, too much
 * memory), LH_ERR_NO_MEMORY. */
json_t *lh_json_object_parse(const char *bytes, size_t length, lh_error *error);

/* The same of a client's body, which is taken where nothing about it is unclear (json_repair.h): a
 * byte order mark stands before it, a name is twice in an object (the last one counts), a text has
 * a character that none may have (*replaced: how often; U+FFFD stands for it), a number is too
 * large (it is no integer then). */
json_t *lh_json_object_parse_freely(const char *bytes, size_t length, size_t *replaced,
                                    lh_error *error);
