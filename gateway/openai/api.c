/* The service and its HTTP server. */
#include "gateway/openai/api.h"

#include "common/base/clock.h"
#include "common/json/json_text.h"
#include "gateway/constrain/constraint_vocabulary.h"
#include "gateway/openai/call.h"
#include "gateway/openai/openapi.h"
#include "gateway/openai/prompt.h"

#include <stdlib.h>
#include <time.h>

struct lh_openai_api {
    lh_openai_service service;
    lh_openai_door doors[2]; /* the second one is like Ollama's */
    lh_http_server *servers[2];
    lh_request_metrics metrics;
    lh_constraint_vocabulary *vocabulary;
};

lh_openai_api_config lh_openai_api_config_default(void) {
    return (lh_openai_api_config){
        .http = lh_http_config_default(),
        .limits = {.choices_max = 16, .prompts_max = 128, .sequences_max = UINT32_MAX},
        .keep_alive_ms = 15000,
        .readers = 2,
        .unread_bytes_max = 64u << 20,
        .unread_max = 1024,
        .request_timeout_us = 600000000};
}

static lh_status open_readers(lh_openai_service *service, lh_error *error) {
    const lh_reader_pool_options options = {.threads = service->config.readers,
                                            .bytes_max = service->config.unread_bytes_max,
                                            .waiting_max = service->config.unread_max};
    return lh_reader_pool_create(&options, &service->readers, error);
}

static lh_status describe(lh_openai_service *service, lh_error *error) {
    lh_text_buffer text = {0};
    if (lh_json_render(lh_openai_openapi_json(service), &text) ||
        lh_text_buffer_append(&text, "", 1, NULL)) { /* its end, by which it is copied */
        lh_text_buffer_reset(&text);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the API's description");
    }
    service->openapi = text.bytes;
    return LH_OK;
}

static lh_status open_door(lh_openai_api *api, bool is_ollama, const char *listen,
                           lh_error *error) {
    lh_http_config http = api->service.config.http;
    http.listen = listen;
    api->doors[is_ollama] = (lh_openai_door){&api->service, is_ollama};
    const lh_http_handler handler = lh_openai_call_handler(&api->doors[is_ollama]);
    return lh_http_server_create(&http, &handler, &api->servers[is_ollama], error);
}

lh_status lh_openai_api_open(const lh_openai_api_config *config, lh_engine *engine,
                             const lh_served_model *model, lh_openai_api **out, lh_error *error) {
    lh_openai_api *api = calloc(1, sizeof *api);
    if (!api)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the API");
    lh_openai_service *service = &api->service;
    service->config = *config;
    service->config.limits.model = model->id;
    service->config.limits.aliases = model->aliases;
    service->config.limits.vocabulary = model->vocabulary;
    service->config.limits.width = model->width;
    service->config.limits.pooling = model->pooling;
    service->config.limits.is_traced = config->traces;
    service->config.limits.sampling = &model->sampling;
    service->engine = engine;
    lh_request_metrics_init(&api->metrics);
    service->metrics = &api->metrics;
    service->model = model;
    service->longest_token_bytes = lh_openai_prompt_longest_token(model);
    lh_status status = lh_constraint_vocabulary_create(model->tokenizer, &api->vocabulary, error);
    if (!status)
        status = lh_constraint_cache_create(api->vocabulary, &service->constraints, error);
    if (!status)
        status = open_readers(service, error);
    if (!status)
        status = describe(service, error);
    if (!status)
        status = open_door(api, false, config->http.listen, error);
    if (!status && config->ollama_listen && config->ollama_listen[0])
        status = open_door(api, true, config->ollama_listen, error);
    if (status) {
        lh_openai_api_close(api);
        return status;
    }
    *out = api;
    return LH_OK;
}

uint16_t lh_openai_api_port(const lh_openai_api *api) {
    return lh_http_server_port(api->servers[false]);
}

uint16_t lh_openai_api_ollama_port(const lh_openai_api *api) {
    return api->servers[true] ? lh_http_server_port(api->servers[true]) : 0;
}

void lh_openai_api_render_metrics(const lh_openai_api *api, lh_exposition *exposition) {
    lh_request_metrics_render(&api->metrics, exposition);
}

static uint32_t active(const lh_openai_api *api) {
    return lh_http_server_active(api->servers[false]) +
           (api->servers[true] ? lh_http_server_active(api->servers[true]) : 0);
}

void lh_openai_api_drain(lh_openai_api *api, uint32_t timeout_ms) {
    const struct timespec pause = {.tv_nsec = 10000000};
    int64_t deadline_us = lh_clock_us() + (int64_t)timeout_ms * 1000;
    atomic_store(&api->service.draining, true);
    while (active(api) > 0 && lh_clock_us() < deadline_us)
        nanosleep(&pause, NULL);
}

void lh_openai_api_close(lh_openai_api *api) {
    if (!api)
        return;
    lh_http_server_destroy(api->servers[true]);
    lh_http_server_destroy(api->servers[false]);
    lh_reader_pool_destroy(api->service.readers);
    lh_constraint_cache_destroy(api->service.constraints);
    free(api->service.openapi);
    lh_constraint_vocabulary_release(api->vocabulary);
    free(api);
}
