/* What is wanted, what is there, and the next thing to do about the difference.
 *
 *            assignment                   built
 *     EMPTY ------------> BUILDING ------------------> HELD
 *       ^  ^                 | failed, or not wanted     | another stage wanted, or none
 *       |  +-----------------+ (a failure waits first)   |
 *       +------------- TAKING AWAY <--------------------+
 *
 * The old stage goes before the new one is built: memory holds one, and so does the thread pool;
 * unless the new one was prepared beside it (prepared_stage.h), and from EMPTY it is HELD at
 * once. While a stage is being built the answers go on; the route is set from the latest of them.
 *
 * A stage that others compute with this machine (team.h) is the server's where this is the first of
 * them. Another one's is nobody's but the team's, and takes no steps. Where the team fails the
 * stage goes, and is built again with those that are wanted then: not before the gateway has said
 * so, since the others may only have heard sooner that they are a team no more. */
#include "worker/control/reconciler.h"

#include "common/base/log.h"
#include "common/base/random_id.h"
#include "worker/control/assignment_failure.h"
#include "worker/control/control_renewal.h"
#include "worker/control/departure.h"
#include "worker/control/prepared_stage.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* After a step failed: by then the gateway knows, too; and a thousand cancelled requests are not a
 * thousand reports. */
#define TROUBLE_MS 30

typedef enum hold_state { EMPTY, BUILDING, HELD, TAKING_AWAY } hold_state;

struct lh_reconciler {
    lh_reconciler_options options;
    uint64_t instance;
    lh_control_renewal *renewal; /* NULL: closed */
    lh_prepared_stage *prepared; /* NULL: closed */
    bool closing;
    lh_departure departure;
    void (*on_released)(void *); /* NULL: released, or not leaving */
    void *released_context;

    bool is_heard;              /* the latest report was answered */
    uint32_t words_awaited;     /* answers, until what is wanted is known after a team has failed */
    lh_error team_failure;      /* of it; its status is LH_OK where it is of no concern */
    bool has_wanted, is_urgent; /* urgent: sequences wait for what is wanted */
    lh_control_assignment wanted; /* of the latest answer */
    hold_state state;
    lh_control_assignment held; /* which stage is being built or held */
    lh_stage_job *job;          /* BUILDING */
    lh_control_trial tried;     /* the hop that was tried last */
    /* HELD: the server's, or the team's where this is not its first member; for its sizes and
     * counters */
    lh_stage *stage;
    lh_team *team; /* HELD, TAKING_AWAY: NULL: the stage is this machine's alone */
    uv_async_t *team_alarm;
    uv_work_t removal; /* TAKING_AWAY, where another machine leads the team: of these */
    lh_built_stage led;
    bool is_routed; /* held.generation is what the server serves */
    lh_assignment_failure failure;

    void (*on_closed)(void *);
    void *closed_context;
};

static void reconcile(lh_reconciler *reconciler);
static void drop_failed_team(lh_reconciler *reconciler);

static void enter(lh_reconciler *reconciler, hold_state state) {
    static const bool allowed[4][4] = {[EMPTY] = {[BUILDING] = true, [HELD] = true},
                                       [BUILDING] = {[EMPTY] = true},
                                       [HELD] = {[TAKING_AWAY] = true},
                                       [TAKING_AWAY] = {[EMPTY] = true}};
    assert(allowed[reconciler->state][state]);
    assert((state == BUILDING) == (reconciler->job != NULL));
    assert((state == HELD) == (reconciler->stage != NULL) && !reconciler->is_routed);
    reconciler->state = state;
}

static void report_soon(lh_reconciler *reconciler) {
    if (!reconciler->closing)
        lh_control_renewal_hurry(reconciler->renewal, 0);
}

static void note_failure(lh_reconciler *reconciler, const lh_error *error) {
    lh_assignment_failure_note(&reconciler->failure, error, &reconciler->wanted,
                               uv_now(reconciler->options.loop));
    report_soon(reconciler);
}

/* Answers keep coming, so that the pause ends with the first one after it. */
static bool must_wait(const lh_reconciler *reconciler) {
    return lh_assignment_failure_bars(&reconciler->failure, &reconciler->wanted,
                                      uv_now(reconciler->options.loop));
}

/* ---- Building ---- */

/* Whether it takes the steps of its stage. */
static bool is_first(const lh_reconciler *reconciler) {
    return reconciler->held.team.own == 0;
}

/* Gives the server the stage of reconciler->held, unless it is the team's. */
static void hand_over(lh_reconciler *reconciler, lh_built_stage *built) {
    lh_error error;
    if (is_first(reconciler) &&
        lh_server_install(reconciler->options.server, built->stage, reconciler->held.steps_max,
                          &built->profile, &error) != LH_OK) {
        lh_built_stage_destroy(built);
        note_failure(reconciler, &error);
        return;
    }
    reconciler->stage = built->stage;
    reconciler->team = built->team;
    enter(reconciler, HELD);
    lh_log(LH_LOG_INFO, "assignment", "loaded layers=%u-%u model=%s weight_bytes=%zu kv_pages=%zu",
           reconciler->held.first_layer, reconciler->held.last_layer - 1,
           reconciler->held.model.name, lh_stage_weight_bytes(built->stage),
           lh_kv_cache_pages_total(lh_stage_kv(built->stage)));
}

static void finish_close(lh_reconciler *reconciler);

/* A job or a removal has ended. */
static void go_on(lh_reconciler *reconciler) {
    if (reconciler->closing) {
        finish_close(reconciler);
        return;
    }
    reconcile(reconciler);
    report_soon(reconciler);
}

static void on_job_done(void *context, const lh_error *failure) {
    lh_reconciler *reconciler = context;
    lh_stage_job *job = reconciler->job;
    bool is_wanted = !reconciler->closing && reconciler->has_wanted &&
                     lh_control_is_same_stage(&reconciler->wanted, &reconciler->held);
    reconciler->job = NULL;
    enter(reconciler, EMPTY);
    if (is_wanted && !failure) {
        lh_built_stage built = lh_stage_job_take(job);
        hand_over(reconciler, &built);
        drop_failed_team(reconciler); /* which may have been before there was anything to drop */
    } else if (is_wanted) {
        note_failure(reconciler, failure);
    }
    lh_stage_job_destroy(job);
    go_on(reconciler);
}

static void build(lh_reconciler *reconciler) {
    lh_error error;
    lh_stage_job_options job = reconciler->options.job;
    job.is_urgent = reconciler->is_urgent;
    if (lh_stage_job_start(reconciler->options.loop, &job, &reconciler->wanted, on_job_done,
                           reconciler, &reconciler->job, &error) != LH_OK) {
        note_failure(reconciler, &error);
        return;
    }
    enter(reconciler, BUILDING);
    reconciler->held = reconciler->wanted;
    if (reconciler->team_failure.status != LH_OK)
        lh_log(LH_LOG_ERROR, "assignment", "the team of the stage is broken reason=\"%s\"",
               reconciler->team_failure.message);
    reconciler->team_failure.status = LH_OK;
    lh_log(LH_LOG_INFO, "assignment", "assigned layers=%u-%u of=%u model=%s chain=%s epoch=%u",
           reconciler->held.first_layer, reconciler->held.last_layer - 1, reconciler->held.layers,
           reconciler->held.model.name, reconciler->held.chain, reconciler->held.epoch);
    report_soon(reconciler);
}

/* What was prepared for this. */
static void put_in_place(lh_reconciler *reconciler) {
    lh_built_stage built;
    lh_error error;
    if (!lh_prepared_stage_take(reconciler->prepared, &reconciler->wanted, &built))
        return; /* it is still being loaded */
    reconciler->team_failure.status = LH_OK;
    if (built.team && lh_team_begin(built.team, &error) != LH_OK) {
        lh_built_stage_destroy(&built);
        note_failure(reconciler, &error);
        return;
    }
    reconciler->held = reconciler->wanted;
    hand_over(reconciler, &built);
    reconcile(reconciler);
    drop_failed_team(reconciler);
}

/* ---- Holding ---- */

static void on_removed(void *context) {
    lh_reconciler *reconciler = context;
    lh_team_destroy(reconciler->team);
    reconciler->team = NULL;
    enter(reconciler, EMPTY);
    go_on(reconciler);
}

static void destroy_led(uv_work_t *work) {
    lh_reconciler *reconciler = work->data;
    lh_built_stage_destroy(&reconciler->led);
}

static void on_led_destroyed(uv_work_t *work, int cancelled) {
    (void)cancelled;
    on_removed(work->data);
}

/* Of a team that another machine leads: on libuv's pool, since the team's thread may be in the
 * midst of a layer, and memory takes a while to give back. */
static lh_status remove_led(lh_reconciler *reconciler) {
    reconciler->led = (lh_built_stage){.stage = reconciler->stage, .team = reconciler->team};
    reconciler->team = NULL;
    reconciler->removal.data = reconciler;
    uv_queue_work(reconciler->options.loop, &reconciler->removal, destroy_led, on_led_destroyed);
    return LH_OK; /* it cannot fail */
}

static void take_away(lh_reconciler *reconciler) {
    lh_error error;
    if (reconciler->team)
        lh_team_end(reconciler->team); /* nobody waits in it for the others */
    if ((is_first(reconciler)
             ? lh_server_remove(reconciler->options.server, on_removed, reconciler, &error)
             : remove_led(reconciler)) != LH_OK) {
        lh_log(LH_LOG_ERROR, "assignment", "the stage cannot be taken away now reason=\"%s\"",
               error.message);
        return; /* the next answer tries again */
    }
    lh_log(LH_LOG_INFO, "assignment", "dropping layers=%u-%u model=%s",
           reconciler->held.first_layer, reconciler->held.last_layer - 1,
           reconciler->held.model.name);
    reconciler->stage = NULL;
    reconciler->is_routed = false;
    enter(reconciler, TAKING_AWAY);
}

/* The way as it was replied; to the gateway, which replies no address, the one that is reported to.
 */
static lh_way way_from_here(const lh_reconciler *reconciler, const lh_way *replied) {
    const char *gateway_url = reconciler->options.job.gateway_url;
    lh_way way = *replied;
    if (!way.is_gateway)
        return way;
    way.tls = strncmp(gateway_url, "https", 5) == 0;
    snprintf(way.address, sizeof way.address, "%s", strstr(gateway_url, "://") + 3);
    return way;
}

/* False: the server does not take it, which is noted. */
static bool set_route(lh_reconciler *reconciler) {
    const lh_control_assignment *wanted = &reconciler->wanted;
    lh_chain_route route = {.epoch = wanted->epoch,
                            .width = lh_stage_config(reconciler->stage)->width,
                            .is_first = wanted->first_layer == 0,
                            .is_last = wanted->last_layer == wanted->layers,
                            .wire = wanted->wire,
                            .steps_max = wanted->steps_max,
                            .kv_epoch = wanted->kv_epoch,
                            .next = way_from_here(reconciler, &wanted->next)};
    snprintf(route.chain, sizeof route.chain, "%s", wanted->chain);
    snprintf(route.previous_name, sizeof route.previous_name, "%s", wanted->previous_name);
    snprintf(route.previous_relay, sizeof route.previous_relay, "%s", wanted->previous_relay);
    lh_error error;
    if (lh_server_set_route(reconciler->options.server, &route, &error) == LH_OK)
        return true;
    note_failure(reconciler, &error);
    return false;
}

static void take_place(lh_reconciler *reconciler) {
    const lh_control_assignment *wanted = &reconciler->wanted;
    reconciler->is_routed = !is_first(reconciler) || set_route(reconciler);
    if (!reconciler->is_routed)
        return;
    reconciler->held = *wanted;
    reconciler->is_routed = true;
    lh_assignment_failure_forget(&reconciler->failure);
    lh_log(LH_LOG_INFO, "assignment", "ready chain=%s epoch=%u layers=%u-%u next=%s", wanted->chain,
           wanted->epoch, wanted->first_layer, wanted->last_layer - 1,
           wanted->team.own > 0      ? wanted->team.members[0].name
           : wanted->next.is_gateway ? "gateway"
                                     : wanted->next.worker);
    report_soon(reconciler);
}

/* An answer that is on its way is to a report of before. */
static void drop_failed_team(lh_reconciler *reconciler) {
    lh_error error;
    if (reconciler->state != HELD || !reconciler->team ||
        lh_team_failure(reconciler->team, &error) == LH_OK)
        return;
    reconciler->team_failure = error;
    reconciler->words_awaited =
        reconciler->closing || !lh_control_renewal_is_under_way(reconciler->renewal) ? 1 : 2;
    take_away(reconciler);
    report_soon(reconciler);
}

static void on_team_alarm(uv_async_t *alarm) {
    drop_failed_team(alarm->data);
}

/* Any thread. */
static void on_team_failed(void *context) {
    uv_async_send(((lh_reconciler *)context)->team_alarm);
}

static void reconcile(lh_reconciler *reconciler) {
    bool fits =
        reconciler->has_wanted && lh_control_is_same_stage(&reconciler->wanted, &reconciler->held);
    if (!reconciler->has_wanted) {
        lh_assignment_failure_forget(&reconciler->failure);
        reconciler->team_failure.status = LH_OK;
    }
    switch (reconciler->state) {
    case EMPTY:
        if (reconciler->has_wanted &&
            lh_prepared_stage_is_for(reconciler->prepared, &reconciler->wanted))
            put_in_place(reconciler);
        else if (reconciler->has_wanted && reconciler->words_awaited == 0 && !must_wait(reconciler))
            build(reconciler);
        break;
    case BUILDING:
        if (!fits)
            lh_stage_job_cancel(reconciler->job);
        break;
    case HELD:
        if (!fits) {
            take_away(reconciler);
        } else if ((!reconciler->is_routed ||
                    !lh_control_is_same_assignment(&reconciler->held, &reconciler->wanted)) &&
                   !must_wait(reconciler)) {
            take_place(reconciler);
        }
        break;
    case TAKING_AWAY:
        break;
    }
}

/* ---- The gateway's answers ---- */

/* What was prepared for the assignment that is wanted now stays until it is in place. */
static void prepare(lh_reconciler *reconciler, const lh_assignment_reply *answer) {
    bool is_in_place = reconciler->state == HELD && reconciler->has_wanted &&
                       lh_control_is_same_stage(&reconciler->held, &reconciler->wanted);
    if (answer->has_prepare) {
        lh_prepared_stage_want(reconciler->prepared, &answer->prepare);
    } else if (!reconciler->has_wanted || is_in_place ||
               !lh_prepared_stage_is_for(reconciler->prepared, &reconciler->wanted)) {
        lh_prepared_stage_want(reconciler->prepared, NULL);
    }
}

static bool is_placed(const lh_reconciler *reconciler) {
    return reconciler->state == HELD && reconciler->is_routed &&
           lh_control_is_same_assignment(&reconciler->held, &reconciler->wanted);
}

/* What is wanted now leads to who was tried, and may take over the connections. */
static bool awaits_tried_hop(const lh_reconciler *reconciler) {
    return reconciler->has_wanted && !is_placed(reconciler) &&
           strcmp(reconciler->wanted.chain, reconciler->tried.chain) == 0 &&
           strcmp(reconciler->wanted.next.worker, reconciler->tried.next.worker) == 0;
}

/* With or without a stage: what is tried is the place that this worker would have. */
static void try_hop(lh_reconciler *reconciler, const lh_assignment_reply *answer) {
    const lh_control_trial *trial = &answer->trial;
    if (!answer->has_trial) {
        if (!awaits_tried_hop(reconciler))
            lh_server_try(reconciler->options.server, NULL);
        return;
    }
    lh_chain_route route = {.width = trial->width,
                            .is_last = trial->next.is_gateway,
                            .wire = trial->wire,
                            .next = way_from_here(reconciler, &trial->next)};
    reconciler->tried = *trial;
    snprintf(route.chain, sizeof route.chain, "%s", trial->chain);
    lh_server_try(reconciler->options.server, &route);
}

/* It goes on beside everything else. */
static void survey_link(lh_reconciler *reconciler, const lh_assignment_reply *answer) {
    const lh_survey_target target = {.next = way_from_here(reconciler, &answer->survey.next),
                                     .bytes_max = answer->survey.bytes_max};
    lh_server_survey(reconciler->options.server, answer->has_survey ? &target : NULL);
}

/* It shares the machine with the stage that serves. */
static void note_loading(lh_reconciler *reconciler) {
    lh_server_note_loading(reconciler->options.server,
                           lh_prepared_stage_is_loading(reconciler->prepared));
}

static void release(lh_reconciler *reconciler) {
    void (*on_released)(void *) = reconciler->on_released;
    reconciler->on_released = NULL;
    if (on_released)
        on_released(reconciler->released_context);
}

static void on_answer(void *context, const lh_assignment_reply *answer) {
    lh_reconciler *reconciler = context;
    reconciler->is_heard = true;
    if (reconciler->words_awaited > 0)
        reconciler->words_awaited--;
    if (answer->is_planned) {
        reconciler->has_wanted = answer->has_assignment;
        reconciler->is_urgent = answer->is_urgent;
        reconciler->wanted = answer->assignment;
    }
    if (reconciler->options.on_trust && answer->trust_sha256[0] != '\0')
        reconciler->options.on_trust(reconciler->options.trust_context, answer->trust_sha256);
    reconcile(reconciler);
    if (answer->is_planned) {
        prepare(reconciler, answer);
        try_hop(reconciler, answer);
    }
    survey_link(reconciler, answer);
    lh_server_relay(reconciler->options.server, answer->relayed, answer->relayed_count);
    note_loading(reconciler);
    if (lh_departure_hear(&reconciler->departure, answer))
        release(reconciler);
}

static void on_failure(void *context) {
    lh_reconciler *reconciler = context;
    reconciler->is_heard = false;
    if (lh_departure_note_failure(&reconciler->departure, reconciler->has_wanted))
        release(reconciler);
}

static void on_next_change(void *context) {
    report_soon(context);
}

/* Perhaps the chain is being formed again: then the answer says how. */
static void on_trouble(void *context) {
    lh_reconciler *reconciler = context;
    if (!reconciler->closing)
        lh_control_renewal_hurry(reconciler->renewal, TROUBLE_MS);
}

static void on_prepared_change(void *context) {
    note_loading(context);
    reconcile(context);
    report_soon(context);
}

/* ---- What the worker says of itself ---- */

static void report_assignment(const lh_reconciler *reconciler, lh_worker_report *report) {
    if (!reconciler->has_wanted && reconciler->state == EMPTY)
        return;
    const lh_control_assignment *about =
        reconciler->has_wanted ? &reconciler->wanted : &reconciler->held;
    report->assignment.generation = about->generation;
    if (reconciler->failure.error.status != LH_OK) {
        report->assignment.state = LH_WORKER_FAILED;
        report->assignment.is_final = lh_assignment_failure_is_final(&reconciler->failure);
        lh_worker_report_copy_error(report->assignment.error, reconciler->failure.error.message);
    } else if (reconciler->state == HELD && reconciler->is_routed) {
        report->assignment.state = LH_WORKER_READY;
        report->assignment.generation = reconciler->held.generation;
        report->assignment.done_bytes = report->assignment.total_bytes =
            lh_stage_weight_bytes(reconciler->stage);
    } else if (reconciler->state == BUILDING) {
        report->assignment.state = lh_stage_job_progress(
            reconciler->job, &report->assignment.done_bytes, &report->assignment.total_bytes);
        report->assignment.is_joining = lh_stage_job_is_joining(reconciler->job);
    } else {
        report->assignment.state = LH_WORKER_LOADING;
    }
}

static void report_loaded(const lh_reconciler *reconciler, lh_worker_report *report) {
    if (!reconciler->stage)
        return;
    report->loaded.present = true;
    report->loaded.first_layer = reconciler->held.first_layer;
    report->loaded.last_layer = reconciler->held.last_layer;
    memcpy(report->loaded.model, reconciler->held.model.header_sha256,
           sizeof(report->loaded.model));
}

static void report_kv(const lh_reconciler *reconciler, uint32_t epoch, lh_worker_report *report) {
    if (!reconciler->stage)
        return;
    const lh_kv_cache *kv = lh_stage_kv(reconciler->stage);
    report->kv.present = true;
    report->kv.pages_total = lh_kv_cache_pages_total(kv);
    report->kv.pages_free = lh_kv_cache_pages_free(kv);
    report->kv.page_positions = LH_KV_PAGE_POSITIONS;
    report->kv.page_bytes = lh_kv_cache_page_bytes(kv);
    report->kv.sequences = (uint32_t)lh_kv_cache_sequences(kv);
    report->kv.epoch = epoch;
}

static void fill_report(void *context, lh_worker_report *report) {
    const lh_reconciler *reconciler = context;
    const lh_reconciler_options *options = &reconciler->options;
    *report = (lh_worker_report){.instance = reconciler->instance,
                                 .threads = lh_thread_pool_size(options->job.pool),
                                 .memory_bytes = options->memory_bytes,
                                 .speed = options->speed,
                                 .kv_bytes = options->job.kv_bytes,
                                 .slowdown =
                                     lh_slowdown_factor(lh_thread_pool_slowdown(options->job.pool)),
                                 .version = LONGHAUL_VERSION,
                                 .leaving = reconciler->departure.is_leaving};
    snprintf(report->site, sizeof report->site, "%s", options->site);
    snprintf(report->isa, sizeof report->isa, "%s",
             options->job.device ? options->job.device->name : options->job.kernels->name);
    snprintf(report->plain_address, sizeof report->plain_address, "%s", options->address_plain);
    snprintf(report->tls_address, sizeof report->tls_address, "%s", options->address_tls);
    snprintf(report->member_address, sizeof report->member_address, "%s", options->address_members);
    if (options->trust)
        snprintf(report->trust_sha256, sizeof report->trust_sha256, "%s", options->trust);
    lh_server_status status;
    lh_server_read_status(options->server, &status);
    report->steps.active = status.steps_active;
    report->steps.done = status.steps_done;
    report->steps.failed = status.steps_failed;
    report->compute = status.compute;
    report->next = status.next;
    memcpy(report->next_error, status.next_error, sizeof report->next_error);
    report->trial = status.trial;
    report->surveyed = status.surveyed;
    report->relays = options->relays;
    report->is_behind_relay = options->is_behind_relay;
    report->reach_count = status.reach_count;
    memcpy(report->reaches, status.reaches, sizeof report->reaches);
    report_assignment(reconciler, report);
    report_loaded(reconciler, report);
    report_kv(reconciler, status.kv_epoch, report);
    if (options->job.inventory)
        report->cached_count = lh_weight_inventory_read(options->job.inventory, report->cached);
    if (reconciler->prepared)
        lh_prepared_stage_report(reconciler->prepared, report);
    report->host = options->host;
    lh_host_facts_read_clock(&report->host);
    if (options->job.tls && options->job.tls->credentials)
        lh_tls_credentials_note(options->job.tls->credentials, &report->host);
    if (options->cache_dir)
        lh_host_facts_read_disk(&report->host, options->cache_dir);
}

/* ---- In words ---- */

static void describe_loading(const lh_reconciler *reconciler, const char *layers, char *text,
                             size_t size) {
    uint64_t done_bytes = 0, total_bytes = 0;
    lh_stage_job_progress(reconciler->job, &done_bytes, &total_bytes);
    snprintf(text, size, "Loads %s: %llu of %llu MB", layers,
             (unsigned long long)(done_bytes / 1000000),
             (unsigned long long)(total_bytes / 1000000));
}

static void describe_stage(const lh_reconciler *reconciler, char *text, size_t size) {
    const lh_control_assignment *about =
        reconciler->has_wanted ? &reconciler->wanted : &reconciler->held;
    char layers[160];
    snprintf(layers, sizeof layers, "layers %u-%u of %.100s", about->first_layer,
             about->last_layer - 1, about->model.name);
    if (reconciler->failure.error.status != LH_OK)
        snprintf(text, size, "Cannot serve %s: %s", layers, reconciler->failure.error.message);
    else if (reconciler->state == BUILDING)
        describe_loading(reconciler, layers, text, size);
    else if (reconciler->is_routed && about->team.own > 0)
        snprintf(text, size, "Computes %s together with %.60s", layers,
                 about->team.members[0].name);
    else if (reconciler->is_routed)
        snprintf(text, size, "Serves %s in chain %.60s", layers, about->chain);
    else
        snprintf(text, size, "Makes room for %s", layers);
}

void lh_reconciler_describe(const lh_reconciler *reconciler, char *text, size_t size) {
    const char *gateway_url = reconciler->options.job.gateway_url;
    if (reconciler->has_wanted || reconciler->state != EMPTY)
        describe_stage(reconciler, text, size);
    else if (reconciler->is_heard)
        snprintf(text, size, "Waits as a spare: %.120s has no layers for it", gateway_url);
    else
        snprintf(text, size, "Asks %.120s, which has not answered", gateway_url);
}

void lh_reconciler_read_report(const lh_reconciler *reconciler, lh_worker_report *report) {
    fill_report((void *)(uintptr_t)reconciler, report);
}

lh_mesh_totals lh_reconciler_count_gathers(const lh_reconciler *reconciler) {
    return reconciler->team ? lh_team_count(reconciler->team) : (lh_mesh_totals){0};
}

/* ---- Life ---- */

static lh_status open_alarm(lh_reconciler *reconciler, lh_error *error) {
    reconciler->team_alarm = malloc(sizeof *reconciler->team_alarm);
    if (!reconciler->team_alarm)
        return lh_fail(error, LH_ERR_NO_MEMORY, "reconciler: out of memory");
    reconciler->team_alarm->data = reconciler;
    uv_async_init(reconciler->options.loop, reconciler->team_alarm, on_team_alarm);
    return LH_OK;
}

static void on_alarm_closed(uv_handle_t *alarm) {
    free(alarm);
}

static void close_alarm(lh_reconciler *reconciler) {
    uv_close((uv_handle_t *)reconciler->team_alarm, on_alarm_closed);
}

lh_status lh_reconciler_create(const lh_reconciler_options *options, lh_reconciler **reconciler,
                               lh_error *error) {
    static const lh_control_renewal_events events = {
        .fill_report = fill_report, .on_answer = on_answer, .on_failure = on_failure};
    lh_reconciler *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "reconciler: out of memory");
    made->options = *options;
    made->instance = lh_random_u64();
    made->options.job.on_team_failed = on_team_failed;
    made->options.job.team_context = made;
    lh_status status = open_alarm(made, error);
    if (status != LH_OK)
        goto fail_after_calloc;
    status = lh_prepared_stage_create(options->loop, &made->options.job, on_prepared_change, made,
                                      &made->prepared, error);
    if (status != LH_OK)
        goto fail_after_alarm;
    status = lh_control_renewal_create(options->loop, options->job.gateway_url, options->name,
                                       options->job.tls, &events, made, &made->renewal, error);
    if (status != LH_OK)
        goto fail_after_prepared;
    lh_server_watch(options->server, on_next_change, on_trouble, made);
    *reconciler = made;
    return LH_OK;

fail_after_prepared:
    lh_prepared_stage_close(made->prepared, NULL, NULL);
fail_after_alarm:
    close_alarm(made);
fail_after_calloc:
    free(made);
    return status;
}

void lh_reconciler_leave(lh_reconciler *reconciler, void (*on_released)(void *), void *context) {
    reconciler->departure.is_leaving = true;
    reconciler->on_released = on_released;
    reconciler->released_context = context;
    report_soon(reconciler);
}

/* Nothing is left but what the pool and the server still do. */
static void finish_close(lh_reconciler *reconciler) {
    if (reconciler->renewal || reconciler->prepared || reconciler->state == BUILDING ||
        reconciler->state == TAKING_AWAY) {
        return;
    }
    void (*on_closed)(void *) = reconciler->on_closed;
    void *context = reconciler->closed_context;
    close_alarm(reconciler);
    free(reconciler);
    if (on_closed)
        on_closed(context);
}

static void on_renewal_closed(void *context) {
    lh_reconciler *reconciler = context;
    reconciler->renewal = NULL;
    finish_close(reconciler);
}

static void on_prepared_closed(void *context) {
    lh_reconciler *reconciler = context;
    reconciler->prepared = NULL;
    finish_close(reconciler);
}

void lh_reconciler_close(lh_reconciler *reconciler, void (*on_closed)(void *), void *context) {
    reconciler->closing = true;
    lh_server_watch(reconciler->options.server, NULL, NULL, NULL);
    reconciler->on_closed = on_closed;
    reconciler->closed_context = context;
    if (reconciler->job)
        lh_stage_job_cancel(reconciler->job);
    if (reconciler->team && reconciler->state == HELD)
        take_away(reconciler);
    lh_prepared_stage_close(reconciler->prepared, on_prepared_closed, reconciler);
    lh_control_renewal_close(reconciler->renewal, on_renewal_closed, reconciler);
}
