/* What a request to a worker's server asks for: its method and path, read. A pure function.
 * Thread: any. */
#pragma once

#include "common/http2/stream.h"
#include "common/protocol/step_answer.h"

typedef enum lh_worker_request_kind {
    LH_REQUEST_REFUSED,
    LH_REQUEST_STEP,   /* POST /chains/{chain}/steps/{number}, perhaps with ?shards=apart */
    LH_REQUEST_SHARDS, /* POST /chains/{chain}/shards/{epoch}/{number} */
    LH_REQUEST_TRIAL,  /* POST /chains/{chain}/trials/{number} (protocol/trial/trial_request.h) */
    LH_REQUEST_PROBE,  /* POST /probe (http2/probe.h) */
    LH_REQUEST_HEALTH, /* GET /health */
    LH_REQUEST_STATUS  /* GET /status */
} lh_worker_request_kind;

typedef struct lh_worker_request {
    lh_worker_request_kind kind;
    /* STEP, SHARDS, TRIAL */
    char chain[LH_WORKER_NAME_BYTES];
    uint64_t number;      /* TRIAL: its width */
    uint32_t epoch;       /* SHARDS */
    bool shards_go_apart; /* STEP: its shards come by requests of their own */
    /* REFUSED: what is to be answered */
    int http_status;
    lh_status status;
    const char *message;
} lh_worker_request;

void lh_worker_request_read(const lh_h2_request *http, lh_worker_request *request);
