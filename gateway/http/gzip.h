/* Bodies in gzip (RFC 1952), by zlib, within bounds: what a peer sends may expand a thousandfold.
 * Thread: any. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* The body that one gzip member stands for: *out is malloc'd, and memory grows with what has been
 * expanded. LH_ERR_MALFORMED: it is none, is cut off, or something follows it; LH_ERR_LIMIT: it
 * would be longer than bytes_max; LH_ERR_NO_MEMORY. */
lh_status lh_gzip_expand(const char *bytes, size_t length, size_t bytes_max, char **out,
                         size_t *out_length, lh_error *error);
/* *out is malloc'd. LH_ERR_LIMIT: it would not be shorter; LH_ERR_NO_MEMORY. */
lh_status lh_gzip_compress(const char *bytes, size_t length, char **out, size_t *out_length);
/* Whether the header Accept-Encoding (NULL: there is none) takes gzip (RFC 9110, 12.5.3). */
bool lh_gzip_is_accepted(const char *accept_encoding);
