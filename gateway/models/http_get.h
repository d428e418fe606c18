/* One GET of a model, or of a hub's list, by libcurl. Redirects are followed here, not by libcurl,
 * so that it can be seen that a token goes to the host that it is for and to no other: it is left
 * out from the first redirect to another origin (scheme, host or port) on. https is never left for
 * http. Blocking; one thread at a time. */
#pragma once

#include "common/base/status.h"
#include "gateway/models/model_reference.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_HTTP_TAG_BYTES 256

typedef struct lh_http_answer {
    long status;
    bool has_length, has_range, has_total;
    uint64_t length;               /* Content-Length */
    uint64_t range_first;          /* Content-Range: the first byte (has_range) ... */
    uint64_t total;                /* ... and the whole's length, also in a 416 (has_total) */
    char tag[LH_HTTP_TAG_BYTES];   /* ETag, with its quotes; "": none */
    char next[LH_MODEL_URL_BYTES]; /* Link: <...>; rel="next"; "": none */
    int64_t retry_after_s;         /* 0: not said */
} lh_http_answer;

typedef struct lh_http_request {
    const char *url;
    const char *token;       /* "": none */
    uint64_t from;           /* > 0: the range from there to the end ... */
    const char *if_range;    /* ... if the tag is still this; "": in any case */
    int64_t stall_timeout_s; /* no byte for so long ends it */
    /* The answer that is no redirect, before its body. May be NULL. */
    lh_status (*on_answer)(void *context, const lh_http_answer *answer, lh_error *error);
    /* The body of a 200 or 206, in pieces; those of other answers are passed over. */
    lh_status (*on_bytes)(void *context, const char *bytes, size_t length, lh_error *error);
    void *context;
} lh_http_request;

/* LH_OK: an answer came, whatever its status, with as long a body as it had announced.
 * LH_ERR_UNAVAILABLE: no connection, or it broke; LH_ERR_TIMEOUT; LH_ERR_INVALID: the URL, its
 * certificate, or a redirect that is not to be followed; LH_ERR_NO_MEMORY; the callbacks' own. */
lh_status lh_http_get(const lh_http_request *request, lh_http_answer *answer, lh_error *error);

/* Whether both are of one scheme, host and port. */
bool lh_http_same_origin(const char *url, const char *other);
