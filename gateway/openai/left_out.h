/* What a request says that this server leaves out, since the answer does not need it: fields,
 * options, and types of tools, of parts and of items that a client sends to every server. Whoever
 * reads the body notes the kind ("context_management", "tools[] of type web_search"); each kind is
 * told in the log, once for each client (left_out_log.h).
 *
 * What would change the answer is done; what cannot be done and matters is refused by name
 * (body_reader.h); neither is noted here.
 *
 * Plain data, begun with zeroes. Thread: its owner's. */
#pragma once

#include <stddef.h>

#define LH_LEFT_OUT_KINDS_MAX  24u
#define LH_LEFT_OUT_KIND_BYTES 96u

typedef struct lh_left_out {
    char kinds[LH_LEFT_OUT_KINDS_MAX][LH_LEFT_OUT_KIND_BYTES];
    size_t count;
} lh_left_out;

/* Notes a kind, once; a long name is cut, and of a request that has more kinds than there is room
 * for the first ones are kept. No index of a list belongs into its name, since each would be a kind
 * of its own. NULL is allowed: nothing is noted. */
void lh_left_out_note(lh_left_out *left_out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
