/* One PUT of the control plane, with libcurl. Blocking: for a thread that may wait. One thread at a
 * time; the connection is kept between calls, and a new one resolves the name anew. The process has
 * to ignore SIGPIPE. */
#pragma once

#include "common/base/status.h"
#include "common/net/tls_channel.h"

#include <stddef.h>

typedef struct lh_control_client lh_control_client;

/* gateway_url: "http://host:port" (HTTP/2 with prior knowledge) or "https://host:port" (TLS 1.3
 * with tls, which outlives the client and is NULL for http). LH_ERR_NO_MEMORY, LH_ERR_INVALID. */
lh_status lh_control_client_create(const char *gateway_url, const char *worker_name,
                                   const lh_tls_options *tls, lh_control_client **client,
                                   lh_error *error);
/* NULL is allowed. */
void lh_control_client_destroy(lh_control_client *client);

/* Takes over the body, a malloc'd text, and puts it under its seal (control_seal.h). LH_OK: 200,
 * and answer[length] is the body of that without its seal; it lives until the next call.
 * LH_ERR_CORRUPT: it was damaged; LH_ERR_UNAVAILABLE: no connection, no answer in time, or 5xx;
 * LH_ERR_CANCELLED: the gateway has revoked the worker's certificate; LH_ERR_INVALID: refused (the
 * message quotes the gateway), LH_ERR_EXISTS: since another process has the worker's name;
 * LH_ERR_LIMIT: the answer is too long; LH_ERR_NO_MEMORY, also where the body is NULL. */
lh_status lh_control_client_put(lh_control_client *client, char *body, const char **answer,
                                size_t *length, lh_error *error);
