/* One request over HTTP to a gateway's API, and its answer as it comes. Thread: any, also several
 * at once. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct lh_api_request {
    /* url: "http://HOST:PORT" of the API, with or without a final "/" or "/v1"; path: "/readyz", or
     * "/trace/" before a word that may hold anything. */
    const char *url, *path, *word;
    const char *key;  /* "": none */
    const char *json; /* of a POST; NULL: it is a GET */
    long timeout_ms;
    /* Some more of the answer; false: no more is wanted, LH_ERR_LIMIT. */
    bool (*on_bytes)(void *context, const char *bytes, size_t length);
    /* Asked several times a second; false: LH_ERR_CANCELLED. NULL: it goes on. */
    bool (*goes_on)(void *context);
    void *context;
} lh_api_request;

/* LH_OK: there was an answer, of whatever status. LH_ERR_INVALID: the URL; LH_ERR_UNAVAILABLE:
 * nobody listens there; LH_ERR_PROTOCOL: who listens there does not speak HTTP/1.1;
 * LH_ERR_TIMEOUT; LH_ERR_CLOSED: it ended in the middle; LH_ERR_IO: any other reason;
 * LH_ERR_NO_MEMORY. */
lh_status lh_api_transfer(const lh_api_request *request, long *http_status, lh_error *error);

/* Tries a TLS handshake with the server at "HOST:PORT". file: PEM with our certificate and its key.
 * LH_ERR_UNAVAILABLE: nobody listens there; LH_ERR_PROTOCOL: who listens there speaks no TLS;
 * LH_ERR_NO_MEMORY. */
lh_status lh_api_handshake(const char *address, const char *file, lh_error *error);
