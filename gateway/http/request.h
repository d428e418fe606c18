/* One HTTP request as plain data, and the rules that keep its framing unambiguous: whatever two
 * implementations could read in two ways (request smuggling) is refused. No library types; thread:
 * any. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_HTTP_HEADERS_MAX      100
#define LH_HTTP_TARGET_BYTES_MAX 8192

typedef struct lh_http_header {
    const char *name, *value;
} lh_http_header;

#define LH_HTTP_PEER_BYTES 64

/* All pointers live as long as the exchange that the request belongs to, but for the body, which is
 * there until the handler's on_request has returned. */
typedef struct lh_http_request {
    const char *peer; /* who is at the other end, a client or its proxy: "192.0.2.1:49152" */
    /* stands for its address, of IPv6 for the network (/64) that the address is in; above 0 */
    uint64_t peer_network;
    const char *method, *version; /* "POST", "HTTP/1.1" */
    const char *target;           /* as it came */
    /* the target up to '?', not decoded: what routing and authorisation read */
    const char *path;
    const lh_http_header *headers;
    size_t header_count;
    const char *body;
    size_t body_bytes;
    /* Filled by lh_http_request_check. */
    bool chunked;             /* the length of the body is not announced */
    uint64_t announced_bytes; /* Content-Length, or 0 */
} lh_http_request;

/* The value of the first header of that name (any case), or NULL. */
const char *lh_http_request_header(const lh_http_request *request, const char *name);

/* Fills chunked and announced_bytes. Returns 0, or the status code with which the request is to be
 * refused and its connection closed (400, 414, 431, 501), and *error says why. */
unsigned lh_http_request_check(lh_http_request *request, lh_error *error);

/* Whether the media type of Content-Type is this one, parameters aside. */
bool lh_http_request_is_type(const lh_http_request *request, const char *media_type);
/* Whether a browser may have sent it, as a page of any origin can have it do: it has one of the
 * headers that browsers add and other programs do not (Origin, Referer, Cookie, Sec-Fetch-...), or
 * calls itself one. */
bool lh_http_request_may_be_a_page_s(const lh_http_request *request);
