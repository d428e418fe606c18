/* The handler behind the HTTP server: who may ask for what, which answer it gets, and a line in the log for
 * each request. */
#include "gateway/openai/openai_api.h"

#include "common/clock.h"
#include "common/log.h"
#include "gateway/http/api_key.h"
#include "gateway/http/json_body.h"
#include "gateway/http/json_text.h"
#include "gateway/openai/openai_answer.h"
#include "gateway/openai/openai_prompt.h"
#include "gateway/openai/openai_routes.h"
#include "gateway/random_id.h"
#include "gateway/trace/trace_json.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define REQUEST_ID_MAX 128

struct lh_openai_api {
    lh_openai_api_config config;
    lh_engine *engine;
    const lh_served_model *model;
    lh_openai_limits limits;
    lh_openai_answer_options answers;
    lh_api_key key;
    atomic_bool draining;
    lh_http_server *server;
};

/* Of one request: the exchange's state. */
typedef struct api_call {
    lh_openai_api *api;
    char id[REQUEST_ID_MAX + 1];
    int64_t begun_us;
    bool routed;
    lh_openai_route route;
    lh_openai_error refusal; /* status 0: none */
    lh_openai_answer *answer;
    size_t unknown_fields;
} api_call;

/* ---- Headers of every answer. ---- */

static bool is_request_id(const char *id) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = id ? strspn(id, allowed) : 0;
    return length > 0 && length <= REQUEST_ID_MAX && !id[length];
}

/* No key has a rate of its own here: what limits a client is the room for sequences and their positions. When it will all be free
 * nobody knows; it is worth another look after as long as Retry-After says. */
static void add_room(const char *const names[3], uint64_t limit, uint64_t remaining, lh_http_reply *reply) {
    lh_http_reply_add(reply, names[0], "%llu", (unsigned long long)limit);
    lh_http_reply_add(reply, names[1], "%llu", (unsigned long long)remaining);
    lh_http_reply_add(reply, names[2], "%ums", remaining < limit ? LH_OPENAI_RETRY_AFTER_MS : 0);
}

static void add_rate_limits(const api_call *call, lh_http_reply *reply) {
    static const char *const requests[] = {"x-ratelimit-limit-requests", "x-ratelimit-remaining-requests",
                                           "x-ratelimit-reset-requests"};
    static const char *const tokens[] = {"x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens",
                                         "x-ratelimit-reset-tokens"};
    lh_engine_room room = lh_engine_current_room(call->api->engine);
    add_room(requests, room.sequences_max, room.sequences_free, reply);
    if (room.positions_max != UINT64_MAX)
        add_room(tokens, room.positions_max, room.positions_free, reply);
}

static void add_headers(const api_call *call, lh_http_reply *reply) {
    double elapsed_ms = (double)(lh_clock_us() - call->begun_us) / 1000;
    lh_http_reply_add(reply, "x-request-id", "%s", call->id);
    lh_http_reply_add(reply, "openai-processing-ms", "%.0f", elapsed_ms);
    lh_http_reply_add(reply, "Server-Timing", "total;dur=%.1f", elapsed_ms);
    lh_http_reply_add(reply, "X-Content-Type-Options", "nosniff");
    if (call->answer)
        add_rate_limits(call, reply);
}

static lh_http_progress reply_error(const api_call *call, const lh_openai_error *error,
                                    lh_http_reply *reply) {
    lh_openai_error_reply(error, reply);
    if (error->status == 405)
        lh_http_reply_add(reply, "Allow", "%s", call->route.methods);
    add_headers(call, reply);
    return LH_HTTP_READY;
}

/* Takes `object`. */
static lh_http_progress reply_json(const api_call *call, unsigned status, json_t *object,
                                   lh_http_reply *reply) {
    lh_text_buffer body = {0};
    if (lh_json_render(object, &body)) {
        lh_text_buffer_reset(&body);
        return LH_HTTP_BREAK;
    }
    reply->status = status;
    reply->body = body.bytes;
    reply->body_bytes = body.length;
    lh_http_reply_add(reply, "Content-Type", "application/json");
    add_headers(call, reply);
    return LH_HTTP_READY;
}

/* ---- What is told without a model. ---- */

static lh_engine_state state_of(const lh_openai_api *api) {
    return atomic_load(&api->draining) ? LH_ENGINE_DRAINING : lh_engine_current_state(api->engine);
}

static bool is_ready(const lh_openai_api *api) {
    return state_of(api) == LH_ENGINE_READY;
}

static const char *state_name(lh_engine_state state) {
    switch (state) {
    case LH_ENGINE_READY:
        return "ok";
    case LH_ENGINE_LOADING:
        return "loading";
    case LH_ENGINE_NO_CHAIN:
        return "no_chain";
    case LH_ENGINE_DRAINING:
        break;
    }
    return "draining";
}

/* 503, and why. */
static void set_unavailable(lh_engine_state state, lh_openai_error *error) {
    lh_openai_error_from(error, &(lh_error){.status = LH_ERR_UNAVAILABLE});
    if (state == LH_ENGINE_DRAINING)
        snprintf(error->message, sizeof error->message,
                 "The server is draining: it finishes what it has begun and takes nothing new.");
}

static lh_http_progress reply_health(const api_call *call, lh_http_reply *reply) {
    lh_engine_state state = state_of(call->api);
    lh_openai_error error;
    if (state == LH_ENGINE_READY)
        return reply_json(call, 200, json_pack("{s:s}", "status", state_name(state)), reply);
    set_unavailable(state, &error);
    lh_http_reply_add(reply, "Retry-After", "2");
    return reply_json(call, error.status,
                      json_pack("{s:s, s:{s:s, s:s, s:n, s:s}}", "status", state_name(state), "error",
                                "message", error.message, "type", error.type, "param", "code", error.code),
                      reply);
}

static lh_http_progress reply_models(const api_call *call, lh_http_reply *reply) {
    json_t *list =
        is_ready(call->api) ? json_pack("[o]", lh_openai_model_object(call->api->model)) : json_array();
    return reply_json(call, 200, json_pack("{s:s, s:o}", "object", "list", "data", list), reply);
}

static lh_http_progress reply_model(const api_call *call, lh_http_reply *reply) {
    char id[512];
    lh_openai_error error;
    bool decoded = lh_openai_route_decode(call->route.rest, id, sizeof id);
    if (!decoded || strcmp(id, call->api->model->id) != 0)
        lh_openai_error_set(&error, 404, "model_not_found", "The model '%.200s' does not exist here.",
                            decoded ? id : call->route.rest);
    else if (!is_ready(call->api))
        set_unavailable(state_of(call->api), &error);
    else
        return reply_json(call, 200, lh_openai_model_object(call->api->model), reply);
    return reply_error(call, &error, reply);
}

static lh_http_progress reply_fleet(const api_call *call, lh_http_reply *reply) {
    reply->body = lh_engine_fleet_json(call->api->engine);
    if (!reply->body)
        return LH_HTTP_BREAK;
    reply->status = 200;
    reply->body_bytes = strlen(reply->body);
    lh_http_reply_add(reply, "Content-Type", "application/json");
    add_headers(call, reply);
    return LH_HTTP_READY;
}

static lh_http_progress reply_trace(const api_call *call, lh_http_reply *reply) {
    char id[LH_TRACE_NAME_BYTES];
    lh_trace_store *store = call->api->config.traces;
    bool is_id = lh_openai_route_decode(call->route.rest, id, sizeof id);
    json_t *events = NULL;
    lh_openai_error error;
    lh_error cause;
    if (!store)
        lh_openai_error_set(&error, 404, "tracing_off",
                            "This server keeps no traces: it runs with --traces 0.");
    else if (!is_id || lh_trace_json_find(store, id, &events, &cause) == LH_ERR_NOT_FOUND)
        lh_openai_error_set(&error, 404, "trace_not_found",
                            "There is no trace of '%.140s': it was none of the last requests.",
                            is_id ? id : call->route.rest);
    else if (!events)
        lh_openai_error_from(&error, &cause);
    else
        return reply_json(call, 200, events, reply);
    return reply_error(call, &error, reply);
}

static lh_http_progress reply_methods(const api_call *call, lh_http_reply *reply) {
    reply->status = 204;
    lh_http_reply_add(reply, "Allow", "%s", call->route.methods);
    add_headers(call, reply);
    return LH_HTTP_READY;
}

/* ---- What is generated. ---- */

static bool begin_chat(api_call *call, const lh_http_request *http, lh_openai_error *error) {
    lh_openai_chat_request request;
    json_t *body = lh_json_body_parse(http->body, http->body_bytes, error);
    if (!body)
        return false;
    bool begun = lh_openai_chat_request_parse(body, &call->api->limits, &request, error);
    call->unknown_fields = request.parameters.unknown_fields;
    begun = begun && lh_openai_answer_begin_chat(call->answer, &request, error);
    lh_openai_chat_request_reset(&request);
    return begun;
}

static bool begin_completion(api_call *call, const lh_http_request *http, lh_openai_error *error) {
    lh_openai_completion_request request;
    json_t *body = lh_json_body_parse(http->body, http->body_bytes, error);
    if (!body)
        return false;
    bool begun = lh_openai_completion_request_parse(body, &call->api->limits, &request, error);
    call->unknown_fields = request.parameters.unknown_fields;
    begun = begun && lh_openai_answer_begin_completion(call->answer, &request, error);
    lh_openai_completion_request_reset(&request);
    return begun;
}

static lh_http_progress proceed(api_call *call, lh_http_reply *reply) {
    lh_openai_error error;
    lh_http_progress progress = lh_openai_answer_proceed(call->answer, reply, &error);
    if (progress == LH_HTTP_READY && error.status)
        return reply_error(call, &error, reply);
    if (progress == LH_HTTP_READY)
        add_headers(call, reply);
    return progress;
}

static lh_http_progress generate(api_call *call, const lh_http_request *request, lh_http_reply *reply) {
    lh_openai_error error;
    bool begun = false;
    if (!call->answer)
        lh_openai_error_from(&error, &(lh_error){.status = LH_ERR_NO_MEMORY});
    else if (atomic_load(&call->api->draining))
        set_unavailable(state_of(call->api), &error);
    else if (call->route.action == LH_OPENAI_POST_CHAT)
        begun = begin_chat(call, request, &error);
    else
        begun = begin_completion(call, request, &error);
    return begun ? proceed(call, reply) : reply_error(call, &error, reply);
}

/* ---- The handler. ---- */

static bool makes_answer(const api_call *call) {
    return call->routed &&
           (call->route.action == LH_OPENAI_POST_CHAT || call->route.action == LH_OPENAI_POST_COMPLETION);
}

static bool is_encoded(const lh_http_request *request) {
    const char *coding = lh_http_request_header(request, "Content-Encoding");
    return coding && strcasecmp(coding, "identity") != 0;
}

/* Everything that the headers alone decide. Fills call->refusal. */
static void check_headers(api_call *call, const lh_http_request *request) {
    lh_openai_error error;
    call->routed = lh_openai_route_find(request->method, request->path, &call->route, &error);
    if (!call->route.is_public &&
        !lh_api_key_admits(&call->api->key, lh_http_request_header(request, "Authorization")))
        lh_openai_error_set(&call->refusal, 401, "invalid_api_key", "The API key is missing or wrong.");
    else if (!call->routed)
        call->refusal = error;
    else if (makes_answer(call) && !lh_http_request_is_type(request, "application/json"))
        lh_openai_error_set(&call->refusal, 415, "unsupported_media_type",
                            "The body must be of Content-Type application/json.");
    else if (makes_answer(call) && is_encoded(request))
        lh_openai_error_set(&call->refusal, 415, "unsupported_media_type",
                            "The body must come without a Content-Encoding.");
}

static bool on_headers(void *context, lh_http_exchange *exchange, const lh_http_request *request,
                       lh_http_reply *reply) {
    lh_openai_api *api = context;
    api_call *call = calloc(1, sizeof *call);
    if (!call) {
        lh_openai_error error;
        lh_openai_error_from(&error, &(lh_error){.status = LH_ERR_NO_MEMORY});
        lh_openai_error_reply(&error, reply);
        return false;
    }
    call->api = api;
    call->begun_us = lh_clock_us();
    const char *id = lh_http_request_header(request, "x-request-id");
    if (is_request_id(id))
        strcpy(call->id, id);
    else
        lh_random_id("req_", call->id);
    check_headers(call, request);
    if (makes_answer(call) && !call->refusal.status) {
        call->answer = lh_openai_answer_create(&api->answers, exchange);
        if (call->answer)
            lh_openai_answer_name(call->answer, call->id, call->begun_us);
    }
    lh_http_exchange_set_state(exchange, call);
    if (!call->refusal.status || (!request->chunked && request->announced_bytes == 0))
        return true; /* no body to save: the connection need not be closed for it */
    reply_error(call, &call->refusal, reply);
    return false;
}

static lh_http_progress on_request(void *context, lh_http_exchange *exchange, const lh_http_request *request,
                                   lh_http_reply *reply) {
    (void)context;
    api_call *call = lh_http_exchange_state(exchange);
    if (call->refusal.status)
        return reply_error(call, &call->refusal, reply);
    switch (call->route.action) {
    case LH_OPENAI_LIST_MODELS:
        return reply_models(call, reply);
    case LH_OPENAI_GET_MODEL:
        return reply_model(call, reply);
    case LH_OPENAI_GET_HEALTH:
        return reply_health(call, reply);
    case LH_OPENAI_GET_LIFE:
        return reply_json(call, 200, json_pack("{s:s}", "status", "ok"), reply);
    case LH_OPENAI_GET_VERSION:
        return reply_json(call, 200, json_pack("{s:s}", "version", LONGHAUL_VERSION), reply);
    case LH_OPENAI_GET_FLEET:
        return reply_fleet(call, reply);
    case LH_OPENAI_GET_TRACE:
        return reply_trace(call, reply);
    case LH_OPENAI_TELL_METHODS:
        return reply_methods(call, reply);
    case LH_OPENAI_POST_CHAT:
    case LH_OPENAI_POST_COMPLETION:
        break;
    }
    return generate(call, request, reply);
}

static lh_http_progress on_wake(void *context, lh_http_exchange *exchange, lh_http_reply *reply) {
    (void)context;
    return proceed(lh_http_exchange_state(exchange), reply);
}

static lh_http_progress on_read(void *context, lh_http_exchange *exchange, char *buffer, size_t capacity,
                                size_t *length) {
    (void)context;
    api_call *call = lh_http_exchange_state(exchange);
    return lh_openai_answer_read(call->answer, buffer, capacity, length);
}

static void on_gone(void *context, lh_http_exchange *exchange) {
    (void)context;
    api_call *call = lh_http_exchange_state(exchange);
    if (call && call->answer)
        lh_openai_answer_abandon(call->answer);
}

static void on_refusal(void *context, lh_http_exchange *exchange, unsigned status, const char *message,
                       lh_http_reply *reply) {
    (void)context;
    const api_call *known = lh_http_exchange_state(exchange);
    api_call unknown = {.begun_us = lh_clock_us()};
    if (!known)
        lh_random_id("req_", unknown.id);
    lh_openai_error error;
    lh_openai_error_set(&error, status,
                        status == 413   ? "request_too_large"
                        : status == 408 ? "request_timeout"
                                        : NULL,
                        "%s", message);
    reply_error(known ? known : &unknown, &error, reply);
}

/* Load balancers and service managers ask every few seconds: while all is well that is no news. */
static bool is_quiet_probe(const api_call *call, unsigned status) {
    return status == 200 && call->routed &&
           (call->route.action == LH_OPENAI_GET_HEALTH || call->route.action == LH_OPENAI_GET_LIFE);
}

static void on_done(void *context, lh_http_exchange *exchange, const lh_http_request *request,
                    const lh_http_outcome *outcome) {
    (void)context;
    api_call *call = lh_http_exchange_state(exchange);
    if (!call) { /* nothing of what it sent is fit for the log */
        lh_log(LH_LOG_INFO, "api", "refused status=%u ms=%.1f", outcome->status,
               (double)outcome->elapsed_us / 1000);
        return;
    }
    lh_openai_usage usage = {0, 0};
    if (call->answer)
        usage = lh_openai_answer_usage(call->answer);
    lh_openai_answer_destroy(call->answer);
    lh_log(is_quiet_probe(call, outcome->status) ? LH_LOG_DEBUG : LH_LOG_INFO, "api",
           "request method=%.16s route=%s status=%u ms=%.1f tokens_in=%llu tokens_out=%llu "
           "unknown_fields=%zu id=%s",
           request->method, call->route.name, outcome->status, (double)outcome->elapsed_us / 1000,
           (unsigned long long)usage.prompt_tokens, (unsigned long long)usage.completion_tokens,
           call->unknown_fields, call->id);
    lh_http_exchange_set_state(exchange, NULL);
    free(call);
}

/* ---- The API. ---- */

lh_openai_api_config lh_openai_api_config_default(void) {
    return (lh_openai_api_config){
        .http = lh_http_config_default(), .keep_alive_ms = 15000, .choices_max = 16, .prompts_max = 128};
}

lh_status lh_openai_api_open(const lh_openai_api_config *config, lh_engine *engine,
                             const lh_served_model *model, lh_openai_api **out, lh_error *error) {
    lh_openai_api *api = calloc(1, sizeof *api);
    if (!api)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the API");
    api->config = *config;
    api->engine = engine;
    api->model = model;
    api->limits = (lh_openai_limits){model->id,
                                     model->vocabulary,
                                     config->choices_max,
                                     config->prompts_max,
                                     config->sequences_max ? config->sequences_max : UINT32_MAX,
                                     config->strict_params,
                                     config->traces != NULL};
    api->answers = (lh_openai_answer_options){engine,
                                              model,
                                              lh_openai_prompt_longest_token(model),
                                              config->keep_alive_ms,
                                              config->logits_digest,
                                              config->traces};
    lh_status status = lh_api_key_init(&api->key, config->api_key);
    if (status)
        lh_fail(error, status, "no memory for the API's key");
    const lh_http_handler handler = {api,     on_headers, on_request, on_wake,
                                     on_read, on_gone,    on_refusal, on_done};
    if (!status)
        status = lh_http_server_create(&config->http, &handler, &api->server, error);
    if (status) {
        free(api);
        return status;
    }
    *out = api;
    return LH_OK;
}

uint16_t lh_openai_api_port(const lh_openai_api *api) {
    return lh_http_server_port(api->server);
}

void lh_openai_api_drain(lh_openai_api *api, uint32_t timeout_ms) {
    const struct timespec pause = {.tv_nsec = 10000000};
    int64_t deadline_us = lh_clock_us() + (int64_t)timeout_ms * 1000;
    atomic_store(&api->draining, true);
    while (lh_http_server_active(api->server) > 0 && lh_clock_us() < deadline_us)
        nanosleep(&pause, NULL);
}

void lh_openai_api_close(lh_openai_api *api) {
    if (!api)
        return;
    lh_http_server_destroy(api->server);
    free(api);
}
