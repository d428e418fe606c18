/* The Range header of a GET (RFC 9110, 14.2): one range of bytes. Pure; thread: any. */
#pragma once

#include "common/base/status.h"

#include <stdint.h>

typedef struct lh_byte_range {
    uint64_t offset, length; /* within the file, length > 0 */
} lh_byte_range;

/* header: "bytes=a-b", "bytes=a-" or "bytes=-n", spaces around the whole allowed.
 * LH_ERR_UNSUPPORTED: another unit, or several ranges (a server may ignore it); LH_ERR_MALFORMED;
 * LH_ERR_LIMIT: it lies outside of the file (416). */
lh_status lh_byte_range_parse(const char *header, uint64_t file_bytes, lh_byte_range *range);
