/* Which pages' scripts may read the answers (CORS, section 3.3 of the Fetch standard): those of the
 * origins that the operator names, and no others. Cookies and the like are never allowed, so that
 * no origin comes by what a browser adds on its own. Thread: any. */
#pragma once

#include "common/base/status.h"
#include "gateway/http/reply.h"
#include "gateway/http/request.h"

#include <stdbool.h>

/* A list: "https://chat.example,http://localhost:3000"; "" or NULL: nobody. LH_ERR_INVALID: an
 * entry is no scheme, host and port as browsers send them. */
lh_status lh_cors_check(const char *list, lh_error *error);

typedef struct lh_cors_origin {
    const char *bytes; /* in the list; NULL: the request's origin is not in it */
    size_t length;
} lh_cors_origin;

/* That of the request's header Origin. */
lh_cors_origin lh_cors_match(const char *list, const lh_http_request *request);
/* Whether a browser asks if it may send a request: OPTIONS from an origin of the list. It shows no
 * key. */
bool lh_cors_is_preflight(lh_cors_origin origin, const lh_http_request *request);
/* The headers of an answer; `methods` of one to a preflight, else NULL. Without a list: none. */
void lh_cors_add_headers(const char *list, lh_cors_origin origin, const char *methods,
                         lh_http_reply *reply);
