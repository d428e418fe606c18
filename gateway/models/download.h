/* One file from a server into its part_file, however often the transfer breaks off.
 *
 * A try is one request for what is missing. It goes on with a part only where the bytes are shown
 * to be of the same file: by a digest that is known beforehand and compared at the end, or by a
 * strong ETag (If-Range, RFC 9110 section 13.1.5). Else, and where the file has changed meanwhile,
 * it begins anew. Failures that are worth another try are those of the network, 408, 429 (after the
 * server's Retry-After) and 5xx.
 *
 * Blocking; one thread at a time. */
#pragma once

#include "common/base/digest.h"
#include "common/base/status.h"
#include "gateway/models/part_file.h"
#include "gateway/models/pull_report.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_download {
    const char *url;
    const char *token; /* "": none */
    uint64_t bytes;    /* 0: not known */
    bool has_sha256;
    uint8_t sha256[LH_SHA256_BYTES];
    uint32_t tries;          /* in a row that bring nothing, then it fails */
    int64_t stall_timeout_s; /* no byte for so long ends a try */
} lh_download;

/* Until all of the file is here and on the disk; its digest, where one is known, agrees.
 * LH_ERR_CORRUPT: it does not, or the server has another length than was said (the part is
 * removed, for its bytes are no good); LH_ERR_NOT_FOUND (404, 410); LH_ERR_INVALID: 401 and 403,
 * the URL; LH_ERR_LIMIT: the disk is full; LH_ERR_UNAVAILABLE, LH_ERR_TIMEOUT: no try is left;
 * LH_ERR_IO, LH_ERR_NO_MEMORY. But for LH_ERR_CORRUPT the part stays as it is. */
lh_status lh_download_run(const lh_download *download, lh_part_file *part, lh_pull_report *report,
                          lh_error *error);
