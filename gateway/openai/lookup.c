/* One small function for each route. */
#include "gateway/openai/lookup.h"

#include "gateway/openai/render.h"
#include "gateway/trace/trace_json.h"

#include <stdio.h>
#include <string.h>

lh_engine_state lh_openai_lookup_state(const lh_openai_api *api) {
    return atomic_load(&api->draining) ? LH_ENGINE_DRAINING : lh_engine_current_state(api->engine);
}

static bool is_ready(const lh_openai_api *api) {
    return lh_openai_lookup_state(api) == LH_ENGINE_READY;
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

void lh_openai_lookup_set_unavailable(lh_engine_state state, lh_openai_error *error) {
    lh_openai_error_from(error, &(lh_error){.status = LH_ERR_UNAVAILABLE});
    if (state == LH_ENGINE_DRAINING)
        snprintf(error->message, sizeof error->message,
                 "The server is draining: it finishes what it has begun and takes nothing new.");
}

static lh_http_progress reply_health(lh_openai_call *call, lh_http_reply *reply) {
    lh_engine_state state = lh_openai_lookup_state(call->api);
    lh_openai_error error;
    if (state == LH_ENGINE_READY)
        return lh_openai_call_reply_json(call, 200, json_pack("{s:s}", "status", state_name(state)),
                                         reply);
    lh_openai_lookup_set_unavailable(state, &error);
    lh_http_reply_add(reply, "Retry-After", "2");
    return lh_openai_call_reply_json(call, error.status,
                                     json_pack("{s:s, s:{s:s, s:s, s:n, s:s}}", "status",
                                               state_name(state), "error", "message", error.message,
                                               "type", error.type, "param", "code", error.code),
                                     reply);
}

static lh_http_progress reply_models(lh_openai_call *call, lh_http_reply *reply) {
    json_t *list = is_ready(call->api) ? json_pack("[o]", lh_openai_model_object(call->api->model))
                                       : json_array();
    return lh_openai_call_reply_json(
        call, 200, json_pack("{s:s, s:o}", "object", "list", "data", list), reply);
}

static lh_http_progress reply_model(lh_openai_call *call, lh_http_reply *reply) {
    char id[512];
    lh_openai_error error;
    bool decoded = lh_openai_route_decode(call->route.rest, id, sizeof id);
    if (!decoded || strcmp(id, call->api->model->id) != 0)
        lh_openai_error_set(&error, 404, "model_not_found",
                            "The model '%.200s' does not exist here.",
                            decoded ? id : call->route.rest);
    else if (!is_ready(call->api))
        lh_openai_lookup_set_unavailable(lh_openai_lookup_state(call->api), &error);
    else
        return lh_openai_call_reply_json(call, 200, lh_openai_model_object(call->api->model),
                                         reply);
    return lh_openai_call_reply_error(call, &error, reply);
}

static lh_http_progress reply_fleet(lh_openai_call *call, lh_http_reply *reply) {
    reply->body = lh_engine_fleet_json(call->api->engine);
    if (!reply->body)
        return LH_HTTP_BREAK;
    reply->status = 200;
    reply->body_bytes = strlen(reply->body);
    lh_http_reply_add(reply, "Content-Type", "application/json");
    lh_openai_call_add_headers(call, reply);
    return LH_HTTP_READY;
}

static lh_http_progress reply_trace(lh_openai_call *call, lh_http_reply *reply) {
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
        return lh_openai_call_reply_json(call, 200, events, reply);
    return lh_openai_call_reply_error(call, &error, reply);
}

static lh_http_progress reply_methods(lh_openai_call *call, lh_http_reply *reply) {
    reply->status = 204;
    lh_http_reply_add(reply, "Allow", "%s", call->route.methods);
    lh_openai_call_add_headers(call, reply);
    return LH_HTTP_READY;
}

lh_http_progress lh_openai_lookup_reply(lh_openai_call *call, lh_http_reply *reply) {
    switch (call->route.action) {
    case LH_OPENAI_LIST_MODELS:
        return reply_models(call, reply);
    case LH_OPENAI_GET_MODEL:
        return reply_model(call, reply);
    case LH_OPENAI_GET_HEALTH:
        return reply_health(call, reply);
    case LH_OPENAI_GET_LIFE:
        return lh_openai_call_reply_json(call, 200, json_pack("{s:s}", "status", "ok"), reply);
    case LH_OPENAI_GET_VERSION:
        return lh_openai_call_reply_json(call, 200, json_pack("{s:s}", "version", LONGHAUL_VERSION),
                                         reply);
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
    return LH_HTTP_BREAK;
}
