/* GET /fleet: what an operator wants to see of workers, chain, links and queue. */
#include "gateway/engine/fleet_view_json.h"

#include "common/protocol/host_facts_json.h"
#include "common/protocol/measurement_fields.h"
#include "gateway/cost/overlap_json.h"
#include "gateway/engine/layers_json.h"
#include "gateway/engine/plan_view_json.h"

#include <jansson.h>
#include <time.h>

static const char *const chain_states[] = {"none", "forming", "ready"};

static json_t *text_or_null(const char *text) {
    return text[0] ? json_string(text) : json_null();
}

/* As reported, but for the age, which has grown since. */
static json_t *render_compute(const lh_worker *worker, int64_t now_us) {
    lh_compute_profile compute = worker->report.compute;
    compute.age_us += now_us - worker->renewed_us;
    return lh_json_record_render(&lh_compute_profile_record, &compute);
}

/* Of the hop that is tried for the next chain. */
static json_t *render_trial(const lh_hop_trial_report *trial) {
    if (trial->state == LH_HOP_TRIAL_NONE)
        return json_null();
    return json_pack("{s:s, s:o, s:s, s:o}", "to", trial->next[0] ? trial->next : "gateway",
                     "address", text_or_null(trial->address), "state",
                     lh_hop_trial_state_name(trial->state), "error", text_or_null(trial->error));
}

/* Unix time as RFC 3339 has it. */
static json_t *render_time(int64_t unix_s) {
    char text[32];
    time_t time = (time_t)unix_s;
    struct tm fields;
    if (!gmtime_r(&time, &fields) || !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &fields))
        return json_null();
    return json_string(text);
}

/* The worker's youngest; null where it has none of the gateway's own CA. */
static json_t *render_certificate(const lh_member_list *members, const char *worker) {
    const lh_member *member = members ? lh_member_list_find(members, worker) : NULL;
    if (!member)
        return json_null();
    return json_pack("{s:o, s:s, s:s}", "expires", render_time(member->expires_s), "serial",
                     member->serial, "ca", member->authority);
}

/* Whom it relays to; null where it does not relay. */
static json_t *render_reaches(const lh_worker_report *report) {
    json_t *reaches = report->relays ? json_array() : json_null();
    for (uint32_t i = 0; i < report->reach_count; i++) {
        const lh_relay_reach *reach = &report->reaches[i];
        json_array_append_new(reaches,
                              json_pack("{s:s, s:b, s:I, s:o}", "worker", reach->name, "connected",
                                        (int)reach->hop.connected, "round_trip_us",
                                        (json_int_t)reach->hop.round_trip_us, "error",
                                        text_or_null(reach->error)));
    }
    return reaches;
}

/* What it has done; null where it has done nothing. */
static json_t *render_misconduct(const lh_misconduct *misconduct, const lh_worker *worker,
                                 int64_t now_us) {
    const lh_misconduct_record *record = lh_misconduct_find(misconduct, worker->report.name);
    if (!record)
        return json_null();
    lh_worker_standing standing = lh_misconduct_standing(record, now_us);
    bool is_needed = standing == LH_STANDING_SUSPENDED && worker->suspended_until_us <= now_us;
    json_t *faults = json_object();
    for (lh_worker_fault fault = 0; fault < LH_WORKER_FAULT_KINDS; fault++)
        json_object_set_new(faults, lh_worker_fault_name(fault),
                            json_integer((json_int_t)record->faults[fault]));
    return json_pack(
        "{s:s, s:b, s:o, s:o, s:s, s:s}", "standing", lh_worker_standing_name(standing),
        "is_needed", (int)is_needed, "suspended_ms",
        standing == LH_STANDING_SUSPENDED ? json_integer((record->until_us - now_us) / 1000)
                                          : json_null(),
        "faults", faults, "fault", lh_worker_fault_name(record->last), "reason", record->reason);
}

/* How many times as slow as it says a worker is held to be; null where it is believed. */
static json_t *render_overclaims(const lh_claim *claim) {
    if (!claim)
        return json_null();
    return json_pack("{s:f, s:f, s:f}", "steps", claim->steps, "machine_token", claim->token,
                     "machine_prompt", claim->prompt);
}

static json_t *render_worker(lh_role_inquiry *roles, const lh_worker *worker,
                             const lh_router *router, const lh_member_list *members,
                             int64_t now_us) {
    const lh_worker_report *r = &worker->report;
    char reason[LH_ERROR_MESSAGE_BYTES];
    lh_worker_role role = lh_worker_role_of(roles, worker, reason);
    json_t *assignment = r->assignment.state == LH_WORKER_IDLE
                             ? json_null()
                             : json_pack("{s:I, s:s, s:I, s:I, s:o}", "generation",
                                         (json_int_t)r->assignment.generation, "state",
                                         lh_worker_stage_state_name(r->assignment.state),
                                         "done_bytes", (json_int_t)r->assignment.done_bytes,
                                         "total_bytes", (json_int_t)r->assignment.total_bytes,
                                         "error", text_or_null(r->assignment.error));
    json_t *prepared = r->prepared.state == LH_WORKER_IDLE
                           ? json_null()
                           : json_pack("{s:i, s:i, s:b, s:s, s:I, s:I, s:o}", "first_layer",
                                       (int)r->prepared.first_layer, "last_layer",
                                       (int)r->prepared.last_layer, "hold", (int)r->prepared.holds,
                                       "state", lh_worker_stage_state_name(r->prepared.state),
                                       "done_bytes", (json_int_t)r->prepared.done_bytes,
                                       "total_bytes", (json_int_t)r->prepared.total_bytes, "error",
                                       text_or_null(r->prepared.error));
    json_t *kv =
        r->kv.present
            ? json_pack("{s:I, s:I, s:i, s:I, s:i}", "pages_total", (json_int_t)r->kv.pages_total,
                        "pages_free", (json_int_t)r->kv.pages_free, "page_positions",
                        (int)r->kv.page_positions, "page_bytes", (json_int_t)r->kv.page_bytes,
                        "sequences", (int)r->kv.sequences)
            : json_null();
    json_t *addresses = json_pack("{s:o, s:o}", "tls", text_or_null(r->tls_address), "plain",
                                  text_or_null(r->plain_address));
    json_t *steps = json_pack("{s:I, s:I, s:I}", "active", (json_int_t)r->steps.active, "done",
                              (json_int_t)r->steps.done, "failed", (json_int_t)r->steps.failed);
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:s, s:s, s:i, s:f, s:o, s:o, s:I, s:I, s:I, s:I, s:b, "
        "s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o}",
        "name", r->name, "site", r->site, "role", lh_worker_role_name(role), "reason",
        text_or_null(reason), "version", r->version, "isa", r->isa, "threads", (int)r->threads,
        "slowdown", r->slowdown, "speed",
        lh_json_record_render(&lh_machine_speed_record, &r->speed), "addresses", addresses,
        "memory_bytes", (json_int_t)r->memory_bytes, "kv_bytes", (json_int_t)r->kv_bytes,
        "report_age_ms", (json_int_t)((now_us - worker->renewed_us) / 1000), "lease_left_ms",
        (json_int_t)((worker->lease_until_us - now_us) / 1000), "leaving", (int)r->leaving,
        "assignment", assignment, "prepared", prepared, "trial", render_trial(&r->trial), "compute",
        render_compute(worker, now_us), "kv", kv, "steps", steps, "certificate",
        render_certificate(members, r->name), "clock_offset_ms",
        lh_host_facts_know(&r->host, LH_HOST_CLOCK_MS) ? json_integer(r->clock_offset_ms)
                                                       : json_null(),
        "host", lh_host_facts_render(&r->host), "behind_relay", (int)r->is_behind_relay, "reaches",
        render_reaches(r), "misconduct",
        render_misconduct(lh_router_misconduct(router), worker, now_us), "overclaims",
        render_overclaims(lh_claims_find(lh_router_claims(router), r->name)));
}

/* Who computes a stage together with its worker. */
static json_t *render_members(const lh_chain_team *team) {
    json_t *members = json_array();
    for (uint32_t i = 0; i < team->follower_count; i++)
        json_array_append_new(members, json_string(team->followers[i].name));
    return members;
}

static json_t *render_stages(const lh_chain *chain, const lh_registry *registry) {
    json_t *stages = json_array();
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_chain_stage *stage = &chain->stages[i];
        const lh_worker *worker = lh_registry_find(registry, stage->name);
        bool is_current = worker && worker->report.assignment.generation == chain->epoch;
        const char *state = !worker ? "gone"
                            : is_current
                                ? lh_worker_stage_state_name(worker->report.assignment.state)
                                : "idle";
        json_array_append_new(
            stages, json_pack("{s:s, s:s, s:o, s:i, s:i, s:s, s:o, s:b, s:s, s:o}", "worker",
                              stage->name, "site", worker ? worker->report.site : "", "layers",
                              lh_layers_render(stage->first_layer, stage->last_layer),
                              "first_layer", (int)stage->first_layer, "last_layer",
                              (int)stage->last_layer, "address", stage->way.address, "via",
                              text_or_null(stage->way.via), "tls", (int)stage->way.tls, "state",
                              state, "members", render_members(&stage->team)));
    }
    return stages;
}

/* The hop's own figures and where it leads; wire is NULL where it carries tokens, no activations. A
 * hop of which nothing is known is down. */
static json_t *render_link(const char *from, const char *to, const char *wire,
                           const lh_hop_profile *known, const char *error, int64_t older_us) {
    lh_hop_profile hop = *known;
    hop.age_us += hop.bytes_per_us > 0 ? older_us : 0;
    json_t *link = lh_json_record_render(&lh_hop_profile_record, &hop);
    if (json_object_set_new(link, "from", json_string(from)) != 0 ||
        json_object_set_new(link, "to", json_string(to)) != 0 ||
        json_object_set_new(link, "error", text_or_null(error)) != 0 ||
        json_object_set_new(link, "wire", wire ? json_string(wire) : json_null()) != 0) {
        json_decref(link);
        return NULL;
    }
    return link;
}

/* The hops in the order of the ring. */
static json_t *render_links(const lh_chain *chain, const lh_registry *registry,
                            const lh_hop_profile *first_hop, const char *first_error,
                            int64_t now_us) {
    static const lh_hop_profile unknown;
    json_t *links = json_array();
    if (chain->stage_count > 0)
        json_array_append_new(
            links, render_link("gateway", chain->stages[0].name, NULL, first_hop, first_error, 0));
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_worker *worker = lh_registry_find(registry, chain->stages[i].name);
        bool is_last = i + 1 == chain->stage_count;
        const char *to = is_last ? "gateway" : chain->stages[i + 1].name;
        const char *wire = is_last ? NULL : lh_wire_name(chain->stages[i].wire);
        json_array_append_new(links, render_link(chain->stages[i].name, to, wire,
                                                 worker ? &worker->report.next : &unknown,
                                                 worker ? worker->report.next_error : "",
                                                 worker ? now_us - worker->renewed_us : 0));
    }
    return links;
}

/* What is being prepared to take the chain's place. */
static json_t *render_successor(const lh_fleet *fleet) {
    const char *cause;
    const lh_chain *next = lh_fleet_successor(fleet, &cause);
    if (!next)
        return json_null();
    json_t *stages = json_array();
    for (uint32_t i = 0; i < next->stage_count; i++)
        json_array_append_new(
            stages,
            json_pack("{s:s, s:o, s:i, s:i, s:o}", "worker", next->stages[i].name, "layers",
                      lh_layers_render(next->stages[i].first_layer, next->stages[i].last_layer),
                      "first_layer", (int)next->stages[i].first_layer, "last_layer",
                      (int)next->stages[i].last_layer, "members",
                      render_members(&next->stages[i].team)));
    return json_pack("{s:s, s:o}", "cause", cause, "stages", stages);
}

/* What each loss of a worker would cost, as far as it has been looked at. */
static json_t *render_losses(const lh_fleet *fleet) {
    const lh_cover *cover = lh_fleet_cover(fleet);
    const lh_registry *registry = lh_fleet_registry(fleet);
    const char *model_digest = lh_fleet_model_digest(fleet);
    json_t *losses = json_array();
    for (uint32_t i = 0; i < cover->plan_count; i++) {
        const lh_cover_plan *plan = &cover->plans[i];
        json_t *parts = json_array();
        for (uint32_t k = 0; k < plan->part_count; k++) {
            const lh_cover_part *part = &plan->parts[k];
            json_array_append_new(
                parts,
                json_pack("{s:s, s:o, s:i}", "worker", part->worker, "layers",
                          lh_layers_render(part->first_layer, part->last_layer), "layers_to_fetch",
                          (int)lh_cover_part_missing(part, registry, model_digest)));
        }
        json_array_append_new(losses, json_pack("{s:s, s:b, s:o}", "lost", plan->lost, "possible",
                                                (int)(plan->part_count > 0), "stages", parts));
    }
    return losses;
}

/* A worker, or the gateway. */
static const char *end_of(const char *name) {
    return name[0] ? name : "gateway";
}

/* Every direction between two sites of which something is known. */
static json_t *render_matrix(const lh_link_matrix *links, int64_t now_us) {
    json_t *matrix = json_array();
    const char *from, *to;
    lh_link_value v;
    for (uint32_t at = 0; lh_link_matrix_next(links, &at, &from, &to, &v);)
        json_array_append_new(
            matrix,
            json_pack("{s:s, s:s, s:o, s:b, s:o, s:o, s:s, s:s, s:s}", "from", end_of(from), "to",
                      end_of(to), "bytes_per_us",
                      v.bytes_per_us > 0 ? json_real(v.bytes_per_us) : json_null(),
                      "bytes_per_us_is_bound", (int)v.bytes_per_us_is_bound, "round_trip_us",
                      v.round_trip_us > 0 ? json_integer(v.round_trip_us) : json_null(), "age_us",
                      v.bytes_per_us > 0 ? json_integer(now_us - v.rate_at_us) : json_null(),
                      "source", lh_link_source_name(v.source), "from_worker", end_of(v.from),
                      "to_worker", end_of(v.to)));
    return matrix;
}

static json_t *render_chain(const lh_chain_controller *controller, const lh_hop_profile *first_hop,
                            json_t *queue, int64_t now_us) {
    const lh_fleet *fleet = lh_chain_controller_fleet(controller);
    const lh_chain *chain = lh_fleet_chain(fleet);
    return json_pack(
        "{s:s, s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:O}", "name", chain->name, "epoch",
        (json_int_t)chain->epoch, "state", chain_states[chain->state], "reason",
        text_or_null(lh_fleet_reason(fleet)), "stages",
        render_stages(chain, lh_fleet_registry(fleet)), "links",
        render_links(chain, lh_fleet_registry(fleet), first_hop, lh_fleet_first_hop_error(fleet),
                     now_us),
        "next", render_successor(fleet), "losses", render_losses(fleet), "better",
        lh_plan_view_render(fleet, now_us), "overlap",
        lh_overlap_json_render(lh_scheduler_planner(lh_chain_controller_scheduler(controller))),
        "queue", queue);
}

static json_t *render_kv(const lh_kv_ledger *ledger) {
    json_t *stages = json_array();
    for (uint32_t i = 0; i < ledger->stage_count; i++)
        json_array_append_new(
            stages, json_pack("{s:I, s:I, s:I, s:I, s:i}", "pages_total",
                              (json_int_t)ledger->stages[i].pages_total, "pages_used",
                              (json_int_t)lh_kv_ledger_pages(ledger, i, ledger->blocks_live),
                              "pages_cached",
                              (json_int_t)lh_kv_ledger_pages(ledger, i, ledger->blocks_cached),
                              "pages_returning",
                              (json_int_t)lh_kv_ledger_pages(ledger, i, ledger->blocks_returning),
                              "page_positions", (int)ledger->stages[i].page_positions));
    return stages;
}

static json_t *render_totals(const lh_scheduler_figures *f) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "steps",
                     (json_int_t)f->steps, "rows", (json_int_t)f->rows, "tokens",
                     (json_int_t)f->tokens, "finished", (json_int_t)f->finished, "failed",
                     (json_int_t)f->failed, "cancelled", (json_int_t)f->cancelled, "replays",
                     (json_int_t)f->replays, "replayed_rows", (json_int_t)f->replayed_rows,
                     "results_ignored", (json_int_t)f->results_ignored, "preemptions",
                     (json_int_t)f->preemptions, "prefix_hits", (json_int_t)f->prefix_hits,
                     "cached_tokens", (json_int_t)f->cached_tokens, "evicted_blocks",
                     (json_int_t)f->evicted_blocks);
}

static json_t *render_queue(const lh_scheduler *scheduler, const lh_fleet_view *view) {
    lh_scheduler_figures f = lh_scheduler_current_figures(scheduler);
    json_t *in_flight = json_pack("{s:i, s:i, s:i}", "decode", (int)f.decode_steps, "prefill",
                                  (int)f.prefill_steps, "release", (int)f.truncation_steps);
    json_t *decode = json_pack("{s:i, s:f}", "groups", (int)f.decode_groups, "period_ms",
                               f.decode_period_us / 1000);
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o}", "running",
                     (int)f.running, "stalled", (int)f.stalled, "waiting", (int)f.waiting,
                     "releasing", (int)f.truncating, "prefixes", (int)f.prefixes, "sequences_max",
                     (int)view->sequences_max, "queue_max", (int)view->queue_max, "steps_in_flight",
                     in_flight, "decode", decode, "totals", render_totals(&f), "kv",
                     render_kv(lh_scheduler_ledger(scheduler)));
}

static json_t *file_or_null(const char *path) {
    return path && path[0] ? json_string(path) : json_null();
}

static json_t *render_self(const lh_self_description *self) {
    return json_pack("{s:s, s:i, s:I, s:o, s:{s:o, s:o, s:o}}", "version", LONGHAUL_VERSION,
                     "protocol", LH_CONTROL_PROTOCOL_VERSION, "connections_max",
                     (json_int_t)self->connections_max, "host", lh_host_facts_render(&self->host),
                     "files", "state_dir", file_or_null(self->state_dir), "api_key_file",
                     file_or_null(self->api_key_file), "tls_key", file_or_null(self->tls_key_file));
}

/* Null where no answer is checked. */
static json_t *render_spot_checks(const lh_router *router) {
    const lh_spot_figures f = lh_router_spot_figures(router);
    if (f.rate == 0)
        return json_null();
    json_t *checks = json_pack("{s:f, s:b, s:i}", "rate", f.rate, "is_possible", (int)f.is_possible,
                               "waiting", (int)f.waiting);
    for (lh_spot_verdict verdict = LH_SPOT_AGREED; verdict < LH_SPOT_VERDICTS; verdict++)
        json_object_set_new(checks, lh_spot_verdict_name(verdict),
                            json_integer((json_int_t)f.verdicts[verdict]));
    return checks;
}

/* Of several chains' queues, all whole numbers and lists together. */
static void add_up(json_t *sum, const json_t *more) {
    const char *key;
    json_t *mine;
    json_object_foreach(sum, key, mine) {
        const json_t *other = json_object_get(more, key);
        if (json_is_integer(mine))
            json_integer_set(mine, json_integer_value(mine) + json_integer_value(other));
        else if (json_is_object(mine))
            add_up(mine, other);
        else if (json_is_array(mine))
            json_array_extend(mine, (json_t *)(uintptr_t)other);
    }
}

/* Why there is no chain: what the first one that is not ready waits for. */
static const char *reason_of(const lh_router *router) {
    const char *reason = "";
    for (uint32_t i = 0; i < lh_router_count(router) && !reason[0]; i++)
        reason = lh_fleet_reason(lh_chain_controller_fleet(lh_router_controller(router, i)));
    return reason;
}

/* The formats that all stages have, as the flags name them. */
static json_t *render_numbers(const lh_fleet_options *options) {
    return json_pack("{s:s, s:s, s:s}", "activations", options->has_q16 ? "q16" : "q8", "gpu_math",
                     options->has_fast_math ? "fast" : "exact", "kv_type", options->kv_type);
}

/* Positions of a sequence for which a chain has room; null: there is no chain. */
static json_t *render_served_context(const lh_router *router, uint32_t context) {
    uint64_t most, free;
    lh_router_positions(router, &most, &free);
    if (most == UINT64_MAX || most == 0)
        return json_null();
    return json_integer((json_int_t)(most < context ? most : context));
}

char *lh_fleet_view_render(const lh_router *router, const lh_fleet_model *model,
                           const lh_fleet_view *view, int64_t now_us) {
    json_t *about = json_pack("{s:s, s:I, s:s, s:I, s:o}", "name", model->name, "file_bytes",
                              (json_int_t)lh_model_file_size(model->file), "header_sha256",
                              lh_model_file_header_sha256(model->file), "context",
                              (json_int_t)view->numbers->context, "context_served",
                              render_served_context(router, view->numbers->context));
    json_t *workers = json_array(), *chains = json_array(), *queue = NULL;
    for (uint32_t i = 0; i < lh_router_count(router); i++) {
        const lh_chain_controller *controller = lh_router_controller(router, i);
        const lh_fleet *fleet = lh_chain_controller_fleet(controller);
        json_t *own = render_queue(lh_chain_controller_scheduler(controller), view);
        const lh_registry *registry = lh_fleet_registry(fleet);
        lh_role_inquiry roles = lh_fleet_ask_roles(fleet, now_us);
        for (uint32_t w = 0; w < lh_registry_count(registry); w++)
            json_array_append_new(workers, render_worker(&roles, lh_registry_at(registry, w),
                                                         router, view->members, now_us));
        if (lh_fleet_chain(fleet)->state != LH_CHAIN_NONE)
            json_array_append_new(chains,
                                  render_chain(controller, &view->first_hops[i], own, now_us));
        if (queue)
            add_up(queue, own);
        else
            queue = json_deep_copy(own);
        json_decref(own);
    }
    json_object_set_new(queue, "queue_max", json_integer(view->queue_max));
    if (lh_router_count(router) > 1)
        json_object_del(queue, "decode"); /* of each chain alone */
    json_t *whole =
        json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "state", view->state,
                  "reason", text_or_null(reason_of(router)), "gateway", render_self(&view->self),
                  "model", about, "numbers", render_numbers(view->numbers), "workers", workers,
                  "chains", chains, "matrix", render_matrix(lh_router_links(router), now_us),
                  "queue", queue, "spot_checks", render_spot_checks(router));
    char *text = whole ? json_dumps(whole, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(whole);
    return text;
}
