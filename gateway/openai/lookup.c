/* One small function for each route that needs one. */
#include "gateway/openai/lookup.h"

#include "common/json/json_text.h"
#include "gateway/openai/dialect.h"
#include "gateway/openai/outage.h"
#include "gateway/openai/render.h"
#include "gateway/openai/served_context.h"
#include "gateway/openai/tokenization.h"
#include "gateway/text/model_aliases.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static lh_engine_state state_of(const lh_openai_service *service) {
    return service->draining ? LH_ENGINE_DRAINING : lh_engine_current_state(service->engine);
}

bool lh_openai_lookup_refuse(const lh_openai_service *service, lh_openai_error *error) {
    lh_error cause;
    lh_engine_refusal(service->engine, &cause);
    lh_openai_refuse_admission(error, &cause);
    if (state_of(service) == LH_ENGINE_DRAINING)
        snprintf(error->message, sizeof error->message,
                 "The server is draining: it finishes what it has begun and takes nothing new.");
    else if (cause.status == LH_ERR_UNAVAILABLE)
        lh_openai_outage_explain(service, error);
    return false;
}

static bool reply_json(unsigned status, json_t *object, lh_http_reply *reply,
                       lh_openai_error *error) {
    return !lh_openai_json_reply(status, object, reply) ||
           lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
}

static bool reply_health(const lh_openai_service *service, lh_http_reply *reply,
                         lh_openai_error *error) {
    static const char *const names[] = {[LH_ENGINE_READY] = "ok",
                                        [LH_ENGINE_LOADING] = "loading",
                                        [LH_ENGINE_NO_CHAIN] = "no_chain",
                                        [LH_ENGINE_DRAINING] = "draining"};
    lh_engine_state state = state_of(service);
    if (state == LH_ENGINE_READY)
        return reply_json(200, json_pack("{s:s}", "status", names[state]), reply, error);
    lh_openai_lookup_refuse(service, error);
    lh_http_reply_add(reply, "Retry-After", "%u", (error->retry_after_ms + 999) / 1000);
    return reply_json(error->status,
                      json_pack("{s:s, s:{s:s, s:s, s:n, s:s}}", "status", names[state], "error",
                                "message", error->message, "type", error->type, "param", "code",
                                error->code),
                      reply, error);
}

static json_t *model_json(const lh_openai_service *service, const lh_openai_dialect *dialect,
                          const char *name, size_t length) {
    return dialect->model_json
               ? dialect->model_json(service->model, name, length)
               : lh_openai_model_json(service->model, lh_openai_served_context(service), name,
                                      length);
}

static bool reply_model(const lh_openai_service *service, const lh_openai_dialect *dialect,
                        const char *rest, lh_http_reply *reply, lh_openai_error *error) {
    char id[512];
    bool decoded = lh_openai_route_decode(rest, id, sizeof id);
    if (!decoded || (strcmp(id, service->model->id) != 0 &&
                     !lh_model_aliases_have(service->model->aliases, id)))
        return lh_openai_refuse(error, 404, NULL, "model_not_found",
                                "The model '%.200s' does not exist here.", decoded ? id : rest);
    if (state_of(service) != LH_ENGINE_READY)
        return lh_openai_lookup_refuse(service, error);
    return reply_json(200, model_json(service, dialect, id, strlen(id)), reply, error);
}

/* The model under each of its names, its own first. */
static json_t *list_models(const lh_openai_service *service, const lh_openai_dialect *dialect) {
    const lh_served_model *model = service->model;
    json_t *list =
        lh_json_append(json_array(), model_json(service, dialect, model->id, strlen(model->id)));
    const char *rest = model->aliases, *name;
    size_t length;
    while ((name = lh_model_aliases_next(&rest, &length)))
        list = lh_json_append(list, model_json(service, dialect, name, length));
    return list;
}

static bool reply_models(const lh_openai_service *service, const lh_openai_dialect *dialect,
                         lh_http_reply *reply, lh_openai_error *error) {
    json_t *list =
        state_of(service) == LH_ENGINE_READY ? list_models(service, dialect) : json_array();
    return reply_json(200,
                      dialect->models_json
                          ? dialect->models_json(list)
                          : json_pack("{s:s, s:o}", "object", "list", "data", list),
                      reply, error);
}

/* body: malloc'd, the reply's from now on; NULL: there was no memory. */
static bool reply_text_of_type(const char *type, char *body, lh_http_reply *reply,
                               lh_openai_error *error) {
    reply->body = body;
    if (!reply->body)
        return lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
    reply->status = 200;
    reply->body_bytes = strlen(reply->body);
    lh_http_reply_add(reply, "Content-Type", "%s", type);
    return true;
}

static bool reply_text(char *body, lh_http_reply *reply, lh_openai_error *error) {
    return reply_text_of_type("application/json", body, reply, error);
}

/* RFC 9110, 15.5.20. */
static bool reply_fleet_port(const lh_openai_service *service, lh_http_reply *reply,
                             lh_openai_error *error) {
    int port = lh_engine_fleet_port(service->engine);
    lh_openai_refuse(error, 421, NULL, "fleet_port",
                     "This is the port of the public API. Workers ask at the fleet port, which is "
                     "%d: --gateway has to name that.",
                     port);
    lh_http_reply_add(reply, "Longhaul-Fleet-Port", "%d", port);
    return reply_json(error->status, lh_openai_error_json(error), reply, error);
}

/* By these words its clients know that they have found it. */
static bool reply_greeting(lh_http_reply *reply, lh_openai_error *error) {
    return reply_text_of_type("text/plain; charset=utf-8", strdup("Ollama is running"), reply,
                              error);
}

static bool reply_ollama(const lh_openai_service *service, lh_openai_action action,
                         lh_http_reply *reply, lh_openai_error *error) {
    json_t *told = service->config.ollama->tell(action, service->model, &service->config.limits,
                                                state_of(service) == LH_ENGINE_READY, NULL, error);
    return told && reply_json(200, told, reply, error);
}

bool lh_openai_lookup(const lh_openai_service *service, const lh_openai_dialect *dialect,
                      const lh_openai_route *route, lh_http_reply *reply, lh_openai_error *error) {
    switch (route->action) {
    case LH_OPENAI_LIST_MODELS:
        return reply_models(service, dialect, reply, error);
    case LH_OPENAI_GET_MODEL:
        return reply_model(service, dialect, route->rest, reply, error);
    case LH_OPENAI_GET_HEALTH:
        return reply_health(service, reply, error);
    case LH_OPENAI_GET_LIFE:
        return reply_json(200, json_pack("{s:s}", "status", "ok"), reply, error);
    case LH_OPENAI_GET_VERSION:
        return reply_json(200, json_pack("{s:s}", "version", LONGHAUL_VERSION), reply, error);
    case LH_OPENAI_GET_OPENAPI:
        return reply_text(strdup(service->openapi), reply, error);
    case LH_OPENAI_GET_FLEET:
        return reply_text(lh_engine_fleet_json(service->engine), reply, error);
    case LH_OPENAI_GET_FLEET_MAP:
        return reply_text(lh_engine_fleet_map_json(service->engine), reply, error);
    case LH_OPENAI_GET_TOKENIZER:
        return reply_json(200, lh_openai_tokenizer_json(service->model), reply, error);
    case LH_OPENAI_OLLAMA_GREET:
        return reply_greeting(reply, error);
    case LH_OPENAI_OLLAMA_GET_VERSION:
    case LH_OPENAI_OLLAMA_LIST_MODELS:
    case LH_OPENAI_OLLAMA_LIST_RUNNING:
    case LH_OPENAI_OLLAMA_FETCH:
    case LH_OPENAI_OLLAMA_CHANGE:
        return reply_ollama(service, route->action, reply, error);
    case LH_OPENAI_TELL_FLEET_PORT:
        return reply_fleet_port(service, reply, error);
    case LH_OPENAI_TELL_METHODS:
        reply->status = 204;
        lh_http_reply_add(reply, "Allow", "%s", route->methods);
        return true;
    case LH_OPENAI_POST_CHAT:
    case LH_OPENAI_POST_COMPLETION:
    case LH_OPENAI_POST_RESPONSE:
    case LH_OPENAI_POST_MESSAGE:
    case LH_OPENAI_POST_EMBEDDINGS:
    case LH_OPENAI_OLLAMA_POST_CHAT:
    case LH_OPENAI_OLLAMA_POST_GENERATE:
    case LH_OPENAI_OLLAMA_POST_EMBED:
    case LH_OPENAI_OLLAMA_POST_EMBEDDINGS:
    case LH_OPENAI_OLLAMA_POST_SHOW:
    case LH_OPENAI_POST_COUNT:
    case LH_OPENAI_POST_RESPONSE_COUNT:
    case LH_OPENAI_POST_TEMPLATE:
    case LH_OPENAI_POST_TOKENIZE:
    case LH_OPENAI_POST_DETOKENIZE:
    case LH_OPENAI_GET_TRACE:
        break;
    }
    assert(false && "is read");
    return false;
}
