/* The engine's thread: plugs the chains' conductors to libuv, to their first hops (engine_chain.c), to the fleet port and to the front
 * desk. What happens is the conductors'; here is only how it hears of it and how its wishes are done. */
#include "gateway/engine/engine_state.h"

#include "common/clock.h"
#include "common/log.h"
#include "gateway/engine/fleet_view_json.h"

#include <stdlib.h>
#include <string.h>

/* ---- One turn ---------------------------------------------------------------------------------------------------- */

static lh_engine_state current_state(lh_engine *engine) {
    bool is_up = lh_replicas_is_up(engine->replicas);
    engine->was_ready |= is_up;
    if (atomic_load(&engine->is_draining))
        return LH_ENGINE_DRAINING;
    is_up |= lh_replicas_is_changing_over(engine->replicas, lh_clock_us());
    return is_up ? LH_ENGINE_READY : engine->was_ready ? LH_ENGINE_NO_CHAIN : LH_ENGINE_LOADING;
}

static void publish(lh_engine *engine) {
    lh_scheduler_figures figures = lh_replicas_figures(engine->replicas);
    bool is_draining = atomic_load(&engine->is_draining);
    uint64_t positions, positions_free;
    lh_replicas_positions(engine->replicas, &positions, &positions_free);
    atomic_store(&engine->state, (int)current_state(engine));
    atomic_store(&engine->running, figures.running);
    atomic_store(&engine->waiting, figures.waiting);
    atomic_store(&engine->positions, positions);
    atomic_store(&engine->positions_free, positions_free);
    lh_front_desk_set_gate(engine->desk,
                           is_draining ? INT64_MIN : lh_replicas_open_until_us(engine->replicas), positions,
                           is_draining ? "the gateway is stopping" : "no complete chain of workers is there");
}

static void on_timer(uv_timer_t *timer);

static void set_timer(lh_engine *engine) {
    int64_t deadline_us = lh_replicas_deadline_us(engine->replicas), now_us = lh_clock_us();
    if (deadline_us == INT64_MAX) {
        uv_timer_stop(&engine->timer);
        return;
    }
    uint64_t wait_ms = deadline_us > now_us ? (uint64_t)(deadline_us - now_us + 999) / 1000 : 0;
    uv_update_time(&engine->loop);
    uv_timer_start(&engine->timer, on_timer, wait_ms, 0);
}

void lh_engine_turn(lh_engine *engine) {
    lh_action action;
    uint32_t index;
    if (engine->is_closing)
        return;
    while (lh_replicas_next_action(engine->replicas, lh_clock_us(), &index, &action))
        lh_engine_chain_act(&engine->chains[index], &action);
    publish(engine);
    set_timer(engine);
}

static void on_timer(uv_timer_t *timer) {
    lh_engine *engine = timer->data;
    lh_replicas_tick(engine->replicas, lh_clock_us());
    lh_engine_turn(engine);
}

/* ---- What is heard ----------------------------------------------------------------------------------------------- */

static lh_status on_report(void *context, const lh_worker_report *report, lh_fleet_answer *answer,
                           lh_error *error) {
    lh_engine *engine = context;
    for (uint32_t i = 0; i < lh_replicas_count(engine->replicas); i++)
        lh_engine_chain_measure(&engine->chains[i]);
    lh_status status = lh_replicas_put(engine->replicas, report, lh_clock_us(), answer, error);
    lh_engine_turn(engine);
    return status;
}

/* Only the last worker of the chain may bring tokens. */
static bool may_bring_results(const lh_engine *engine, uint32_t index, const char *peer_name) {
    const lh_fleet *fleet = lh_conductor_fleet(lh_replicas_at(engine->replicas, index));
    const lh_chain *chain = lh_fleet_chain(fleet);
    if (!engine->options.tls || chain->stage_count == 0)
        return true;
    const char *last = chain->stages[chain->stage_count - 1].name;
    const lh_worker *worker = lh_registry_find(lh_fleet_registry(fleet), last);
    return strcmp(peer_name, last) == 0 || (worker && strcmp(peer_name, worker->report.site) == 0);
}

static lh_status on_results(void *context, const char *chain, const char *peer_name, uint32_t epoch,
                            uint64_t step, const lh_step_result *results, uint32_t count, lh_error *error) {
    lh_engine *engine = context;
    int index = lh_replicas_find(engine->replicas, chain);
    if (index < 0)
        return lh_fail(error, LH_ERR_NOT_FOUND, "there is no chain %s", chain);
    if (!may_bring_results(engine, (uint32_t)index, peer_name))
        return lh_fail(error, LH_ERR_INVALID, "the certificate of %s is not that of the chain's last worker",
                       peer_name);
    int64_t now_us = lh_clock_us();
    if (engine->recorder)
        lh_step_recorder_results(engine->recorder, epoch, step, now_us);
    lh_status status =
        lh_replicas_results(engine->replicas, (uint32_t)index, epoch, step, results, count, now_us, error);
    lh_engine_turn(engine);
    return status;
}

static void on_event(void *context, uint64_t handle, const lh_sequence_event *event) {
    lh_engine *engine = context;
    if (engine->options.logs_digests && event->kind == LH_SEQUENCE_TOKEN && event->digest)
        lh_log(LH_LOG_INFO, "engine", "digest token=%u position=%u digest=%016llx sequence=%llu",
               event->token, event->position, (unsigned long long)event->digest, (unsigned long long)handle);
    lh_event_mail_keep(engine->mail, handle, event);
}

static void deliver(void *context, uint64_t handle, const lh_sequence_event *event) {
    lh_engine *engine = context;
    lh_front_desk_deliver(engine->desk, handle, event);
}

static void on_written(uv_prepare_t *prepare) {
    lh_engine *engine = prepare->data;
    lh_event_mail_send(engine->mail);
}

static void take_submissions(lh_engine *engine) {
    lh_sequence *sequence;
    while ((sequence = lh_front_desk_take_submission(engine->desk))) {
        lh_error error;
        uint64_t handle = sequence->handle;
        lh_status status = lh_replicas_submit(engine->replicas, sequence, lh_clock_us(), &error);
        if (status != LH_OK)
            lh_front_desk_deliver(
                engine->desk, handle,
                &(lh_sequence_event){.kind = LH_SEQUENCE_FAILED, .status = status, .message = error.message});
    }
}

static void take_cancels(lh_engine *engine) {
    uint64_t handle;
    while (lh_front_desk_take_cancel(engine->desk, &handle))
        lh_replicas_cancel(engine->replicas, handle);
}

/* ---- GET /fleet -------------------------------------------------------------------------------------------------- */

static char *render_fleet(void *context) {
    lh_engine *engine = context;
    static const char *const states[] = {"loading", "ready", "no_chain", "draining"};
    lh_fleet_view view = {.state = states[current_state(engine)],
                          .sequences_max = engine->options.scheduler.sequences_max,
                          .queue_max = engine->options.scheduler.queue_max};
    for (uint32_t i = 0; i < lh_replicas_count(engine->replicas); i++)
        lh_engine_hop_read_profile(engine->chains[i].hop, &view.first_hops[i]);
    return lh_fleet_view_render(engine->replicas, lh_fleet_server_model(engine->server), &view,
                                lh_clock_us());
}

static void answer_queries(lh_engine *engine) {
    lh_fleet_queries_answer(engine->queries, engine->is_closing ? NULL : render_fleet, engine);
}

char *lh_engine_fleet_json(lh_engine *engine) {
    return lh_fleet_queries_ask(engine->queries);
}

/* ---- Beginning and end ------------------------------------------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *handle) {
    (void)handle;
}

static void on_part_closed(void *context) {
    lh_engine *engine = context;
    if (--engine->parts_open > 0)
        return;
    uv_close((uv_handle_t *)&engine->wake, on_handle_closed);
    uv_close((uv_handle_t *)&engine->timer, on_handle_closed);
    uv_close((uv_handle_t *)&engine->written, on_handle_closed);
}

static void close_parts(lh_engine *engine) {
    engine->parts_open = 1;
    for (uint32_t i = 0; i < LH_REPLICAS_MAX; i++) {
        if (!engine->chains[i].hop)
            continue;
        engine->parts_open++;
        lh_engine_hop_close(engine->chains[i].hop, on_part_closed, engine);
    }
    engine->parts_open += engine->server != NULL;
    if (engine->server)
        lh_fleet_server_close(engine->server, on_part_closed, engine);
    on_part_closed(engine);
}

static void begin_closing(lh_engine *engine) {
    engine->is_closing = true;
    uv_timer_stop(&engine->timer);
    answer_queries(engine);
    lh_event_mail_send(engine->mail);
    lh_front_desk_close(engine->desk, LH_ERR_UNAVAILABLE, "the gateway is stopping");
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
        lh_replicas_hold(engine->replicas, NULL);
        lh_replicas_tick(engine->replicas, lh_clock_us());
    }
    take_submissions(engine);
    take_cancels(engine);
    lh_engine_turn(engine);
    answer_queries(engine);
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

static lh_status create_recorder(lh_engine *engine, lh_error *error) {
    engine->parts = calloc(engine->options.scheduler.sequences_max, sizeof *engine->parts);
    if (!engine->parts)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for traces of steps");
    return lh_step_recorder_create(engine->options.traces, &engine->recorder, error);
}

static lh_status create_parts(lh_engine *engine, lh_error *error) {
    const lh_engine_options *o = &engine->options;
    const lh_scheduler_sink sink = {engine, on_event};
    const lh_fleet_server_owner owner = {engine, on_report, on_results};
    engine->places = o->replicas * o->scheduler.sequences_max + o->scheduler.queue_max;
    lh_status status = lh_replicas_create(o->replicas, &o->fleet, &o->scheduler, o->profile, &sink,
                                          lh_clock_us(), &engine->replicas, error);
    if (status == LH_OK)
        status = lh_front_desk_create(engine->places, o->fleet.context, wake, engine, &engine->desk, error);
    if (status == LH_OK)
        status = lh_event_mail_create(deliver, engine, &engine->mail, error);
    if (status == LH_OK)
        status = lh_fleet_queries_create(wake, engine, &engine->queries, error);
    for (uint32_t i = 0; i < o->replicas && status == LH_OK; i++)
        status = lh_engine_chain_create(engine, i, error);
    if (status == LH_OK)
        status = lh_fleet_server_create(&engine->loop, o->fleet_listen, o->tls, &o->limits, o->model_name,
                                        o->model_file, &owner, &engine->server, error);
    if (status == LH_OK && o->traces)
        status = create_recorder(engine, error);
    if (status != LH_OK)
        return status;
    lh_replicas_hold(engine->replicas, "the digests of the model's tensors are being computed");
    status = lh_model_file_start_digests(o->model_file, o->digest_threads, wake, engine, error);
    if (status == LH_OK && pthread_create(&engine->thread, NULL, run, engine) != 0)
        status = lh_fail(error, LH_ERR_IO, "the engine's thread could not be started");
    return status;
}

static void free_engine(lh_engine *engine) {
    lh_step_recorder_destroy(engine->recorder);
    free(engine->parts);
    lh_event_mail_destroy(engine->mail);
    lh_front_desk_destroy(engine->desk);
    lh_replicas_destroy(engine->replicas);
    lh_fleet_queries_destroy(engine->queries);
    uv_loop_close(&engine->loop);
    free(engine);
}

/* The thread does not run: what has been opened is closed here. */
static void undo(lh_engine *engine) {
    lh_model_file_stop_digests(engine->options.model_file);
    engine->is_closing = true;
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
    e->options = *options;
    uv_async_init(&e->loop, &e->wake, on_wake);
    uv_timer_init(&e->loop, &e->timer);
    uv_prepare_init(&e->loop, &e->written);
    uv_prepare_start(&e->written, on_written);
    e->wake.data = e->timer.data = e->written.data = e;
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

/* ---- Any thread -------------------------------------------------------------------------------------------------- */

lh_status lh_engine_submit(lh_engine *engine, const lh_sequence_request *requests, uint32_t count,
                           uint64_t *handles, lh_error *error) {
    return lh_front_desk_submit(engine->desk, requests, count, lh_clock_us(), handles, error);
}

void lh_engine_cancel(lh_engine *engine, uint64_t handle) {
    lh_front_desk_cancel(engine->desk, handle);
}

void lh_engine_cancel_later(lh_engine *engine, uint64_t handle) {
    lh_front_desk_cancel_later(engine->desk, handle);
}

lh_engine_state lh_engine_current_state(const lh_engine *engine) {
    return (lh_engine_state)atomic_load(&engine->state);
}

void lh_engine_load(const lh_engine *engine, uint32_t *running, uint32_t *waiting) {
    *running = atomic_load(&engine->running);
    *waiting = atomic_load(&engine->waiting);
}

lh_engine_room lh_engine_current_room(const lh_engine *engine) {
    uint32_t taken = lh_front_desk_count(engine->desk);
    return (lh_engine_room){engine->places, engine->places - taken, atomic_load(&engine->positions),
                            atomic_load(&engine->positions_free)};
}
