/* One request to the gateway's fleet port and its answer, over a connection of its own. Blocking:
 * for a thread that may wait; any thread. */
#pragma once

#include "common/base/status.h"
#include "common/net/tls_channel.h"

#include <stddef.h>
#include <stdint.h>

typedef struct lh_exchange_request {
    const char *method, *path;
    const char *body; /* JSON; NULL: none */
    size_t answer_bytes_max;
    int64_t timeout_ms; /* for all of it; connecting has 3 s of these */
} lh_exchange_request;

typedef struct lh_exchange_answer {
    int http_status;
    char *body; /* malloc'd and terminated */
    size_t length;
} lh_exchange_answer;

/* address: "HOST:PORT". LH_OK: there is an answer, of whatever status, whose body the caller frees.
 * LH_ERR_UNAVAILABLE: no connection, or not with whom it should be; LH_ERR_CLOSED: it went while we
 * waited; LH_ERR_TIMEOUT; LH_ERR_LIMIT: the answer is too long; LH_ERR_NO_MEMORY. The message has
 * the reason without the address. */
lh_status lh_exchange(const char *address, const lh_tls_options *tls,
                      const lh_exchange_request *request, lh_exchange_answer *answer,
                      lh_error *error);
