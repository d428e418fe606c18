/* The engine's thread: connects the router and the chains' controllers, which decide, to what they
 * decide about: the chains' drivers, the fleet port, the submission queue and the clock. Whatever
 * is heard is told to them, and then a turn does all that they want done. */
#include "gateway/engine/engine.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/random_id.h"
#include "common/metrics/published_text.h"
#include "gateway/engine/chain_driver.h"
#include "gateway/engine/deferred_events.h"
#include "gateway/engine/engine_options.h"
#include "gateway/engine/fleet_map_json.h"
#include "gateway/engine/fleet_metrics.h"
#include "gateway/engine/fleet_queries.h"
#include "gateway/engine/fleet_view_json.h"
#include "gateway/engine/router.h"
#include "gateway/engine/submission_queue.h"
#include "gateway/fleet/port/server.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Prometheus asks every few seconds at most. */
#define METRICS_EVERY_MS 1000
/* New requests wait for a chain that is ready within this time. */
#define SHORT_WAIT_US 10000000

struct lh_engine {
    lh_engine_options options;
    pthread_t thread;
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t timer, alive;
    /* Runs before the loop waits for news, when connections have written what they had to. */
    uv_prepare_t written;
    uv_timer_t metrics_timer;

    /* Of the engine's thread, but for the submission queue and the queries, which any thread uses.
     */
    lh_router *router;
    lh_submission_queue *submissions;
    lh_deferred_events *deferred;
    lh_fleet_queries *queries;
    lh_published_text *metrics;
    lh_chain_driver *drivers[LH_REPLICAS_MAX]; /* of each chain */
    lh_fleet_server *server;
    uint32_t parts_open; /* drivers and server: the loop ends when all have closed */
    bool was_ready, is_closing;
    /* The next chain takes so long to load that new requests do better later, or elsewhere. */
    bool is_away_for_long;

    /* Read and written by any thread. */
    atomic_bool is_draining, is_stopping;
    atomic_int state;
    atomic_uint running, waiting;
    uint32_t places; /* sequences that may run or wait; constant */
    _Atomic uint64_t positions, positions_free;
    pthread_mutex_t outage_mutex;
    lh_engine_outage outage; /* under it */
};

/* ---- One turn ---- */

static lh_engine_state current_state(lh_engine *engine) {
    bool is_up = lh_router_is_up(engine->router);
    engine->was_ready |= is_up;
    if (atomic_load(&engine->is_draining))
        return LH_ENGINE_DRAINING;
    is_up |= lh_router_is_changing_over(engine->router, lh_clock_us());
    return is_up ? LH_ENGINE_READY : engine->was_ready ? LH_ENGINE_NO_CHAIN : LH_ENGINE_LOADING;
}

/* What keeps sequences out, where something does. */
static void refuse(const lh_engine *engine, bool is_draining, lh_error *refusal) {
    const char *model = is_draining ? "" : lh_router_refusal(engine->router);
    if (model[0])
        lh_fail(refusal, LH_ERR_UNSUPPORTED, "%s", model);
    else
        lh_fail(refusal, LH_ERR_UNAVAILABLE,
                is_draining ? "the gateway is stopping" : "no complete chain of workers is there");
}

/* Of the chain that is likely to be ready first. */
static void note_load(const lh_chain_controller *controller, lh_engine_outage *outage) {
    const lh_load_estimate load = lh_chain_controller_load(controller, lh_clock_us());
    if (!load.is_loading || (outage->is_loading && outage->ready_us <= load.ready_us))
        return;
    outage->is_loading = true;
    outage->loaded_percent = load.percent;
    outage->ready_us = load.ready_us;
}

/* The reason is that of the first chain that is not ready. */
static void publish_outage(lh_engine *engine, bool is_up) {
    lh_engine_outage now = {.is_out = !is_up};
    for (uint32_t i = 0; !is_up && i < lh_router_count(engine->router); i++) {
        const lh_chain_controller *controller = lh_router_controller(engine->router, i);
        const lh_fleet *fleet = lh_chain_controller_fleet(controller);
        note_load(controller, &now);
        if (now.reason[0])
            continue;
        snprintf(now.reason, sizeof now.reason, "%s", lh_fleet_reason(fleet));
        snprintf(now.shortfall, sizeof now.shortfall, "%s", lh_fleet_shortfall(fleet));
    }
    engine->is_away_for_long =
        now.is_loading && now.ready_us != INT64_MAX && now.ready_us - lh_clock_us() > SHORT_WAIT_US;
    pthread_mutex_lock(&engine->outage_mutex);
    engine->outage = now;
    pthread_mutex_unlock(&engine->outage_mutex);
}

static void publish(lh_engine *engine) {
    uint32_t running, waiting;
    bool is_draining = atomic_load(&engine->is_draining);
    uint64_t positions, positions_free;
    lh_router_load(engine->router, &running, &waiting);
    lh_router_positions(engine->router, &positions, &positions_free);
    lh_engine_state state = current_state(engine),
                    before = (lh_engine_state)atomic_load(&engine->state);
    if (state != LH_ENGINE_READY || before != LH_ENGINE_READY)
        publish_outage(engine, state == LH_ENGINE_READY);
    bool is_closed = is_draining || engine->is_away_for_long;
    atomic_store(&engine->running, running);
    atomic_store(&engine->waiting, waiting);
    atomic_store(&engine->positions, positions);
    atomic_store(&engine->positions_free, positions_free);
    lh_error refusal;
    refuse(engine, is_draining, &refusal);
    lh_submission_queue_set_gate(engine->submissions,
                                 is_closed ? INT64_MIN : lh_router_open_until_us(engine->router),
                                 positions, &refusal);
    /* Last: whoever has seen that it is ready is let in. */
    atomic_store(&engine->state, (int)state);
}

static void on_timer(uv_timer_t *timer);

static void set_timer(lh_engine *engine) {
    int64_t deadline_us = lh_router_deadline_us(engine->router), now_us = lh_clock_us();
    if (deadline_us == INT64_MAX) {
        uv_timer_stop(&engine->timer);
        return;
    }
    uint64_t wait_ms = deadline_us > now_us ? (uint64_t)(deadline_us - now_us + 999) / 1000 : 0;
    uv_update_time(&engine->loop);
    uv_timer_start(&engine->timer, on_timer, wait_ms, 0);
}

/* After everything that a chain's controller was told: does what all of them want done. */
static void run_turn(lh_engine *engine) {
    lh_action action;
    uint32_t index;
    if (engine->is_closing)
        return;
    while (lh_router_next_action(engine->router, lh_clock_us(), &index, &action))
        lh_chain_driver_act(engine->drivers[index], &action);
    publish(engine);
    set_timer(engine);
}

static void on_timer(uv_timer_t *timer) {
    lh_engine *engine = timer->data;
    lh_router_tick(engine->router, lh_clock_us());
    run_turn(engine);
}

static void on_news(void *context) {
    run_turn(context);
}

static void on_alive(uv_timer_t *timer) {
    lh_engine *engine = timer->data;
    engine->options.on_alive(engine->options.alive_context, engine);
}

/* ---- What the fleet port says ---- */

static lh_status on_report(void *context, const lh_worker_report *report, lh_fleet_answer *answer,
                           lh_error *error) {
    lh_engine *engine = context;
    for (uint32_t i = 0; i < lh_router_count(engine->router); i++)
        lh_chain_driver_measure(engine->drivers[i]);
    lh_status status = lh_router_put(engine->router, report, lh_clock_us(), answer, error);
    run_turn(engine);
    return status;
}

static lh_status on_results(void *context, const char *chain_name, const lh_tls_identity *peer,
                            uint32_t epoch, uint64_t step, const lh_step_result *results,
                            uint32_t count, lh_error *error) {
    lh_engine *engine = context;
    int index = lh_router_find(engine->router, chain_name);
    if (index < 0)
        return lh_fail(error, LH_ERR_NOT_FOUND, "there is no chain %s", chain_name);
    lh_status status =
        lh_chain_driver_results(engine->drivers[index], peer, epoch, step, results, count, error);
    run_turn(engine);
    return status;
}

static void on_unreadable(void *context, const char *chain_name, const lh_tls_identity *peer,
                          uint32_t epoch, uint64_t step, const char *message) {
    lh_engine *engine = context;
    int index = lh_router_find(engine->router, chain_name);
    if (index < 0)
        return;
    lh_chain_driver_refuse_results(engine->drivers[index], peer, epoch, step, message);
    run_turn(engine);
}

/* It can say nothing any more: no chain is to rely on it. */
static void on_revoked(void *context, const char *worker) {
    lh_engine *engine = context;
    lh_log(LH_LOG_WARN, "fleet", "a worker's certificates are revoked worker=%s", worker);
    lh_router_forget(engine->router, worker, lh_clock_us());
    run_turn(engine);
}

/* ---- Sequences ---- */

/* The scheduler's event, which the deferred events keep until they hand it to deliver. */
static void on_event(void *context, uint64_t handle, const lh_sequence_event *event) {
    lh_engine *engine = context;
    if (engine->options.logs_digests && event->kind == LH_SEQUENCE_TOKEN && event->answer->digest)
        lh_log(LH_LOG_INFO, "engine", "digest token=%u position=%u digest=%016llx sequence=%llu",
               event->token, event->position, (unsigned long long)event->answer->digest,
               (unsigned long long)handle);
    lh_deferred_events_push(engine->deferred, handle, event);
}

static void deliver(void *context, uint64_t handle, const lh_sequence_event *event) {
    lh_engine *engine = context;
    lh_submission_queue_deliver(engine->submissions, handle, event);
}

static void on_written(uv_prepare_t *prepare) {
    lh_engine *engine = prepare->data;
    lh_deferred_events_send(engine->deferred);
}

static void take_submissions(lh_engine *engine) {
    lh_sequence *sequence;
    while ((sequence = lh_submission_queue_take_submission(engine->submissions))) {
        lh_error error;
        uint64_t handle = sequence->handle;
        lh_status status = lh_router_submit(engine->router, sequence, lh_clock_us(), &error);
        if (status != LH_OK)
            lh_submission_queue_deliver(engine->submissions, handle,
                                        &(lh_sequence_event){.kind = LH_SEQUENCE_FAILED,
                                                             .status = status,
                                                             .message = error.message});
    }
}

static void take_cancels(lh_engine *engine) {
    uint64_t handle;
    while (lh_submission_queue_take_cancel(engine->submissions, &handle))
        lh_router_cancel(engine->router, handle);
}

/* ---- GET /fleet ---- */

static lh_fleet_view view_fleet(lh_engine *engine) {
    static const char *const states[] = {"loading", "ready", "no_chain", "draining"};
    lh_fleet_view view = {.state = states[current_state(engine)],
                          .sequences_max = engine->options.scheduler.sequences_max,
                          .queue_max = engine->options.scheduler.queue_max,
                          .members = lh_fleet_server_members(engine->server),
                          .self = engine->options.self,
                          .numbers = &engine->options.fleet};
    lh_self_description_renew(&view.self, engine->options.tls);
    for (uint32_t i = 0; i < lh_router_count(engine->router); i++)
        view.first_hops[i] = lh_chain_driver_first_hop(engine->drivers[i]);
    return view;
}

static char *render_fleet(void *context, lh_fleet_question question) {
    lh_engine *engine = context;
    if (question == LH_FLEET_MAP)
        return lh_fleet_map_render(engine->router, lh_clock_us());
    const lh_fleet_view view = view_fleet(engine);
    return lh_fleet_view_render(engine->router, lh_fleet_server_model(engine->server), &view,
                                lh_clock_us());
}

char *lh_engine_fleet_json(lh_engine *engine) {
    return lh_fleet_queries_ask(engine->queries, LH_FLEET_STATE);
}

char *lh_engine_fleet_map_json(lh_engine *engine) {
    return lh_fleet_queries_ask(engine->queries, LH_FLEET_MAP);
}

/* ---- Metrics ---- */

static double unix_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* What there is no memory for is published the next time. */
static void on_metrics_timer(uv_timer_t *timer) {
    lh_engine *engine = timer->data;
    const lh_fleet_view view = view_fleet(engine);
    lh_exposition exposition = {0};
    lh_text_buffer text;
    lh_fleet_metrics_render(engine->router, &view, lh_clock_us(), unix_now(), &exposition);
    if (lh_exposition_take(&exposition, &text, NULL) == LH_OK)
        lh_published_text_put(engine->metrics, &text);
}

void lh_engine_render_metrics(lh_engine *engine, lh_exposition *e) {
    static const char *const names[] = {"loading", "ready", "no_chain", "draining"};
    lh_engine_state state = lh_engine_current_state(engine);
    lh_engine_room room = lh_engine_current_room(engine);
    lh_exposition_family(e, "longhaul_gateway_state", LH_METRIC_GAUGE,
                         "1 for the state that the gateway is in, as GET /health tells it.");
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++)
        lh_exposition_count(e, LH_METRIC_LABELS({"state", names[i]}), i == (uint32_t)state);
    lh_exposition_family(e, "longhaul_requests_running", LH_METRIC_GAUGE,
                         "Sequences that run on the chains.");
    lh_exposition_count(e, NULL, room.running);
    lh_exposition_family(e, "longhaul_requests_waiting", LH_METRIC_GAUGE,
                         "Sequences that wait for a place.");
    lh_exposition_count(e, NULL, room.waiting);
    lh_exposition_family(e, "longhaul_requests_room", LH_METRIC_GAUGE,
                         "Further sequences that would be admitted; 0: they are refused with 429.");
    lh_exposition_count(e, NULL, room.sequences_free);
    lh_published_text_append_to(engine->metrics, e);
}

/* ---- Beginning and end ---- */

static void on_part_closed(void *context) {
    lh_engine *engine = context;
    assert(engine->is_closing && engine->parts_open > 0);
    if (--engine->parts_open > 0)
        return;
    uv_close((uv_handle_t *)&engine->wake, NULL);
    uv_close((uv_handle_t *)&engine->timer, NULL);
    uv_close((uv_handle_t *)&engine->alive, NULL);
    uv_close((uv_handle_t *)&engine->metrics_timer, NULL);
    uv_close((uv_handle_t *)&engine->written, NULL);
}

/* One more is counted open until all have been told to close. */
static void close_parts(lh_engine *engine) {
    assert(!engine->is_closing);
    engine->is_closing = true;
    engine->parts_open = 1;
    for (uint32_t i = 0; i < LH_REPLICAS_MAX; i++) {
        if (!engine->drivers[i])
            continue;
        engine->parts_open++;
        lh_chain_driver_close(engine->drivers[i], on_part_closed, engine);
    }
    engine->parts_open += engine->server != NULL;
    if (engine->server)
        lh_fleet_server_close(engine->server, on_part_closed, engine);
    on_part_closed(engine);
}

static void begin_closing(lh_engine *engine) {
    uv_timer_stop(&engine->timer);
    uv_timer_stop(&engine->metrics_timer);
    lh_deferred_events_send(engine->deferred);
    lh_submission_queue_close(engine->submissions, LH_ERR_UNAVAILABLE, "the gateway is stopping");
    close_parts(engine);
}

static void on_wake(uv_async_t *async) {
    lh_engine *engine = async->data;
    if (engine->is_closing)
        return;
    if (atomic_load(&engine->is_stopping)) {
        begin_closing(engine);
        return;
    }
    if (lh_model_file_has_digests(engine->options.model_file)) {
        lh_router_hold(engine->router, NULL);
        lh_router_tick(engine->router, lh_clock_us());
    }
    take_submissions(engine);
    take_cancels(engine);
    run_turn(engine);
    lh_fleet_queries_answer(engine->queries, render_fleet, engine);
}

static void wake(void *context) {
    lh_engine *engine = context;
    uv_async_send(&engine->wake);
}

static void *run(void *argument) {
    lh_engine *engine = argument;
    uv_run(&engine->loop, UV_RUN_DEFAULT);
    return NULL;
}

static lh_status create_driver(lh_engine *engine, uint32_t index, lh_error *error) {
    const lh_engine_options *o = &engine->options;
    const lh_chain_driver_options options = {.loop = &engine->loop,
                                             .name = lh_router_name(engine->router, index),
                                             .controller =
                                                 lh_router_controller(engine->router, index),
                                             .tls = o->tls,
                                             .limits = o->limits,
                                             .traces = o->traces,
                                             .sequences_max = o->scheduler.sequences_max,
                                             .on_news = on_news,
                                             .context = engine};
    return lh_chain_driver_create(&options, &engine->drivers[index], error);
}

static lh_status create_parts(lh_engine *engine, lh_error *error) {
    const lh_engine_options *o = &engine->options;
    const lh_scheduler_sink sink = {engine, on_event};
    const lh_fleet_server_owner owner = {engine, on_report, on_results, on_unreadable, on_revoked};
    engine->places = o->replicas * o->scheduler.sequences_max + o->scheduler.queue_max;
    lh_status status = lh_router_create(o->replicas, &o->fleet, &o->scheduler, &sink, lh_clock_us(),
                                        &engine->router, error);
    if (status == LH_OK)
        status =
            lh_router_check_answers(engine->router, o->spot_check_rate, lh_random_u64(), error);
    if (status == LH_OK)
        status = lh_submission_queue_create(engine->places, o->fleet.context, wake, engine,
                                            &engine->submissions, error);
    if (status == LH_OK)
        status = lh_deferred_events_create(deliver, engine, &engine->deferred, error);
    if (status == LH_OK)
        status = lh_fleet_queries_create(wake, engine, &engine->queries, error);
    if (status == LH_OK)
        status = lh_published_text_create(&engine->metrics, error);
    for (uint32_t i = 0; i < o->replicas && status == LH_OK; i++)
        status = create_driver(engine, i, error);
    if (status == LH_OK)
        status =
            lh_fleet_server_create(&engine->loop, o->fleet_listen, o->tls, &o->limits,
                                   o->model_name, o->model_file, &owner, &engine->server, error);
    if (status == LH_OK && o->tls)
        status = lh_fleet_server_open_members(engine->server, &engine->loop, o->tls, &o->limits,
                                              o->membership, error);
    if (status != LH_OK)
        return status;
    if (o->publishes_metrics)
        uv_timer_start(&engine->metrics_timer, on_metrics_timer, 0, METRICS_EVERY_MS);
    lh_router_hold(engine->router, "the digests of the model's tensors are being computed");
    status = lh_model_file_start_digests(o->model_file, o->digest_threads, o->self.state_dir, wake,
                                         engine, error);
    if (status == LH_OK && pthread_create(&engine->thread, NULL, run, engine) != 0)
        status = lh_fail(error, LH_ERR_IO, "the engine's thread could not be started");
    return status;
}

static void free_engine(lh_engine *engine) {
    lh_deferred_events_destroy(engine->deferred);
    lh_submission_queue_destroy(engine->submissions);
    lh_router_destroy(engine->router);
    lh_fleet_queries_destroy(engine->queries);
    lh_published_text_destroy(engine->metrics);
    uv_loop_close(&engine->loop);
    pthread_mutex_destroy(&engine->outage_mutex);
    free(engine);
}

/* The thread does not run: what has been opened is closed here. */
static void undo(lh_engine *engine) {
    lh_model_file_stop_digests(engine->options.model_file);
    close_parts(engine);
    uv_run(&engine->loop, UV_RUN_DEFAULT);
    free_engine(engine);
}

lh_status lh_engine_create(const lh_engine_options *options, lh_engine **engine, lh_error *error) {
    lh_engine *e = calloc(1, sizeof *e);
    if (!e || uv_loop_init(&e->loop) != 0) {
        free(e);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the engine");
    }
    pthread_mutex_init(&e->outage_mutex, NULL);
    e->options = *options;
    uv_async_init(&e->loop, &e->wake, on_wake);
    uv_timer_init(&e->loop, &e->timer);
    uv_timer_init(&e->loop, &e->alive);
    uv_timer_init(&e->loop, &e->metrics_timer);
    uv_prepare_init(&e->loop, &e->written);
    uv_prepare_start(&e->written, on_written);
    e->wake.data = e->timer.data = e->alive.data = e->metrics_timer.data = e->written.data = e;
    if (e->options.alive_interval_ms)
        uv_timer_start(&e->alive, on_alive, 0, e->options.alive_interval_ms);
    atomic_store(&e->state, LH_ENGINE_LOADING);
    atomic_store(&e->positions, UINT64_MAX);
    atomic_store(&e->positions_free, UINT64_MAX);
    lh_status status = create_parts(e, error);
    if (status != LH_OK) {
        undo(e);
        return status;
    }
    *engine = e;
    return LH_OK;
}

void lh_engine_destroy(lh_engine *engine) {
    if (!engine)
        return;
    lh_model_file_stop_digests(engine->options.model_file);
    atomic_store(&engine->is_stopping, true);
    uv_async_send(&engine->wake);
    pthread_join(engine->thread, NULL);
    free_engine(engine);
}

int lh_engine_fleet_port(const lh_engine *engine) {
    return lh_fleet_server_port(engine->server);
}

void lh_engine_drain(lh_engine *engine) {
    atomic_store(&engine->is_draining, true);
    atomic_store(&engine->state, LH_ENGINE_DRAINING);
    uv_async_send(&engine->wake);
}

/* ---- Any thread ---- */

lh_status lh_engine_submit(lh_engine *engine, const lh_sequence_request *requests, uint32_t count,
                           uint64_t *handles, lh_error *error) {
    return lh_submission_queue_submit(engine->submissions, requests, count, lh_clock_us(), handles,
                                      error);
}

void lh_engine_cancel(lh_engine *engine, uint64_t handle) {
    lh_submission_queue_cancel(engine->submissions, handle);
}

void lh_engine_cancel_later(lh_engine *engine, uint64_t handle) {
    lh_submission_queue_cancel_later(engine->submissions, handle);
}

lh_engine_state lh_engine_current_state(const lh_engine *engine) {
    return (lh_engine_state)atomic_load(&engine->state);
}

void lh_engine_refusal(const lh_engine *engine, lh_error *refusal) {
    lh_submission_queue_refusal(engine->submissions, refusal);
}

void lh_engine_current_outage(lh_engine *engine, lh_engine_outage *outage) {
    pthread_mutex_lock(&engine->outage_mutex);
    *outage = engine->outage;
    pthread_mutex_unlock(&engine->outage_mutex);
}

lh_engine_room lh_engine_current_room(const lh_engine *engine) {
    uint32_t taken = lh_submission_queue_count(engine->submissions);
    return (lh_engine_room){.running = atomic_load(&engine->running),
                            .waiting = atomic_load(&engine->waiting),
                            .sequences_max = engine->places,
                            .sequences_free = engine->places - taken,
                            .positions_max = atomic_load(&engine->positions),
                            .positions_free = atomic_load(&engine->positions_free)};
}
