/* The handler behind the HTTP server: who may ask for what, which answer it gets, and a line in the
 * log for each request. */
#include "gateway/openai/api.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/random_id.h"
#include "common/json/json_object.h"
#include "gateway/openai/call.h"
#include "gateway/openai/lookup.h"
#include "gateway/openai/prompt.h"
#include "gateway/openai/refusals.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* ---- What is generated. ---- */

static json_t *parse_body(const lh_http_request *http, lh_openai_error *error) {
    lh_error cause;
    json_t *body = lh_json_object_parse(http->body, http->body_bytes, &cause);
    if (!body && cause.status == LH_ERR_NO_MEMORY)
        lh_openai_error_from(error, &cause);
    else if (!body)
        lh_openai_refuse(error, NULL, "invalid_json", "%s", cause.message);
    return body;
}

static bool begin_chat(lh_openai_call *call, const lh_http_request *http, lh_openai_error *error) {
    lh_openai_chat_request request;
    json_t *body = parse_body(http, error);
    if (!body)
        return false;
    bool begun = lh_openai_chat_request_parse(body, &call->api->limits, &request, error);
    call->unknown_fields = request.parameters.unknown_fields;
    begun = begun && lh_openai_answer_begin_chat(call->answer, &request, error);
    lh_openai_chat_request_reset(&request);
    return begun;
}

static bool begin_completion(lh_openai_call *call, const lh_http_request *http,
                             lh_openai_error *error) {
    lh_openai_completion_request request;
    json_t *body = parse_body(http, error);
    if (!body)
        return false;
    bool begun = lh_openai_completion_request_parse(body, &call->api->limits, &request, error);
    call->unknown_fields = request.parameters.unknown_fields;
    begun = begun && lh_openai_answer_begin_completion(call->answer, &request, error);
    lh_openai_completion_request_reset(&request);
    return begun;
}

/* What has been drawn by now is the client's. */
static void charge(lh_openai_call *call) {
    if (call->answer)
        lh_ticket_spend(&call->ticket, lh_openai_answer_usage(call->answer).completion_tokens,
                        lh_clock_us());
}

static lh_http_progress proceed(lh_openai_call *call, lh_http_reply *reply) {
    lh_openai_error error;
    lh_http_progress progress = lh_openai_answer_proceed(call->answer, reply, &error);
    charge(call);
    if (progress == LH_HTTP_READY && error.status)
        return lh_openai_call_reply_error(call, &error, reply);
    if (progress == LH_HTTP_READY)
        lh_openai_call_add_headers(call, reply);
    return progress;
}

/* It will be asked again when it is submitted; by now nothing has been spent on reading the
 * request. */
static bool is_full(const lh_openai_call *call) {
    return lh_engine_current_room(call->api->engine).sequences_free == 0;
}

static lh_http_progress generate(lh_openai_call *call, const lh_http_request *request,
                                 lh_http_reply *reply) {
    lh_openai_error error;
    lh_account_refusal limit;
    bool begun = false;
    if (!call->answer)
        lh_openai_error_from(&error, &(lh_error){.status = LH_ERR_NO_MEMORY});
    else if (atomic_load(&call->api->draining))
        lh_openai_lookup_set_unavailable(lh_openai_lookup_state(call->api), &error);
    else if (!lh_ticket_may_take(&call->ticket, lh_clock_us(), &limit))
        lh_openai_refuse_client(&error, &call->ticket, &limit);
    else if (is_full(call))
        lh_openai_refuse_full(&error, &call->ticket, 1, lh_clock_us());
    else if (call->route.action == LH_OPENAI_POST_CHAT)
        begun = begin_chat(call, request, &error);
    else
        begun = begin_completion(call, request, &error);
    return begun ? proceed(call, reply) : lh_openai_call_reply_error(call, &error, reply);
}

/* ---- The handler. ---- */

static bool is_request_id(const char *id) {
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = id ? strspn(id, allowed) : 0;
    return length > 0 && length <= LH_OPENAI_REQUEST_ID_MAX && !id[length];
}

static bool makes_answer(const lh_openai_call *call) {
    return call->routed && (call->route.action == LH_OPENAI_POST_CHAT ||
                            call->route.action == LH_OPENAI_POST_COMPLETION);
}

static bool is_encoded(const lh_http_request *request) {
    const char *coding = lh_http_request_header(request, "Content-Encoding");
    return coding && strcasecmp(coding, "identity") != 0;
}

/* Everything that the headers alone decide. Fills call->refusal. */
static void check_headers(lh_openai_call *call, const lh_http_request *request) {
    lh_openai_error error;
    call->routed = lh_openai_route_find(request->method, request->path, &call->route, &error);
    const char *shown = lh_http_request_header(request, "Authorization");
    if (!call->route.is_public &&
        !lh_ticket_open(call->api->config.authenticator, shown, time(NULL), &call->ticket))
        lh_openai_error_set(&call->refusal, 401, "invalid_api_key",
                            "The API key is missing, wrong or expired.");
    else if (!call->routed)
        call->refusal = error;
    else if (call->route.is_admin && !call->ticket.is_admin)
        lh_openai_error_set(&call->refusal, 403, "insufficient_scope",
                            "This API key may not ask for that: its line lacks the word admin.");
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
    lh_openai_call *call = calloc(1, sizeof *call);
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
        call->answer = lh_openai_answer_create(&api->answers, exchange, &call->ticket);
        if (call->answer)
            lh_openai_answer_name(call->answer, call->id, call->begun_us);
    }
    lh_http_exchange_set_state(exchange, call);
    if (!call->refusal.status || (!request->chunked && request->announced_bytes == 0))
        return true; /* no body to save: the connection need not be closed for it */
    lh_openai_call_reply_error(call, &call->refusal, reply);
    return false;
}

static lh_http_progress on_request(void *context, lh_http_exchange *exchange,
                                   const lh_http_request *request, lh_http_reply *reply) {
    (void)context;
    lh_openai_call *call = lh_http_exchange_state(exchange);
    if (call->refusal.status)
        return lh_openai_call_reply_error(call, &call->refusal, reply);
    if (!makes_answer(call))
        return lh_openai_lookup_reply(call, reply);
    return generate(call, request, reply);
}

static lh_http_progress on_wake(void *context, lh_http_exchange *exchange, lh_http_reply *reply) {
    (void)context;
    return proceed(lh_http_exchange_state(exchange), reply);
}

static lh_http_progress on_read(void *context, lh_http_exchange *exchange, char *buffer,
                                size_t capacity, size_t *length) {
    (void)context;
    lh_openai_call *call = lh_http_exchange_state(exchange);
    lh_http_progress progress = lh_openai_answer_read(call->answer, buffer, capacity, length);
    charge(call);
    return progress;
}

static void on_gone(void *context, lh_http_exchange *exchange) {
    (void)context;
    lh_openai_call *call = lh_http_exchange_state(exchange);
    if (call && call->answer)
        lh_openai_answer_abandon(call->answer);
}

static void on_refusal(void *context, lh_http_exchange *exchange, unsigned status,
                       const char *message, lh_http_reply *reply) {
    (void)context;
    lh_openai_call *known = lh_http_exchange_state(exchange);
    lh_openai_call unknown = {.begun_us = lh_clock_us()};
    if (!known)
        lh_random_id("req_", unknown.id);
    lh_openai_error error;
    lh_openai_error_set(&error, status,
                        status == 413   ? "request_too_large"
                        : status == 408 ? "request_timeout"
                                        : NULL,
                        "%s", message);
    lh_openai_call_reply_error(known ? known : &unknown, &error, reply);
}

/* Load balancers and service managers ask every few seconds: while all is well that is no news. */
static bool is_quiet_probe(const lh_openai_call *call, unsigned status) {
    return status == 200 && call->routed &&
           (call->route.action == LH_OPENAI_GET_HEALTH || call->route.action == LH_OPENAI_GET_LIFE);
}

static void on_done(void *context, lh_http_exchange *exchange, const lh_http_request *request,
                    const lh_http_outcome *outcome) {
    (void)context;
    lh_openai_call *call = lh_http_exchange_state(exchange);
    if (!call) { /* nothing of what it sent is fit for the log */
        lh_log(LH_LOG_INFO, "api", "refused status=%u ms=%.1f", outcome->status,
               (double)outcome->elapsed_us / 1000);
        return;
    }
    lh_openai_usage usage = {0};
    if (call->answer)
        usage = lh_openai_answer_usage(call->answer);
    charge(call);
    lh_openai_answer_destroy(call->answer);
    lh_log(is_quiet_probe(call, outcome->status) ? LH_LOG_DEBUG : LH_LOG_INFO, "api",
           "request method=%.16s route=%s status=%u ms=%.1f tokens_in=%llu tokens_out=%llu "
           "unknown_fields=%zu client=%s id=%s",
           request->method, call->route.name, outcome->status, (double)outcome->elapsed_us / 1000,
           (unsigned long long)usage.prompt_tokens, (unsigned long long)usage.completion_tokens,
           call->unknown_fields, call->ticket.client ? call->ticket.name : "-", call->id);
    lh_ticket_close(&call->ticket, lh_clock_us());
    lh_http_exchange_set_state(exchange, NULL);
    free(call);
}

/* ---- The API. ---- */

lh_openai_api_config lh_openai_api_config_default(void) {
    return (lh_openai_api_config){.http = lh_http_config_default(),
                                  .keep_alive_ms = 15000,
                                  .request_timeout_us = 600000000,
                                  .choices_max = 16,
                                  .prompts_max = 128};
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
                                     config->traces};
    api->answers =
        (lh_openai_answer_options){.engine = engine,
                                   .model = model,
                                   .longest_token_bytes = lh_openai_prompt_longest_token(model),
                                   .keep_alive_ms = config->keep_alive_ms,
                                   .timeout_us = config->request_timeout_us,
                                   .logits_digest = config->logits_digest,
                                   .traces = config->traces};
    const lh_http_handler handler = {api,     on_headers, on_request, on_wake,
                                     on_read, on_gone,    on_refusal, on_done};
    lh_status status = lh_http_server_create(&config->http, &handler, &api->server, error);
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
