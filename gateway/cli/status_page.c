/* Row by row, in columns. */
#include "gateway/cli/status_page.h"

#include "common/base/text_page.h"
#include "gateway/cli/bottleneck.h"
#include "gateway/fleet/move_decision.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WIDTH_MIN 60u
/* Columns of a chain's table, behind those of site and worker. */
#define LAYERS_COLUMNS  9u
#define STATE_COLUMNS   10u
#define MACHINE_COLUMNS 12u
#define ROWS_COLUMNS    11u
#define KV_COLUMNS      5u
#define MARK_COLUMNS    2u
#define NAMES_MAX       (WIDTH_MIN - 34u)
/* Links that are listed. */
#define WAYS_MAX 12u

#define BOLD   "\033[1m"
#define DIM    "\033[2m"
#define GREEN  "\033[32m"
#define YELLOW "\033[33m"
#define RED    "\033[31m"
#define PLAIN  "\033[0m"

typedef struct name_columns {
    unsigned site, name; /* with the space behind */
} name_columns;

static unsigned longer(unsigned columns, const char *text, unsigned most) {
    unsigned length = (unsigned)strlen(text) + 1;
    length = length < most ? length : most;
    return length > columns ? length : columns;
}

/* As wide as the names need, as far as there is room. */
static name_columns measure(const lh_fleet_document *document, unsigned width) {
    unsigned rest =
        MARK_COLUMNS + LAYERS_COLUMNS + STATE_COLUMNS + MACHINE_COLUMNS + ROWS_COLUMNS + KV_COLUMNS;
    unsigned room = width > rest + NAMES_MAX ? width - rest : NAMES_MAX;
    /* a link's row begins with an arrow, and may lead to the gateway */
    name_columns c = {.site = 5, .name = sizeof "> gateway"};
    for (size_t i = 0; i < document->worker_count; i++) {
        c.site = longer(c.site, document->workers[i].site, room * 2 / 5);
        c.name = longer(c.name - 2, document->workers[i].name, room - room * 2 / 5 - 2) + 2;
    }
    return c;
}

static const lh_document_worker *find_worker(const lh_fleet_document *document, const char *name) {
    for (size_t i = 0; i < document->worker_count; i++)
        if (strcmp(document->workers[i].name, name) == 0)
            return &document->workers[i];
    return NULL;
}

static const char *colour_of_state(const char *state) {
    return strcmp(state, "ready") == 0 ? GREEN
           : strcmp(state, "failed") == 0 || strcmp(state, "gone") == 0 ||
                   strcmp(state, "no_chain") == 0
               ? RED
               : YELLOW;
}

static void put_coloured(lh_text_page *p, const char *colour, unsigned columns, const char *text) {
    lh_text_page_colour(p, colour);
    lh_text_page_put_cell(p, columns, text);
    lh_text_page_colour(p, PLAIN);
}

/* ---- The head ---- */

static size_t count_sites(const lh_fleet_document *document) {
    size_t count = 0;
    for (size_t i = 0; i < document->worker_count; i++) {
        size_t before = 0;
        while (strcmp(document->workers[before].site, document->workers[i].site) != 0)
            before++;
        count += before == i;
    }
    return count;
}

static void put_head(lh_text_page *p, const lh_fleet_document *d, double tokens_per_s) {
    size_t sites = count_sites(d);
    lh_text_page_colour(p, BOLD);
    lh_text_page_put(p, "%.200s", d->model);
    lh_text_page_colour(p, PLAIN);
    lh_text_page_put(p, ": ");
    put_coloured(p, colour_of_state(d->state), (unsigned)strlen(d->state), d->state);
    lh_text_page_put(p, ", %zu worker%s at %zu site%s", d->worker_count,
                     d->worker_count == 1 ? "" : "s", sites, sites == 1 ? "" : "s");
    lh_text_page_break(p);
    lh_text_page_put(p, "%" PRId64 " stream%s, %" PRId64 " waiting", d->running,
                     d->running == 1 ? "" : "s", d->waiting);
    if (d->stalled > 0)
        lh_text_page_put(p, ", %" PRId64 " stalled for KV pages", d->stalled);
    if (tokens_per_s >= 0)
        lh_text_page_put(p, ", %.1f tokens/s", tokens_per_s);
    lh_text_page_put(p, "; so far %" PRId64 " tokens, %" PRId64 " failed", d->tokens, d->failed);
    lh_text_page_break(p);
    if (d->reason[0]) {
        lh_text_page_put_words(p, 0, d->reason);
        lh_text_page_break(p);
    }
}

/* ---- A chain ---- */

static void put_chain_head(lh_text_page *p, const char *said, const lh_document_chain *chain,
                           const name_columns *c) {
    lh_text_page_break(p);
    lh_text_page_put(p, "chain %s, epoch %" PRId64 ": ", chain->name, chain->epoch);
    put_coloured(p, colour_of_state(chain->state), (unsigned)strlen(chain->state), chain->state);
    lh_text_page_put(p, ", %" PRId64 " running, %" PRId64 " waiting", chain->running,
                     chain->waiting);
    lh_text_page_break(p);
    if (chain->reason[0] && strcmp(chain->reason, said) != 0) {
        lh_text_page_put_words(p, 0, chain->reason);
        lh_text_page_break(p);
    }
    lh_text_page_colour(p, DIM);
    lh_text_page_move(p, MARK_COLUMNS);
    lh_text_page_put_cell(p, c->site, "site");
    lh_text_page_put_cell(p, c->name, "worker");
    lh_text_page_put_cell(p, LAYERS_COLUMNS, "layers");
    lh_text_page_put_cell(p, STATE_COLUMNS, "state");
    lh_text_page_put_cell(p, MACHINE_COLUMNS, "machine");
    lh_text_page_put_cell(p, ROWS_COLUMNS, "64 rows");
    lh_text_page_put(p, "KV");
    lh_text_page_colour(p, PLAIN);
    lh_text_page_break(p);
}

static void put_mark(lh_text_page *p, bool is_busiest) {
    if (is_busiest)
        put_coloured(p, YELLOW, MARK_COLUMNS, "*");
    else
        lh_text_page_move(p, MARK_COLUMNS);
}

/* How far it is, where it is not there yet. */
static void describe_state(const lh_document_stage *stage, const lh_document_worker *worker,
                           char text[16]) {
    bool is_coming =
        worker && worker->total_bytes > worker->done_bytes &&
        (strcmp(stage->state, "fetching") == 0 || strcmp(stage->state, "loading") == 0);
    snprintf(text, 16, "%.9s", stage->state);
    if (is_coming)
        snprintf(text, 16, "%.4s %.0f %%", stage->state,
                 100 * (double)worker->done_bytes / (double)worker->total_bytes);
}

/* "avx2 x4"; "": the worker is not there. */
static void describe_machine(const lh_document_worker *worker, char text[64]) {
    text[0] = '\0';
    if (worker)
        snprintf(text, 64, "%.7s x%u", worker->isa, worker->threads);
}

/* Who computes the stage together with its worker: below it. */
static void put_member(lh_text_page *p, const lh_fleet_document *document, const char *name,
                       const name_columns *c) {
    char member[LH_NAME_BYTES + 2], text[64];
    const lh_document_worker *worker = find_worker(document, name);
    put_mark(p, false);
    lh_text_page_put_cell(p, c->site - 1, "");
    snprintf(member, sizeof member, "+ %s", name);
    lh_text_page_put(p, " ");
    if (worker) {
        describe_machine(worker, text);
        lh_text_page_put_cell(p, c->name + LAYERS_COLUMNS + STATE_COLUMNS, member);
        lh_text_page_put(p, "%s", text);
    } else {
        lh_text_page_put(p, "%s", member);
    }
    lh_text_page_break(p);
}

static void put_stage(lh_text_page *p, const lh_fleet_document *document,
                      const lh_document_stage *stage, const name_columns *c, bool is_busiest) {
    const lh_document_worker *worker = find_worker(document, stage->worker);
    char text[64];
    put_mark(p, is_busiest);
    lh_text_page_put_cell(p, c->site - 1, stage->site);
    lh_text_page_put(p, " ");
    lh_text_page_put_cell(p, c->name - 1, stage->worker);
    lh_text_page_put(p, " ");
    snprintf(text, sizeof text, "%u-%u", stage->first_layer,
             stage->last_layer ? stage->last_layer - 1 : 0);
    lh_text_page_put_cell(p, LAYERS_COLUMNS, text);
    describe_state(stage, worker, text);
    put_coloured(p, colour_of_state(stage->state), STATE_COLUMNS, text);
    describe_machine(worker, text);
    lh_text_page_put_cell(p, MACHINE_COLUMNS, text);
    snprintf(text, sizeof text, "%.1f ms", stage->rows_64_ms);
    lh_text_page_put_cell(p, ROWS_COLUMNS, stage->rows_64_ms > 0 ? text : "-");
    if (stage->pages_total > 0)
        lh_text_page_put(p, "%.0f %%",
                         100 * (double)stage->pages_used / (double)stage->pages_total);
    lh_text_page_break(p);
    for (uint32_t i = 0; i < stage->member_count; i++)
        put_member(p, document, stage->members[i], c);
}

/* "now", "12 s ago", "3 min ago", "2 h ago". */
static void tell_age(int64_t age_us, char text[32]) {
    double s = (double)age_us / 1e6;
    if (s < 1)
        snprintf(text, 32, "now");
    else if (s < 120)
        snprintf(text, 32, "%.0f s ago", s);
    else if (s < 7200)
        snprintf(text, 32, "%.0f min ago", s / 60);
    else
        snprintf(text, 32, "%.0f h ago", s / 3600);
}

static void put_rate(lh_text_page *p, const lh_document_way *way, const char *what) {
    char age[32];
    double mbit_per_s = way->bytes_per_us * 8;
    const char *least = way->rate_is_bound ? "over " : "";
    if (mbit_per_s >= 1000)
        lh_text_page_put(p, "%s%.1f Gbit/s,", least, mbit_per_s / 1000);
    else if (mbit_per_s > 0)
        lh_text_page_put(p, "%s%.1f Mbit/s,", least, mbit_per_s);
    else
        lh_text_page_put(p, "rate not known yet,");
    if (way->round_trip_us > 0)
        lh_text_page_put(p, " %.1f ms,", (double)way->round_trip_us / 1000);
    lh_text_page_put(p, " %s", what);
    tell_age(way->age_us, age);
    if (way->bytes_per_us > 0)
        lh_text_page_put(p, ", %s", age);
}

/* via: the relay on its way; "": none. */
static void put_link(lh_text_page *p, const lh_document_link *link, const char *via,
                     const name_columns *c, bool is_busiest) {
    unsigned indent = MARK_COLUMNS + c->site + c->name;
    put_mark(p, is_busiest);
    lh_text_page_move(p, MARK_COLUMNS + c->site);
    lh_text_page_put(p, "> ");
    lh_text_page_put_cell(p, c->name - 3, link->to);
    lh_text_page_put(p, " ");
    if (link->is_connected) {
        put_rate(p,
                 &(lh_document_way){.rate_is_bound = link->rate_is_bound,
                                    .bytes_per_us = link->bytes_per_us,
                                    .round_trip_us = link->round_trip_us,
                                    .age_us = link->age_us},
                 link->wire[0] ? link->wire : "tokens");
    } else {
        lh_text_page_colour(p, RED);
        lh_text_page_put_words(p, indent, link->error[0] ? link->error : "not connected");
        lh_text_page_colour(p, PLAIN);
    }
    if (via[0]) {
        char text[LH_NAME_BYTES + 16];
        snprintf(text, sizeof text, "through relay %s", via);
        lh_text_page_put(p, ",");
        lh_text_page_put_words(p, indent, text);
    }
    lh_text_page_break(p);
}

static void put_paragraph(lh_text_page *p, const char *text) {
    if (!text[0])
        return;
    lh_text_page_put_words(p, 0, text);
    lh_text_page_break(p);
}

static void put_bottleneck(lh_text_page *p, const lh_document_chain *chain,
                           const lh_bottleneck *bottleneck) {
    char text[LH_BOTTLENECK_TEXT_BYTES];
    if (bottleneck->kind == LH_BOTTLENECK_UNKNOWN) {
        snprintf(text, sizeof text, "What holds it back is not known yet%s%.300s.",
                 chain->lacks[0] ? ": " : "", chain->lacks);
        put_paragraph(p, text);
        return;
    }
    lh_bottleneck_tell_prompts(chain, bottleneck, text);
    put_paragraph(p, text);
    lh_bottleneck_tell_stream(chain, bottleneck, text);
    put_paragraph(p, text);
}

/* Those whose machines are not what they were. */
static void put_slowed(lh_text_page *p, const lh_document_chain *chain) {
    char text[LH_DOCUMENT_TEXT_BYTES];
    for (size_t i = 0; i < chain->stage_count; i++) {
        const lh_document_stage *stage = &chain->stages[i];
        if (stage->calibrated_times < LH_DOCUMENT_SLOWED_TIMES)
            continue;
        snprintf(text, sizeof text,
                 "%s takes %.1f times as long as when its stage was loaded: something else uses "
                 "the machine, or slows it down (longhaul-gateway doctor says what to do).",
                 stage->worker, stage->calibrated_times);
        put_paragraph(p, text);
    }
}

/* What the loss of a worker costs, once every one has been looked at. */
static void put_losses(lh_text_page *p, const lh_document_chain *chain) {
    char text[LH_DOCUMENT_TEXT_BYTES];
    if (chain->losses == 0 || chain->losses < (int64_t)chain->stage_count)
        return;
    if (!chain->worst_loss.worker[0])
        snprintf(text, sizeof text,
                 "Whichever worker is lost, the others have its layers on their disks.");
    else if (!chain->worst_loss.is_possible)
        snprintf(text, sizeof text, "Without %s the others have no room for the model.",
                 chain->worst_loss.worker);
    else
        snprintf(text, sizeof text,
                 "Without %s another worker would still have to fetch %lld layers.",
                 chain->worst_loss.worker, (long long)chain->worst_loss.layers_to_fetch);
    put_paragraph(p, text);
}

/* Nothing where the chain is as good as the best that is known. */
static void put_better(lh_text_page *p, const lh_document_chain *chain) {
    char text[2 * LH_DOCUMENT_TEXT_BYTES];
    double present = chain->better.present, best = chain->better.best;
    bool is_rate = strcmp(chain->better.objective, "throughput") == 0;
    if (!chain->better.objective[0] || best <= 0 ||
        (present > 0 &&
         (is_rate ? best <= LH_MOVE_BETTER_MIN * present : best * LH_MOVE_BETTER_MIN >= present)))
        return;
    int used =
        snprintf(text, sizeof text, "For %s a better chain is known: ", chain->better.objective);
    if (present > 0)
        used += snprintf(text + used, sizeof text - (size_t)used, "%.1f %s instead of %.1f, ", best,
                         chain->better.unit, present);
    else
        used += snprintf(text + used, sizeof text - (size_t)used, "%.1f %s, ", best,
                         chain->better.unit);
    snprintf(text + used, sizeof text - (size_t)used,
             "with %s. It moves there when that is worth "
             "the pause.",
             chain->better.stages);
    put_paragraph(p, text);
}

/* In the order of the ring: each link stands behind the stage that sends on it. */
static void put_chain(lh_text_page *p, const lh_fleet_document *document,
                      const lh_document_chain *chain, const name_columns *c) {
    const lh_bottleneck b = lh_bottleneck_find(chain);
    put_chain_head(p, document->reason, chain, c);
    for (size_t i = 0; i < chain->link_count || i < chain->stage_count; i++) {
        if (i > 0 && i <= chain->stage_count)
            put_stage(p, document, &chain->stages[i - 1], c,
                      b.kind == LH_BOTTLENECK_STAGE && b.index == i - 1);
        if (i < chain->link_count)
            put_link(p, &chain->links[i], i < chain->stage_count ? chain->stages[i].via : "", c,
                     b.kind == LH_BOTTLENECK_LINK && b.index == i);
    }
    if (chain->link_count <= chain->stage_count && chain->stage_count > 0)
        put_stage(p, document, &chain->stages[chain->stage_count - 1], c, false);
    if (chain->next_cause[0]) {
        lh_text_page_put(p, "Another chain is being prepared:");
        lh_text_page_put_words(p, 0, chain->next_cause);
        lh_text_page_break(p);
    }
    put_bottleneck(p, chain, &b);
    put_slowed(p, chain);
    put_losses(p, chain);
    put_better(p, chain);
}

/* ---- Those without a stage, and one that has one for want of another ---- */

static void put_others(lh_text_page *p, const lh_fleet_document *document, const name_columns *c) {
    bool is_first = true;
    for (size_t i = 0; i < document->worker_count; i++) {
        const lh_document_worker *worker = &document->workers[i];
        if (strcmp(worker->role, "stage") == 0 && !worker->is_suspended)
            continue;
        if (is_first)
            lh_text_page_break(p);
        is_first = false;
        lh_text_page_move(p, MARK_COLUMNS);
        lh_text_page_put_cell(p, c->site - 1, worker->site);
        lh_text_page_put(p, " ");
        lh_text_page_put_cell(p, c->name - 1, worker->name);
        lh_text_page_put(p, " ");
        put_coloured(p, YELLOW, LAYERS_COLUMNS, worker->role);
        unsigned indent = MARK_COLUMNS + c->site + c->name + LAYERS_COLUMNS;
        if (worker->is_needed)
            lh_text_page_put_words(
                p, indent,
                worker->gave_wrong_answer
                    ? "its chain gave a wrong answer, and nothing serves "
                      "without it:"
                    : "its results were refused, and nothing serves without it:");
        lh_text_page_put_words(p, indent, worker->is_needed ? worker->misconduct : worker->reason);
        lh_text_page_break(p);
    }
}

/* ---- Between sites ---- */

static bool is_between_sites(const lh_document_way *way) {
    return strcmp(way->from, way->to) != 0;
}

/* All of them up to four sites; then the rest is for whoever reads GET /fleet. */
static void put_matrix(lh_text_page *p, const lh_fleet_document *document) {
    size_t count = 0;
    unsigned name = 0;
    for (size_t i = 0; i < document->way_count; i++) {
        name = longer(name, document->matrix[i].from, NAMES_MAX / 2);
        name = longer(name, document->matrix[i].to, NAMES_MAX / 2);
    }
    for (size_t i = 0; i < document->way_count; i++) {
        const lh_document_way *way = &document->matrix[i];
        if (!is_between_sites(way) || count++ >= WAYS_MAX)
            continue;
        if (count == 1) {
            lh_text_page_break(p);
            lh_text_page_put(p, "links between sites");
            lh_text_page_break(p);
        }
        lh_text_page_move(p, MARK_COLUMNS);
        lh_text_page_put_cell(p, name - 1, way->from);
        lh_text_page_put(p, " > ");
        lh_text_page_put_cell(p, name - 1, way->to);
        lh_text_page_put(p, " ");
        put_rate(p, way, way->source);
        lh_text_page_break(p);
    }
    if (count > WAYS_MAX) {
        lh_text_page_put(p, "and %zu more: status --json", count - WAYS_MAX);
        lh_text_page_break(p);
    }
}

lh_status lh_status_page_render(const lh_fleet_document *document, double tokens_per_s,
                                const lh_status_page_style *style, lh_text_buffer *out) {
    lh_text_page p = {.out = out,
                      .width = style->width < WIDTH_MIN ? WIDTH_MIN : style->width,
                      .has_colours = style->has_colours};
    const name_columns c = measure(document, p.width);
    put_head(&p, document, tokens_per_s);
    for (size_t i = 0; i < document->chain_count; i++)
        put_chain(&p, document, &document->chains[i], &c);
    put_others(&p, document, &c);
    put_matrix(&p, document);
    return p.status;
}
