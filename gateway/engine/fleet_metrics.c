/* A family is a row of a table, with the function that reads its figure; each family is written for
 * all chains, hops or workers before the next one. */
#include "gateway/engine/fleet_metrics.h"

#include "common/base/arithmetic.h"
#include "common/protocol/wire_type.h"

#include <stdio.h>

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static double seconds(double us) {
    return us / 1e6;
}

/* ---- Chains ---- */

typedef struct chain_view {
    const char *name;
    const lh_fleet *fleet;
    const lh_chain *chain;
    const lh_registry *registry;
    const lh_misconduct *misconduct;
    const lh_scheduler *scheduler;
    const lh_kv_ledger *ledger;
    lh_scheduler_figures figures;
    lh_overlap_totals overlap;
    lh_hop_profile first_hop;
} chain_view;

static chain_view view_chain(const lh_router *router, const lh_fleet_view *view, uint32_t index) {
    const lh_chain_controller *controller = lh_router_controller(router, index);
    const lh_fleet *fleet = lh_chain_controller_fleet(controller);
    const lh_scheduler *scheduler = lh_chain_controller_scheduler(controller);
    return (chain_view){.name = lh_router_name(router, index),
                        .fleet = fleet,
                        .chain = lh_fleet_chain(fleet),
                        .registry = lh_fleet_registry(fleet),
                        .misconduct = lh_router_misconduct(router),
                        .scheduler = scheduler,
                        .ledger = lh_scheduler_ledger(scheduler),
                        .figures = lh_scheduler_current_figures(scheduler),
                        .overlap = lh_overlap_planner_totals(lh_scheduler_planner(scheduler)),
                        .first_hop = view->first_hops[index]};
}

static double chain_ready(const chain_view *v) {
    return v->chain->state == LH_CHAIN_READY;
}

static double chain_epoch(const chain_view *v) {
    return v->chain->epoch;
}

/* Of the loss that costs most; those without which nothing serves are no matter of fetching. */
static double layers_to_fetch(const chain_view *v) {
    const lh_cover *cover = lh_fleet_cover(v->fleet);
    uint32_t most = 0;
    for (uint32_t i = 0; i < cover->plan_count; i++)
        most = lh_max_u32(most, lh_cover_missing(&cover->plans[i], lh_fleet_registry(v->fleet),
                                                 lh_fleet_model_digest(v->fleet)));
    return most;
}

static double losses_without_plan(const chain_view *v) {
    const lh_cover *cover = lh_fleet_cover(v->fleet);
    uint32_t count = 0;
    for (uint32_t i = 0; i < cover->plan_count; i++)
        count += cover->plans[i].part_count == 0;
    return count;
}

static double chain_stages(const chain_view *v) {
    return v->chain->stage_count;
}

static double kv_usage(const chain_view *v) {
    return v->ledger->blocks_total > 0
               ? (double)v->ledger->blocks_live / (double)v->ledger->blocks_total
               : 0;
}

static double overlap_measured(const chain_view *v) {
    return seconds(v->overlap.measured_us);
}

static double overlap_predicted(const chain_view *v) {
    return seconds(v->overlap.predicted_us);
}

static double overlap_bound(const chain_view *v) {
    return seconds(v->overlap.bound_us);
}

static double overlap_off(const chain_view *v) {
    return seconds(v->overlap.off_us);
}

static double overlap_prompts(const chain_view *v) {
    return (double)v->overlap.prompts;
}

static double decode_groups(const chain_view *v) {
    return v->figures.decode_groups;
}

static double decode_period(const chain_view *v) {
    return seconds(v->figures.decode_period_us);
}

#define FIGURE(name)                                                                               \
    static double figure_##name(const chain_view *v) {                                             \
        return (double)v->figures.name;                                                            \
    }
FIGURE(steps)
FIGURE(rows)
FIGURE(replays)
FIGURE(forced_tokens)
FIGURE(replayed_rows)
FIGURE(preemptions)
FIGURE(looked_up_tokens)
FIGURE(cached_tokens)
FIGURE(prefixes)
FIGURE(evicted_blocks)
FIGURE(results_ignored)
FIGURE(failed)
FIGURE(cancelled)
FIGURE(expired)
#undef FIGURE

static const struct chain_family {
    const char *name;
    lh_metric_type type;
    double (*read)(const chain_view *view);
    const char *help;
} chain_families[] = {
    {"longhaul_chain_ready", LH_METRIC_GAUGE, chain_ready, "1: the chain takes steps."},
    {"longhaul_chain_epoch", LH_METRIC_GAUGE, chain_epoch,
     "Grows each time that the chain is formed."},
    {"longhaul_chain_stages", LH_METRIC_GAUGE, chain_stages, "Workers of the chain."},
    {"longhaul_cover_layers_to_fetch", LH_METRIC_GAUGE, layers_to_fetch,
     "Layers that one worker would still have to fetch after the loss of another one, at worst."},
    {"longhaul_cover_losses_without_plan", LH_METRIC_GAUGE, losses_without_plan,
     "Workers of the chain without which the others have no room for the model."},
    {"longhaul_steps_total", LH_METRIC_COUNTER, figure_steps, "Steps sent through the chain."},
    {"longhaul_step_rows_total", LH_METRIC_COUNTER, figure_rows, "Rows (tokens) of those steps."},
    {"longhaul_forced_tokens_total", LH_METRIC_COUNTER, figure_forced_tokens,
     "Tokens that nobody drew, since the answer's form left no other."},
    {"longhaul_replays_total", LH_METRIC_COUNTER, figure_replays,
     "Sequences that were computed again after the chain had broken."},
    {"longhaul_replayed_rows_total", LH_METRIC_COUNTER, figure_replayed_rows,
     "Rows that were sent again, after a break or a preemption."},
    {"longhaul_preemptions_total", LH_METRIC_COUNTER, figure_preemptions,
     "Sequences that gave up their place or pages for others."},
    {"longhaul_sequences_failed_total", LH_METRIC_COUNTER, figure_failed,
     "Sequences that ended with an error."},
    {"longhaul_sequences_expired_total", LH_METRIC_COUNTER, figure_expired,
     "Of those, the ones whose deadline had passed."},
    {"longhaul_sequences_cancelled_total", LH_METRIC_COUNTER, figure_cancelled,
     "Sequences that their clients wanted no more of."},
    {"longhaul_results_ignored_total", LH_METRIC_COUNTER, figure_results_ignored,
     "Results that came twice, unasked or of an old epoch."},
    {"longhaul_prefix_cache_queries_total", LH_METRIC_COUNTER, figure_looked_up_tokens,
     "Tokens that were looked for in the prefix cache."},
    {"longhaul_prefix_cache_hits_total", LH_METRIC_COUNTER, figure_cached_tokens,
     "Tokens that were found there, and not computed."},
    {"longhaul_prefix_cache_prefixes", LH_METRIC_GAUGE, figure_prefixes,
     "Prefixes that are cached now."},
    {"longhaul_prefix_cache_evicted_blocks_total", LH_METRIC_COUNTER, figure_evicted_blocks,
     "Cached blocks that were given up for others."},
    {"longhaul_kv_cache_usage_ratio", LH_METRIC_GAUGE, kv_usage,
     "Blocks of the KV caches that running sequences hold, 0 to 1."},
    {"longhaul_decode_groups", LH_METRIC_GAUGE, decode_groups,
     "Groups into which the sequences that decode are dealt."},
    {"longhaul_decode_period_seconds", LH_METRIC_GAUGE, decode_period,
     "Predicted time between two tokens of one sequence."},
    {"longhaul_overlap_prompts_total", LH_METRIC_COUNTER, overlap_prompts,
     "Prompts that had the chain for themselves, and whose time was predicted."},
    {"longhaul_overlap_measured_seconds_total", LH_METRIC_COUNTER, overlap_measured,
     "What those prompts took."},
    {"longhaul_overlap_predicted_seconds_total", LH_METRIC_COUNTER, overlap_predicted,
     "What was predicted for them."},
    {"longhaul_overlap_bound_seconds_total", LH_METRIC_COUNTER, overlap_bound,
     "What a perfect pipe of the same parts would have taken."},
    {"longhaul_overlap_off_seconds_total", LH_METRIC_COUNTER, overlap_off,
     "What was predicted for them without overlap."},
};

static void render_chain_families(const chain_view *views, uint32_t count, lh_exposition *e) {
    for (size_t f = 0; f < COUNT(chain_families); f++) {
        const struct chain_family *family = &chain_families[f];
        lh_exposition_family(e, family->name, family->type, family->help);
        for (uint32_t i = 0; i < count; i++)
            lh_exposition_value(e, LH_METRIC_LABELS({"chain", views[i].name}),
                                family->read(&views[i]));
    }
}

typedef struct named_count {
    const char *name;
    uint64_t count;
} named_count;

static void render_counts(lh_exposition *e, const char *chain, const char *label,
                          const named_count *counts, size_t count) {
    for (size_t i = 0; i < count; i++)
        lh_exposition_count(e, LH_METRIC_LABELS({"chain", chain}, {label, counts[i].name}),
                            counts[i].count);
}

static void render_queues(const chain_view *views, uint32_t count, lh_exposition *e) {
    lh_exposition_family(e, "longhaul_chain_sequences", LH_METRIC_GAUGE,
                         "Sequences on the chain, by what they do; stalled is a part of running.");
    for (uint32_t i = 0; i < count; i++) {
        const lh_scheduler_figures *f = &views[i].figures;
        const named_count counts[] = {
            {"running", f->running}, {"waiting", f->waiting}, {"stalled", f->stalled}};
        render_counts(e, views[i].name, "state", counts, COUNT(counts));
    }
    lh_exposition_family(e, "longhaul_steps_in_flight", LH_METRIC_GAUGE,
                         "Steps under way on the chain, by class.");
    for (uint32_t i = 0; i < count; i++) {
        const lh_scheduler_figures *f = &views[i].figures;
        const named_count counts[] = {{"decode", f->decode_steps},
                                      {"prefill", f->prefill_steps},
                                      {"release", f->truncation_steps}};
        render_counts(e, views[i].name, "class", counts, COUNT(counts));
    }
    lh_exposition_family(e, "longhaul_kv_cache_blocks", LH_METRIC_GAUGE,
                         "Blocks of the chain's KV caches, by who has them.");
    for (uint32_t i = 0; i < count; i++) {
        const lh_kv_ledger *ledger = views[i].ledger;
        const named_count counts[] = {{"live", ledger->blocks_live},
                                      {"cached", ledger->blocks_cached},
                                      {"returning", ledger->blocks_returning},
                                      {"free", lh_kv_ledger_blocks_free(ledger)}};
        render_counts(e, views[i].name, "state", counts, COUNT(counts));
    }
    lh_exposition_family(e, "longhaul_request_queue_time_seconds", LH_METRIC_HISTOGRAM,
                         "For how long sequences waited until they first got a place.");
    for (uint32_t i = 0; i < count; i++)
        lh_exposition_histogram(e, LH_METRIC_LABELS({"chain", views[i].name}),
                                lh_scheduler_queue_times(views[i].scheduler));
}

static void render_stages(const chain_view *views, uint32_t count, lh_exposition *e) {
    lh_exposition_family(e, "longhaul_chain_stage_info", LH_METRIC_GAUGE,
                         "1: the worker of this stage has it ready; its layers, both included.");
    for (uint32_t i = 0; i < count; i++) {
        const lh_chain *chain = views[i].chain;
        for (uint32_t s = 0; s < chain->stage_count; s++) {
            char number[12], layers[24];
            snprintf(number, sizeof number, "%u", s);
            snprintf(layers, sizeof layers, "%u-%u", chain->stages[s].first_layer,
                     chain->stages[s].last_layer - 1);
            lh_exposition_count(
                e,
                LH_METRIC_LABELS({"chain", views[i].name}, {"stage", number},
                                 {"worker", chain->stages[s].name}, {"layers", layers}),
                lh_chain_stage_state(chain, views[i].registry, s) == LH_WORKER_READY);
        }
    }
}

/* ---- Hops ---- */

static double hop_up(const lh_hop_profile *hop) {
    return hop->connected;
}

static double hop_round_trip(const lh_hop_profile *hop) {
    return seconds((double)hop->round_trip_us);
}

static double hop_rate(const lh_hop_profile *hop) {
    return hop->bytes_per_us * 1e6;
}

static double hop_rate_age(const lh_hop_profile *hop) {
    return seconds((double)hop->age_us);
}

static double hop_is_bound(const lh_hop_profile *hop) {
    return hop->bytes_per_us_is_bound;
}

static double hop_window(const lh_hop_profile *hop) {
    return hop->ready_bytes;
}

static double hop_sent(const lh_hop_profile *hop) {
    return (double)hop->bytes_sent;
}

static double hop_probes(const lh_hop_profile *hop) {
    return (double)hop->probe_bytes_sent;
}

static const struct hop_family {
    const char *name;
    lh_metric_type type;
    double (*read)(const lh_hop_profile *hop);
    const char *help;
} hop_families[] = {
    {"longhaul_hop_up", LH_METRIC_GAUGE, hop_up, "1: the hop is connected."},
    {"longhaul_hop_round_trip_seconds", LH_METRIC_GAUGE, hop_round_trip,
     "Least round trip of late; 0: not known."},
    {"longhaul_hop_rate_bytes_per_second", LH_METRIC_GAUGE, hop_rate,
     "What the hop carries one way when it is full; 0: not known."},
    {"longhaul_hop_rate_is_lower_bound", LH_METRIC_GAUGE, hop_is_bound,
     "1: nothing has filled the hop yet, so that it may carry more."},
    {"longhaul_hop_rate_age_seconds", LH_METRIC_GAUGE, hop_rate_age,
     "How old the newest sample of the rate is."},
    {"longhaul_hop_window_bytes", LH_METRIC_GAUGE, hop_window,
     "What may leave before anything has been acknowledged."},
    {"longhaul_hop_sent_bytes_total", LH_METRIC_COUNTER, hop_sent,
     "Bytes sent since the connection opened, probes included."},
    {"longhaul_hop_probe_sent_bytes_total", LH_METRIC_COUNTER, hop_probes,
     "Of those, the probes that open a cold connection's window."},
};

/* Hop h of the chain leads to stage h; the last one to the gateway. */
static lh_hop_profile hop_of(const chain_view *view, uint32_t hop, const char **from,
                             const char **to, const char **wire) {
    const lh_chain *chain = view->chain;
    *from = hop == 0 ? "gateway" : chain->stages[hop - 1].name;
    *to = hop == chain->stage_count ? "gateway" : chain->stages[hop].name;
    *wire = hop == 0 || hop == chain->stage_count ? "tokens"
                                                  : lh_wire_name(chain->stages[hop - 1].wire);
    if (hop == 0)
        return view->first_hop;
    const lh_worker *worker = lh_registry_find(view->registry, *from);
    return worker ? worker->report.next : (lh_hop_profile){0};
}

static void render_hops(const chain_view *views, uint32_t count, lh_exposition *e) {
    const char *from, *to, *wire;
    for (size_t f = 0; f < COUNT(hop_families); f++) {
        lh_exposition_family(e, hop_families[f].name, hop_families[f].type, hop_families[f].help);
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t h = 0;
                 views[i].chain->stage_count > 0 && h <= views[i].chain->stage_count; h++) {
                const lh_hop_profile hop = hop_of(&views[i], h, &from, &to, &wire);
                lh_exposition_value(
                    e, LH_METRIC_LABELS({"chain", views[i].name}, {"from", from}, {"to", to}),
                    hop_families[f].read(&hop));
            }
    }
    lh_exposition_family(e, "longhaul_hop_wire_info", LH_METRIC_GAUGE,
                         "Always 1: the number format on the hop; tokens: it carries no numbers.");
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t h = 0; views[i].chain->stage_count > 0 && h <= views[i].chain->stage_count;
             h++) {
            hop_of(&views[i], h, &from, &to, &wire);
            lh_exposition_count(e,
                                LH_METRIC_LABELS({"chain", views[i].name}, {"from", from},
                                                 {"to", to}, {"wire", wire}),
                                1);
        }
}

/* ---- Workers ---- */

typedef struct worker_view {
    const lh_worker *worker;
    const lh_misconduct_record *misconduct; /* NULL: none */
    int64_t now_us;
} worker_view;

static double report_age(const worker_view *v) {
    return seconds((double)(v->now_us - v->worker->renewed_us));
}

static double memory_bytes(const worker_view *v) {
    return (double)v->worker->report.memory_bytes;
}

static double is_leaving(const worker_view *v) {
    return v->worker->report.leaving;
}

static double slowdown(const worker_view *v) {
    return v->worker->report.slowdown;
}

static double is_failed(const worker_view *v) {
    return v->worker->report.assignment.state == LH_WORKER_FAILED;
}

static double is_suspended(const worker_view *v) {
    return lh_misconduct_standing(v->misconduct, v->now_us) == LH_STANDING_SUSPENDED;
}

static double pages_total(const worker_view *v) {
    return (double)v->worker->report.kv.pages_total;
}

static double pages_free(const worker_view *v) {
    return (double)v->worker->report.kv.pages_free;
}

static double steps_active(const worker_view *v) {
    return (double)v->worker->report.steps.active;
}

static double steps_done(const worker_view *v) {
    return (double)v->worker->report.steps.done;
}

static double steps_failed(const worker_view *v) {
    return (double)v->worker->report.steps.failed;
}

/* The least rows that are known: one, where it has decoded. */
static double row_seconds(const worker_view *v) {
    const lh_compute_profile *compute = &v->worker->report.compute;
    return compute->point_count ? seconds(compute->points[0].us) : 0;
}

static double many_rows_seconds(const worker_view *v) {
    const lh_compute_profile *compute = &v->worker->report.compute;
    if (compute->point_count == 0)
        return 0;
    const lh_compute_point *most = &compute->points[compute->point_count - 1];
    return seconds(most->us / most->rows);
}

static double step_overhead(const worker_view *v) {
    return seconds(v->worker->report.compute.step_us);
}

static const struct worker_family {
    const char *name;
    lh_metric_type type;
    double (*read)(const worker_view *view);
    const char *help;
} worker_families[] = {
    {"longhaul_worker_report_age_seconds", LH_METRIC_GAUGE, report_age,
     "How long ago the worker last reported."},
    {"longhaul_worker_memory_bytes", LH_METRIC_GAUGE, memory_bytes,
     "Memory that the worker offers for weights."},
    {"longhaul_worker_leaving", LH_METRIC_GAUGE, is_leaving, "1: the worker is about to leave."},
    {"longhaul_worker_slowdown_ratio", LH_METRIC_GAUGE, slowdown,
     "Above 1: the worker plays a slower machine, for a measurement."},
    {"longhaul_worker_stage_failed", LH_METRIC_GAUGE, is_failed,
     "1: the worker cannot load its stage."},
    {"longhaul_worker_suspended", LH_METRIC_GAUGE, is_suspended,
     "1: the worker's results were refused, or its chain's answers wrong, and chains are planned "
     "without it where that is possible."},
    {"longhaul_worker_kv_pages", LH_METRIC_GAUGE, pages_total, "Pages of the worker's KV cache."},
    {"longhaul_worker_kv_free_pages", LH_METRIC_GAUGE, pages_free, "Of those, the free ones."},
    {"longhaul_worker_active_steps", LH_METRIC_GAUGE, steps_active, "Steps at the worker now."},
    {"longhaul_worker_steps_total", LH_METRIC_COUNTER, steps_done,
     "Steps that the worker has done."},
    {"longhaul_worker_failed_steps_total", LH_METRIC_COUNTER, steps_failed,
     "Steps that failed at the worker, or that it refused."},
    {"longhaul_stage_single_row_seconds", LH_METRIC_GAUGE, row_seconds,
     "What the stage takes for a step of one row; 0: not known."},
    {"longhaul_stage_batched_row_seconds", LH_METRIC_GAUGE, many_rows_seconds,
     "What it takes for a row of a long prompt; 0: not known."},
    {"longhaul_stage_step_overhead_seconds", LH_METRIC_GAUGE, step_overhead,
     "What a step costs there beside the arithmetic."},
};

typedef void worker_visitor(const worker_view *view, const void *context, lh_exposition *e);

static void visit_worker(const chain_view *chain, const lh_worker *worker, int64_t now_us,
                         worker_visitor *visit, const void *context, lh_exposition *e) {
    const worker_view view = {worker, lh_misconduct_find(chain->misconduct, worker->report.name),
                              now_us};
    visit(&view, context, e);
}

static void visit_workers(const chain_view *views, uint32_t count, int64_t now_us,
                          worker_visitor *visit, const void *context, lh_exposition *e) {
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t w = 0; w < lh_registry_count(views[i].registry); w++)
            visit_worker(&views[i], lh_registry_at(views[i].registry, w), now_us, visit, context,
                         e);
}

static void render_worker_value(const worker_view *view, const void *context, lh_exposition *e) {
    const struct worker_family *family = context;
    const lh_worker_report *report = &view->worker->report;
    lh_exposition_value(e, LH_METRIC_LABELS({"worker", report->name}, {"site", report->site}),
                        family->read(view));
}

static void render_worker_info(const worker_view *view, const void *context, lh_exposition *e) {
    const lh_worker_report *r = &view->worker->report;
    (void)context;
    lh_exposition_count(
        e,
        LH_METRIC_LABELS({"worker", r->name}, {"site", r->site}, {"version", r->version},
                         {"isa", r->isa},
                         {"state", lh_worker_stage_state_name(r->assignment.state)}),
        1);
}

static void render_faults(const worker_view *view, const void *context, lh_exposition *e) {
    (void)context;
    for (lh_worker_fault fault = 0; view->misconduct && fault < LH_WORKER_FAULT_KINDS; fault++)
        lh_exposition_count(e,
                            LH_METRIC_LABELS({"worker", view->worker->report.name},
                                             {"kind", lh_worker_fault_name(fault)}),
                            view->misconduct->faults[fault]);
}

static void render_certificate(const worker_view *view, const void *context, lh_exposition *e) {
    const lh_worker_report *report = &view->worker->report;
    const lh_member *member = lh_member_list_find(context, report->name);
    if (member)
        lh_exposition_count(e, LH_METRIC_LABELS({"worker", report->name}, {"site", report->site}),
                            (uint64_t)member->expires_s);
}

static void render_workers(const chain_view *views, uint32_t count, const lh_fleet_view *view,
                           int64_t now_us, lh_exposition *e) {
    uint64_t present = 0;
    for (uint32_t i = 0; i < count; i++)
        present += lh_registry_count(views[i].registry);
    lh_exposition_family(e, "longhaul_workers", LH_METRIC_GAUGE,
                         "Workers that report, with a stage or without.");
    lh_exposition_count(e, NULL, present);
    lh_exposition_family(e, "longhaul_worker_info", LH_METRIC_GAUGE,
                         "Always 1: what the worker is, and what becomes of its stage.");
    visit_workers(views, count, now_us, render_worker_info, NULL, e);
    for (size_t f = 0; f < COUNT(worker_families); f++) {
        lh_exposition_family(e, worker_families[f].name, worker_families[f].type,
                             worker_families[f].help);
        visit_workers(views, count, now_us, render_worker_value, &worker_families[f], e);
    }
    lh_exposition_family(
        e, "longhaul_worker_faults_total", LH_METRIC_COUNTER,
        "Results of the worker that were refused, and that did not come, and wrong "
        "answers of its chain.");
    visit_workers(views, count, now_us, render_faults, NULL, e);
    if (!view->members)
        return;
    lh_exposition_family(e, "longhaul_worker_certificate_expiry_timestamp_seconds", LH_METRIC_GAUGE,
                         "Until when the worker's certificate is good, as Unix time.");
    visit_workers(views, count, now_us, render_certificate, view->members, e);
}

/* ---- Answers that are checked ---- */

static void render_spot_checks(const lh_router *router, lh_exposition *e) {
    const lh_spot_figures f = lh_router_spot_figures(router);
    lh_exposition_family(e, "longhaul_spot_checks_total", LH_METRIC_COUNTER,
                         "Answers that were computed again on another chain, and how that ended.");
    for (lh_spot_verdict verdict = LH_SPOT_AGREED; verdict < LH_SPOT_VERDICTS; verdict++)
        lh_exposition_count(e, LH_METRIC_LABELS({"result", lh_spot_verdict_name(verdict)}),
                            f.verdicts[verdict]);
    lh_exposition_family(e, "longhaul_spot_checks_waiting", LH_METRIC_GAUGE,
                         "Answers that are kept until a chain rests that can check them.");
    lh_exposition_count(e, NULL, f.waiting);
    lh_exposition_family(e, "longhaul_spot_checks_possible", LH_METRIC_GAUGE,
                         "1: answers are checked, and two chains that are up give the same bits.");
    lh_exposition_count(e, NULL, f.is_possible);
}

/* ---- All ---- */

void lh_fleet_metrics_render(const lh_router *router, const lh_fleet_view *view, int64_t now_us,
                             double unix_s, lh_exposition *e) {
    chain_view views[LH_REPLICAS_MAX];
    uint32_t count = lh_router_count(router);
    for (uint32_t i = 0; i < count; i++)
        views[i] = view_chain(router, view, i);
    lh_exposition_family(e, "longhaul_fleet_snapshot_timestamp_seconds", LH_METRIC_GAUGE,
                         "When the engine last told its figures, as Unix time.");
    lh_exposition_value(e, NULL, unix_s);
    render_chain_families(views, count, e);
    render_queues(views, count, e);
    render_stages(views, count, e);
    render_hops(views, count, e);
    render_workers(views, count, view, now_us, e);
    render_spot_checks(router, e);
}
