/* One request of the API from its headers to its end, and the replies that every route gives: JSON,
 * errors, and the headers of all of them. Private to gateway/openai/. Thread: the exchange's server
 * thread. */
#pragma once

#include "gateway/openai/answer.h"
#include "gateway/openai/api.h"
#include "gateway/openai/routes.h"

#include <jansson.h>
#include <stdatomic.h>

#define LH_OPENAI_REQUEST_ID_MAX 128

struct lh_openai_api {
    lh_openai_api_config config;
    lh_engine *engine;
    const lh_served_model *model;
    lh_openai_limits limits;
    lh_openai_answer_options answers;
    atomic_bool draining;
    lh_http_server *server;
};

/* The exchange's state. */
typedef struct lh_openai_call {
    lh_openai_api *api;
    char id[LH_OPENAI_REQUEST_ID_MAX + 1];
    int64_t begun_us;
    bool routed;
    lh_openai_route route;
    lh_ticket ticket;
    lh_openai_error refusal; /* status 0: none */
    lh_openai_answer *answer;
    size_t unknown_fields;
} lh_openai_call;

/* Each fills *reply and gives READY, or BREAK where there is no memory. _json takes `object`. */
lh_http_progress lh_openai_call_reply_json(lh_openai_call *call, unsigned status, json_t *object,
                                           lh_http_reply *reply);
lh_http_progress lh_openai_call_reply_error(lh_openai_call *call, const lh_openai_error *error,
                                            lh_http_reply *reply);
/* The headers of every answer: its id, its time, and what is left of the limits where it generates.
 */
void lh_openai_call_add_headers(lh_openai_call *call, lh_http_reply *reply);
