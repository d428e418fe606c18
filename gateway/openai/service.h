/* What the API serves, and how: the same for all its requests, and set before the first of them.
 * Private to gateway/openai/. */
#pragma once

#include "gateway/constrain/constraint_cache.h"
#include "gateway/openai/api.h"
#include "gateway/openai/left_out_log.h"
#include "gateway/openai/reader_pool.h"
#include "gateway/openai/request_metrics.h"

#include <stdatomic.h>

typedef struct lh_openai_service {
    lh_openai_api_config config;
    lh_engine *engine;
    const lh_served_model *model;
    lh_reader_pool *readers;
    lh_constraint_cache *constraints;
    char *openapi; /* the answer to GET /openapi.json, rendered once: it takes milliseconds */
    size_t longest_token_bytes;  /* of the model's tokens */
    atomic_bool draining;        /* any thread */
    lh_request_metrics *metrics; /* any thread */
    lh_left_out_log left_out;    /* any thread */
} lh_openai_service;
