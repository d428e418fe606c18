/* A function for each page. */
#include "gateway/operator/pages.h"

#include "common/metrics/process_metrics.h"

#include <stdlib.h>
#include <string.h>

#define PAGES 4u
#define JSON  "application/json"

struct lh_operator_pages {
    lh_operator_pages_options options;
    lh_operator_page pages[PAGES];
    lh_operator_port *port; /* NULL: none */
};

static void render_model(const lh_served_model *model, lh_exposition *e) {
    lh_exposition_family(e, "longhaul_model_info", LH_METRIC_GAUGE,
                         "Always 1: the model that is served.");
    lh_exposition_count(
        e, LH_METRIC_LABELS({"model", model->id}, {"fingerprint", model->fingerprint}), 1);
    lh_exposition_family(e, "longhaul_model_context_positions", LH_METRIC_GAUGE,
                         "Positions that a sequence may have, prompt and answer.");
    lh_exposition_count(e, NULL, model->context);
}

static unsigned render_metrics(void *context, lh_text_buffer *body) {
    const lh_operator_pages *pages = context;
    lh_exposition exposition = {0};
    lh_build_metrics_render(&exposition, "gateway");
    render_model(pages->options.model, &exposition);
    lh_openai_api_render_metrics(pages->options.api, &exposition);
    lh_engine_render_metrics(pages->options.engine, &exposition);
    lh_process_metrics_render(&exposition);
    return lh_exposition_take(&exposition, body, NULL) == LH_OK ? 200 : 500;
}

static unsigned say(unsigned status, const char *text, lh_text_buffer *body) {
    return lh_text_buffer_append(body, text, strlen(text), NULL) == LH_OK ? status : 500;
}

static unsigned render_health(void *context, lh_text_buffer *body) {
    const lh_operator_pages *pages = context;
    switch (lh_engine_current_state(pages->options.engine)) {
    case LH_ENGINE_READY:
        return say(200, "{\"status\":\"ok\"}\n", body);
    case LH_ENGINE_LOADING:
        return say(503, "{\"status\":\"loading\"}\n", body);
    case LH_ENGINE_NO_CHAIN:
        return say(503, "{\"status\":\"no_chain\"}\n", body);
    case LH_ENGINE_DRAINING:
        break;
    }
    return say(503, "{\"status\":\"draining\"}\n", body);
}

static unsigned render_life(void *context, lh_text_buffer *body) {
    (void)context;
    return say(200, "{\"status\":\"ok\"}\n", body);
}

lh_status lh_operator_pages_open(const lh_operator_pages_options *options, lh_operator_pages **out,
                                 lh_error *error) {
    lh_operator_pages *pages = calloc(1, sizeof *pages);
    if (!pages)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the operator's pages");
    pages->options = *options;
    const lh_operator_page all[PAGES] = {
        {"/metrics", LH_METRICS_CONTENT_TYPE, render_metrics, pages},
        {"/health", JSON, render_health, pages},
        {"/readyz", JSON, render_health, pages},
        {"/livez", JSON, render_life, pages}};
    memcpy(pages->pages, all, sizeof all);
    const lh_operator_port_options port = {.listen = options->listen,
                                           .usual = options->usual,
                                           .allowed_hosts = "",
                                           .pages = pages->pages,
                                           .page_count = PAGES};
    lh_status status = lh_operator_port_open(&port, &pages->port, error);
    if (status != LH_OK) {
        free(pages);
        return status;
    }
    *out = pages;
    return LH_OK;
}

void lh_operator_pages_close(lh_operator_pages *pages) {
    if (!pages)
        return;
    lh_operator_port_close(pages->port);
    free(pages);
}

uint16_t lh_operator_pages_port(const lh_operator_pages *pages) {
    return lh_operator_port_number(pages->port);
}
