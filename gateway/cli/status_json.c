/* Chains, links and workers as lists. */
#include "gateway/cli/status_json.h"

#include "common/json/json_text.h"
#include "gateway/cli/bottleneck.h"

#include <string.h>

static json_t *text_or_null(const char *text) {
    return text[0] ? lh_json_text(text, strlen(text)) : json_null();
}

static json_t *number_or_null(double value) {
    return value > 0 ? json_real(value) : json_null();
}

static json_t *render_bottleneck(const lh_document_chain *chain) {
    const lh_bottleneck b = lh_bottleneck_find(chain);
    char text[LH_BOTTLENECK_TEXT_BYTES];
    if (b.kind == LH_BOTTLENECK_UNKNOWN)
        return json_null();
    lh_bottleneck_tell_prompts(chain, &b, text);
    if (b.kind == LH_BOTTLENECK_STAGE)
        return json_pack("{s:s, s:s, s:f, s:s}", "kind", "stage", "worker",
                         chain->stages[b.index].worker, "busy_ms", b.busy_ms, "text", text);
    return json_pack("{s:s, s:s, s:s, s:f, s:s}", "kind", "link", "from",
                     chain->links[b.index].from, "to", chain->links[b.index].to, "busy_ms",
                     b.busy_ms, "text", text);
}

static json_t *render_stage(const lh_document_stage *stage) {
    json_t *members = json_array();
    for (uint32_t i = 0; i < stage->member_count; i++)
        members = lh_json_append(members, json_string(stage->members[i]));
    return json_pack("{s:s, s:o, s:s, s:i, s:i, s:s, s:o, s:I, s:I}", "worker", stage->worker,
                     "members", members, "site", stage->site, "first_layer",
                     (int)stage->first_layer, "last_layer", (int)stage->last_layer, "state",
                     stage->state, "rows_64_ms", number_or_null(lh_bottleneck_stage_ms(stage)),
                     "pages_used", (json_int_t)stage->pages_used, "pages_total",
                     (json_int_t)stage->pages_total);
}

static json_t *render_link(const lh_document_link *link) {
    return json_pack("{s:s, s:s, s:b, s:o, s:o, s:o, s:b, s:o, s:f, s:o}", "from", link->from, "to",
                     link->to, "connected", (int)link->is_connected, "error",
                     text_or_null(link->error), "wire", text_or_null(link->wire), "mbit_per_s",
                     number_or_null(link->bytes_per_us * 8), "is_bound", (int)link->rate_is_bound,
                     "round_trip_ms", number_or_null((double)link->round_trip_us / 1000), "age_s",
                     (double)link->age_us / 1e6, "rows_64_ms",
                     number_or_null(lh_bottleneck_link_ms(link)));
}

static json_t *render_chain(const lh_document_chain *chain) {
    json_t *stages = json_array(), *links = json_array();
    for (size_t i = 0; i < chain->stage_count; i++)
        stages = lh_json_append(stages, render_stage(&chain->stages[i]));
    for (size_t i = 0; i < chain->link_count; i++)
        links = lh_json_append(links, render_link(&chain->links[i]));
    return json_pack("{s:s, s:I, s:s, s:o, s:I, s:I, s:o, s:o, s:o, s:o}", "name", chain->name,
                     "epoch", (json_int_t)chain->epoch, "state", chain->state, "reason",
                     text_or_null(chain->reason), "running", (json_int_t)chain->running, "waiting",
                     (json_int_t)chain->waiting, "stages", stages, "links", links, "token_ms",
                     number_or_null(chain->token_ms), "holds_back", render_bottleneck(chain));
}

static json_t *render_way(const lh_document_way *way) {
    return json_pack("{s:s, s:s, s:o, s:b, s:o, s:f, s:s}", "from", way->from, "to", way->to,
                     "mbit_per_s", number_or_null(way->bytes_per_us * 8), "is_bound",
                     (int)way->rate_is_bound, "round_trip_ms",
                     number_or_null((double)way->round_trip_us / 1000), "age_s",
                     (double)way->age_us / 1e6, "source", way->source);
}

static json_t *render_worker(const lh_document_worker *worker) {
    return json_pack("{s:s, s:s, s:s, s:o, s:s, s:i, s:b}", "name", worker->name, "site",
                     worker->site, "role", worker->role, "reason", text_or_null(worker->reason),
                     "isa", worker->isa, "threads", (int)worker->threads, "suspended",
                     (int)worker->is_suspended);
}

lh_status lh_status_json_render(const lh_fleet_document *d, double tokens_per_s,
                                lh_text_buffer *out) {
    json_t *workers = json_array(), *chains = json_array(), *matrix = json_array();
    for (size_t i = 0; i < d->worker_count; i++)
        workers = lh_json_append(workers, render_worker(&d->workers[i]));
    for (size_t i = 0; i < d->chain_count; i++)
        chains = lh_json_append(chains, render_chain(&d->chains[i]));
    for (size_t i = 0; i < d->way_count; i++)
        matrix = lh_json_append(matrix, render_way(&d->matrix[i]));
    lh_status status = lh_json_render(
        json_pack("{s:s, s:o, s:s, s:I, s:I, s:I, s:o, s:I, s:o, s:o, s:o}", "state", d->state,
                  "reason", text_or_null(d->reason), "model", d->model, "running",
                  (json_int_t)d->running, "waiting", (json_int_t)d->waiting, "tokens",
                  (json_int_t)d->tokens, "tokens_per_s",
                  tokens_per_s >= 0 ? json_real(tokens_per_s) : json_null(), "failed",
                  (json_int_t)d->failed, "workers", workers, "chains", chains, "matrix", matrix),
        out);
    return status == LH_OK ? lh_text_buffer_append(out, "\n", 1, NULL) : status;
}
