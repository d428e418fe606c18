/* A timer, a published text, and the port. */
#include "worker/worker_metrics.h"

#include "common/metrics/process_metrics.h"
#include "common/metrics/published_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prometheus asks every few seconds at most. */
#define EVERY_MS 1000
#define PAGES    2u

struct lh_worker_metrics {
    lh_worker_metrics_options options;
    uv_timer_t timer;
    lh_published_text *published;
    lh_operator_page pages[PAGES];
    lh_operator_port *port; /* NULL: none */
};

/* ---- Figures ---- */

static double seconds(double us) {
    return us / 1e6;
}

static void value(lh_exposition *e, const char *name, lh_metric_type type, double figure,
                  const char *help) {
    lh_exposition_family(e, name, type, help);
    lh_exposition_value(e, NULL, figure);
}

static void render_stage(const char *name, const lh_worker_report *r, lh_exposition *e) {
    char layers[24] = "";
    if (r->loaded.present)
        snprintf(layers, sizeof layers, "%u-%u", r->loaded.first_layer, r->loaded.last_layer - 1);
    lh_exposition_family(e, "longhaul_stage_info", LH_METRIC_GAUGE,
                         "Always 1: who this is, and the layers of its stage, both included.");
    lh_exposition_count(
        e,
        LH_METRIC_LABELS({"worker", name}, {"site", r->site}, {"isa", r->isa}, {"layers", layers}),
        1);
    lh_exposition_family(e, "longhaul_stage_state", LH_METRIC_GAUGE,
                         "1 for the state that the stage is in.");
    for (lh_worker_stage_state state = LH_WORKER_IDLE; state <= LH_WORKER_FAILED; state++)
        lh_exposition_count(e, LH_METRIC_LABELS({"state", lh_worker_stage_state_name(state)}),
                            r->assignment.state == state);
    value(e, "longhaul_stage_weights_bytes", LH_METRIC_GAUGE, (double)r->assignment.total_bytes,
          "Bytes of the stage's weights, where it is being fetched; else 0.");
    value(e, "longhaul_stage_weights_fetched_bytes", LH_METRIC_GAUGE,
          (double)r->assignment.done_bytes, "Of those, the ones that are here.");
}

static void render_steps(const lh_server_status *s, lh_exposition *e) {
    const struct {
        const char *outcome;
        uint64_t count;
    } outcomes[] = {
        {"done", s->steps_done}, {"failed", s->steps_failed}, {"cancelled", s->steps_cancelled}};
    lh_exposition_family(e, "longhaul_stage_steps_total", LH_METRIC_COUNTER,
                         "Steps that have ended here, by how; failed has the refused ones, too.");
    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++)
        lh_exposition_count(e, LH_METRIC_LABELS({"outcome", outcomes[i].outcome}),
                            outcomes[i].count);
    value(e, "longhaul_stage_active_steps", LH_METRIC_GAUGE, (double)s->steps_active,
          "Steps that are here now.");
    value(e, "longhaul_stage_rows_total", LH_METRIC_COUNTER, (double)s->totals.rows,
          "Rows of the steps that were computed.");
    value(e, "longhaul_stage_compute_seconds_total", LH_METRIC_COUNTER,
          seconds((double)s->totals.compute_us), "For how long the compute thread worked on them.");
    value(e, "longhaul_stage_wait_seconds_total", LH_METRIC_COUNTER,
          seconds((double)s->totals.wait_us),
          "For how long they were here without being worked on: for shards, or behind others.");
}

static void render_kv(const lh_worker_report *r, lh_exposition *e) {
    value(e, "longhaul_stage_kv_pages", LH_METRIC_GAUGE, (double)r->kv.pages_total,
          "Pages of the stage's KV cache.");
    value(e, "longhaul_stage_kv_free_pages", LH_METRIC_GAUGE, (double)r->kv.pages_free,
          "Of those, the free ones.");
    value(e, "longhaul_stage_kv_page_bytes", LH_METRIC_GAUGE, (double)r->kv.page_bytes,
          "Bytes of a page.");
    value(e, "longhaul_stage_kv_sequences", LH_METRIC_GAUGE, r->kv.sequences,
          "Sequences and cached prefixes that have pages.");
}

static void render_hop(const lh_hop_profile *hop, lh_exposition *e) {
    value(e, "longhaul_next_hop_up", LH_METRIC_GAUGE, hop->connected,
          "1: the next hop is connected.");
    value(e, "longhaul_next_hop_round_trip_seconds", LH_METRIC_GAUGE,
          seconds((double)hop->round_trip_us), "Least round trip of late; 0: not known.");
    value(e, "longhaul_next_hop_rate_bytes_per_second", LH_METRIC_GAUGE, hop->bytes_per_us * 1e6,
          "What the hop carries when it is full; 0: not known.");
    value(e, "longhaul_next_hop_sent_bytes_total", LH_METRIC_COUNTER, (double)hop->bytes_sent,
          "Bytes sent since the connection opened, probes included.");
    value(e, "longhaul_next_hop_probe_sent_bytes_total", LH_METRIC_COUNTER,
          (double)hop->probe_bytes_sent, "Of those, the probes.");
}

static void render_gathers(const lh_mesh_totals *gathers, lh_exposition *e) {
    value(e, "longhaul_gathers_total", LH_METRIC_COUNTER, (double)gathers->gathers,
          "Gathers with the workers that compute the stage with this one, of the team that there "
          "is.");
    value(e, "longhaul_gathers_sent_bytes_total", LH_METRIC_COUNTER, (double)gathers->sent_bytes,
          "Bytes sent to them.");
    value(e, "longhaul_gathers_taken_bytes_total", LH_METRIC_COUNTER, (double)gathers->taken_bytes,
          "Bytes taken from them.");
    value(e, "longhaul_gathers_taking_seconds_total", LH_METRIC_COUNTER,
          seconds((double)gathers->taking_us), "For how long the compute thread took them.");
    value(e, "longhaul_gathers_under_way_seconds_total", LH_METRIC_COUNTER,
          seconds((double)gathers->under_way_us),
          "For how long large ones, those of prompts, were on their way.");
    value(e, "longhaul_gathers_awaited_seconds_total", LH_METRIC_COUNTER,
          seconds((double)gathers->waiting_us),
          "Of that, for how long the compute thread waited: the rest is hidden.");
}

void lh_worker_metrics_render(const char *name, const lh_worker_figures *figures,
                              lh_exposition *exposition) {
    render_stage(name, &figures->report, exposition);
    render_steps(&figures->server, exposition);
    render_kv(&figures->report, exposition);
    render_hop(&figures->server.next, exposition);
    render_gathers(&figures->gathers, exposition);
}

/* ---- The loop ---- */

static void on_timer(uv_timer_t *timer) {
    lh_worker_metrics *metrics = timer->data;
    lh_worker_figures figures = {0};
    lh_exposition exposition = {0};
    lh_text_buffer text;
    metrics->options.read(metrics->options.context, &figures);
    lh_worker_metrics_render(metrics->options.name, &figures, &exposition);
    if (lh_exposition_take(&exposition, &text, NULL) == LH_OK)
        lh_published_text_put(metrics->published, &text);
}

/* ---- Pages: the port's thread ---- */

static unsigned render_metrics(void *context, lh_text_buffer *body) {
    const lh_worker_metrics *metrics = context;
    lh_exposition exposition = {0};
    lh_build_metrics_render(&exposition, "worker");
    lh_published_text_append_to(metrics->published, &exposition);
    lh_process_metrics_render(&exposition);
    return lh_exposition_take(&exposition, body, NULL) == LH_OK ? 200 : 500;
}

static unsigned render_life(void *context, lh_text_buffer *body) {
    static const char text[] = "{\"status\":\"ok\"}\n";
    (void)context;
    return lh_text_buffer_append(body, text, sizeof text - 1, NULL) == LH_OK ? 200 : 500;
}

/* ---- Life ---- */

static lh_status open_port(lh_worker_metrics *metrics, lh_error *error) {
    const lh_operator_page pages[PAGES] = {
        {"/metrics", LH_METRICS_CONTENT_TYPE, render_metrics, metrics},
        {"/livez", "application/json", render_life, metrics}};
    memcpy(metrics->pages, pages, sizeof pages);
    const lh_operator_port_options options = {.listen = metrics->options.listen,
                                              .usual = LH_WORKER_METRICS_LISTEN,
                                              .allowed_hosts = "",
                                              .pages = metrics->pages,
                                              .page_count = PAGES};
    return lh_operator_port_open(&options, &metrics->port, error);
}

lh_status lh_worker_metrics_open(const lh_worker_metrics_options *options, lh_worker_metrics **out,
                                 lh_error *error) {
    lh_worker_metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the worker's metrics");
    metrics->options = *options;
    lh_status status = lh_published_text_create(&metrics->published, error);
    if (status != LH_OK)
        goto fail_after_metrics;
    status = open_port(metrics, error);
    if (status != LH_OK)
        goto fail_after_published;
    uv_timer_init(options->loop, &metrics->timer);
    metrics->timer.data = metrics;
    if (metrics->port)
        uv_timer_start(&metrics->timer, on_timer, 0, EVERY_MS);
    *out = metrics;
    return LH_OK;
fail_after_published:
    lh_published_text_destroy(metrics->published);
fail_after_metrics:
    free(metrics);
    return status;
}

static void on_closed(uv_handle_t *handle) {
    free(handle->data);
}

void lh_worker_metrics_close(lh_worker_metrics *metrics) {
    if (!metrics)
        return;
    lh_operator_port_close(metrics->port);
    lh_published_text_destroy(metrics->published);
    uv_close((uv_handle_t *)&metrics->timer, on_closed);
}

uint16_t lh_worker_metrics_port(const lh_worker_metrics *metrics) {
    return lh_operator_port_number(metrics->port);
}
