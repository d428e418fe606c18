/* Requests in, and each event to the step that it is about; the route, the stage and the life of it
 * all. */
#include "worker/serve/server.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/log_limit.h"
#include "common/http2/probe.h"
#include "common/protocol/step_answer.h"
#include "common/protocol/trial/trial_request.h"
#include "worker/serve/authorization.h"
#include "worker/serve/frames.h"
#include "worker/serve/step_table.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct callback {
    void (*call)(void *context); /* NULL: nobody is told */
    void *context;
} callback;

struct lh_server {
    uv_loop_t *loop;
    char *name;
    lh_h2_limits limits;
    lh_h2_server *plain, *secure; /* NULL: none */
    uv_async_t woken;             /* the pipeline has something to poll */
    uv_check_t after_io;          /* counts what has left downstream */
    lh_pipeline *pipeline;
    lh_stage_meter meter; /* of the stage; without points where there is none */
    lh_next_hop hop;
    lh_hop_survey survey;
    lh_relay *relay;            /* NULL: it does not relay */
    lh_log_limit hop_log_limit; /* of its going down */
    lh_chain_place place;
    lh_step_table table;
    lh_stream_quota trials; /* of hops that end here */
    bool leaving;
    void (*on_change)(void *), (*on_trouble)(void *);
    void *change_context;
    callback on_idle, on_removed, on_closed; /* each is called once */
    unsigned open_parts; /* listeners and handles that are open or still closing */
    bool close_wanted, closing;
};

static void tell_once(callback *told) {
    callback now = *told;
    *told = (callback){0};
    if (now.call)
        now.call(now.context);
}

/* ---- From the steps ---- */

static void on_step_failed(void *context) {
    lh_server *server = context;
    if (server->on_trouble)
        server->on_trouble(server->change_context);
}

static void tell_if_idle(void *context) {
    lh_server *server = context;
    if (server->table.count == 0)
        tell_once(&server->on_idle);
}

/* ---- New requests ---- */

static void refuse(lh_server *server, lh_h2_stream *stream, int http_status, lh_status status,
                   const char *message) {
    char *body = lh_step_answer_render(server->name, status, message);
    if (!body || lh_h2_stream_respond(stream, http_status, body) != LH_OK)
        lh_h2_stream_cancel(stream);
    free(body);
}

static void answer_status(lh_server *server, lh_h2_stream *stream) {
    char body[512];
    const lh_chain_place *place = &server->place;
    const char *quote = place->is_set ? "\"" : "";
    snprintf(body, sizeof body,
             "{\"name\":\"%s\",\"chain\":%s%s%s,\"epoch\":%u,\"steps\":{\"active\":%u,\"done\":%"
             "llu,\"failed\":%llu,\"cancelled\":%llu}}",
             server->name, quote, place->is_set ? place->route.chain : "null", quote,
             place->is_set ? place->route.epoch : 0, server->table.count,
             (unsigned long long)server->table.done, (unsigned long long)server->table.failed,
             (unsigned long long)server->table.cancelled);
    lh_h2_stream_respond(stream, 200, body);
}

static bool is_in_chain(const lh_server *server, const char *chain) {
    return server->place.is_set && strcmp(chain, server->place.route.chain) == 0;
}

static lh_status check_stays(const lh_server *server, lh_error *error) {
    return server->leaving ? lh_fail(error, LH_ERR_UNAVAILABLE, "this worker is leaving") : LH_OK;
}

static lh_status check_place(const lh_server *server, const char *chain, lh_error *error) {
    if (!is_in_chain(server, chain))
        return lh_fail(error, LH_ERR_NOT_FOUND, "this worker is not in chain '%s'", chain);
    return check_stays(server, error);
}

static void take_step(lh_server *server, lh_h2_stream *stream, const lh_h2_request *http,
                      const lh_worker_request *request, const lh_h2_stream_events **events,
                      void **context) {
    lh_error error;
    lh_status status = check_place(server, request->chain, &error);
    if (status == LH_OK)
        status =
            lh_step_table_take_step(&server->table, stream, http, request, events, context, &error);
    if (status != LH_OK) {
        lh_step_table_count_failure(&server->table);
        refuse(server, stream, lh_step_answer_http_status(status), status, error.message);
    }
}

/* Whatever chain it is for: perhaps this worker will be in it. */
static void take_trial(lh_server *server, lh_h2_stream *stream, const lh_h2_request *http,
                       const lh_worker_request *request, const lh_h2_stream_events **events,
                       void **context) {
    lh_error error;
    lh_status status = check_stays(server, &error);
    if (status == LH_OK)
        lh_trial_take(&server->trials, stream, http, server->name, request->number, events,
                      context);
    else
        refuse(server, stream, lh_step_answer_http_status(status), status, error.message);
}

/* For a worker behind this one. */
static void pass_on(lh_server *server, const char *to, lh_h2_stream *stream,
                    const lh_h2_request *http, const lh_worker_request *request,
                    const lh_h2_stream_events **events, void **context) {
    if (server->relay)
        lh_relay_take(server->relay, to, stream, http, request, events, context);
    else
        refuse(server, stream, 404, LH_ERR_NOT_FOUND, "this worker does not relay (--relay)");
}

static void on_request(void *server_context, lh_h2_stream *stream, const lh_h2_request *http,
                       const lh_h2_stream_events **events, void **context) {
    lh_server *server = server_context;
    lh_worker_request request;
    lh_error error;
    const char *to = lh_h2_request_header(http, LH_RELAY_TO_HEADER);
    lh_worker_request_read(http, &request);
    if (to) {
        pass_on(server, to, stream, http, &request, events, context);
        return;
    }
    lh_status status = lh_authorize(&server->place, http, &request, &error);
    if (status != LH_OK) {
        lh_log(LH_LOG_DEBUG, "server", "a request is refused peer=%s path=%s error=\"%s\"",
               http->peer, http->path, error.message);
        refuse(server, stream, 403, status, error.message);
        return;
    }
    switch (request.kind) {
    case LH_REQUEST_REFUSED:
        refuse(server, stream, request.http_status, request.status, request.message);
        break;
    case LH_REQUEST_STEP:
        take_step(server, stream, http, &request, events, context);
        break;
    case LH_REQUEST_SHARDS:
        if (is_in_chain(server, request.chain))
            lh_step_table_take_shards(&server->table, stream, http, &request, events, context);
        else
            refuse(server, stream, 404, LH_ERR_NOT_FOUND, "this worker is not in that chain");
        break;
    case LH_REQUEST_TRIAL:
        take_trial(server, stream, http, &request, events, context);
        break;
    case LH_REQUEST_PROBE:
        lh_h2_probe_take(stream, events, context);
        break;
    case LH_REQUEST_HEALTH:
        lh_h2_stream_respond(stream, 200, "{\"status\":\"ok\"}");
        break;
    case LH_REQUEST_STATUS:
        answer_status(server, stream);
        break;
    }
}

/* ---- From the pipeline ---- */

static void on_consumed(void *context, void *step, size_t bytes) {
    lh_server *server = context;
    lh_step_table_note_consumed(&server->table, step, bytes);
}

static void on_removed(void *context) {
    tell_once(&((lh_server *)context)->on_removed);
}

static void wake(void *context) {
    lh_server *server = context;
    uv_async_send(&server->woken);
}

static void close_parts(lh_server *server);

static void on_woken(uv_async_t *handle) {
    lh_server *server = handle->data;
    if (server->pipeline)
        lh_pipeline_poll(server->pipeline);
    if (server->close_wanted)
        close_parts(server);
}

/* ---- From the next hop ---- */

static void after_io(uv_check_t *handle) {
    lh_server *server = handle->data;
    lh_step_table_count_sent(&server->table);
    if (server->relay)
        lh_relay_count_sent(server->relay);
}

static void tell_change(lh_server *server) {
    if (server->on_change)
        server->on_change(server->change_context);
}

static const char *name_or_gateway(const char *name) {
    return name[0] != '\0' ? name : "gateway";
}

static void note_next_state(lh_server *server, bool connected, const char *reason) {
    const lh_chain_route *route = &server->place.route;
    const char *name = name_or_gateway(route->next.worker);
    unsigned long long left_out;
    lh_next_hop_note_state(&server->hop, route->next.address, connected, reason);
    if (connected)
        lh_log(LH_LOG_INFO, "server", "next hop is connected next=%s address=%s", name,
               route->next.address);
    else if (lh_log_limit_take(&server->hop_log_limit, lh_clock_us(), &left_out))
        lh_log(LH_LOG_WARN, "server",
               "next hop is down next=%s address=%s reason=\"%s\" left_out=%llu", name,
               route->next.address, reason, left_out);
}

static void on_next_state(void *context, bool connected, const char *reason) {
    lh_server *server = context;
    note_next_state(server, connected, reason);
    tell_change(server);
}

/* ---- From the trial of another hop ---- */

static void on_trial(void *context) {
    lh_server *server = context;
    const lh_hop_trial_report *trial = lh_next_hop_read_trial(&server->hop);
    const char *name = name_or_gateway(trial->next), *address = server->hop.tried.next.address;
    if (trial->state == LH_HOP_TRIAL_PROVEN)
        lh_log(LH_LOG_INFO, "server", "a hop is proven next=%s address=%s", name, address);
    else if (trial->state == LH_HOP_TRIAL_FAILED)
        lh_log(LH_LOG_WARN, "server", "a hop cannot be used next=%s address=%s reason=\"%s\"", name,
               address, trial->error);
    tell_change(server);
}

void lh_server_try(lh_server *server, const lh_chain_route *route) {
    if (!lh_next_hop_try(&server->hop, route))
        return;
    lh_log(LH_LOG_INFO, "server", "a hop is tried next=%s address=%s",
           name_or_gateway(route->next.worker), route->next.address);
    on_trial(server);
}

/* ---- From the survey of a link ---- */

static void on_survey(void *context) {
    lh_server *server = context;
    lh_hop_trial_report survey;
    lh_hop_survey_read(&server->survey, &survey);
    if (survey.state == LH_HOP_TRIAL_FAILED)
        lh_log(LH_LOG_INFO, "server", "a link cannot be surveyed to=%s address=%s reason=\"%s\"",
               survey.next, survey.address, survey.error);
    else
        lh_log(LH_LOG_INFO, "server",
               "a link is surveyed to=%s address=%s mbit_per_s=%.1f is_bound=%d "
               "round_trip_ms=%.3f probe_bytes=%llu",
               survey.next, survey.address, 8 * survey.hop.bytes_per_us,
               survey.hop.bytes_per_us_is_bound, (double)survey.hop.round_trip_us / 1000,
               (unsigned long long)survey.hop.probe_bytes_sent);
    tell_change(server);
}

void lh_server_survey(lh_server *server, const lh_survey_target *target) {
    lh_hop_survey_want(&server->survey, target);
}

/* ---- Workers behind ---- */

static void on_reach_change(void *context) {
    tell_change(context);
}

void lh_server_relay(lh_server *server, const lh_way *members, uint32_t count) {
    if (server->relay)
        lh_relay_want(server->relay, members, count);
}

/* ---- The route and the stage ---- */

lh_status lh_server_set_route(lh_server *server, const lh_chain_route *route, lh_error *error) {
    lh_chain_place *place = &server->place;
    bool keeps_hop = place->is_set && lh_next_hop_is_for(&server->hop, &place->route, route);
    bool keeps_kv = lh_chain_place_keeps_kv(place, route);
    lh_worker_client *client = server->hop.client;
    lh_status status = keeps_hop ? LH_OK : lh_next_hop_connect(&server->hop, route, &client, error);
    if (status != LH_OK)
        return status;
    lh_step_table_fail_all(&server->table, LH_ERR_STALE, "the chain was re-formed");
    status = lh_pipeline_reset(server->pipeline, keeps_kv, error);
    lh_next_hop_use(&server->hop, client);
    lh_chain_place_enter(place, route, keeps_kv);
    lh_stage_meter_unsettle(&server->meter);
    if (!keeps_hop && lh_worker_client_is_connected(client))
        note_next_state(server, true, ""); /* by its trial */
    if (status != LH_OK)
        lh_chain_place_leave(place);
    return status;
}

lh_status lh_server_install(lh_server *server, lh_stage *stage, uint32_t steps_max,
                            const lh_compute_profile *profile, lh_error *error) {
    lh_status status = lh_pipeline_install(server->pipeline, stage, steps_max, error);
    if (status == LH_OK)
        lh_stage_meter_init(&server->meter, profile, lh_clock_us());
    return status;
}

lh_status lh_server_remove(lh_server *server, void (*on_removed_callback)(void *), void *context,
                           lh_error *error) {
    assert(!server->on_removed.call);
    lh_status status = lh_pipeline_remove(server->pipeline, error);
    if (status != LH_OK)
        return status;
    lh_stage_meter_init(&server->meter, &(lh_compute_profile){0}, lh_clock_us());
    server->on_removed = (callback){on_removed_callback, context};
    lh_step_table_fail_all(&server->table, LH_ERR_STALE, "the worker's stage was taken away");
    lh_next_hop_use(&server->hop, NULL);
    lh_chain_place_leave(&server->place);
    return LH_OK;
}

/* ---- Status and leaving ---- */

void lh_server_watch(lh_server *server, void (*on_change)(void *), void (*on_trouble)(void *),
                     void *context) {
    server->on_change = on_change;
    server->on_trouble = on_trouble;
    server->change_context = context;
}

void lh_server_read_status(const lh_server *server, lh_server_status *status) {
    *status = (lh_server_status){.steps_active = server->table.count,
                                 .steps_done = server->table.done,
                                 .steps_failed = server->table.failed,
                                 .steps_cancelled = server->table.cancelled,
                                 .totals = server->table.totals,
                                 .kv_epoch = server->place.kv_epoch};
    lh_stage_meter_read(&server->meter, lh_clock_us(), &status->compute);
    lh_next_hop_read_profile(&server->hop, &status->next);
    memcpy(status->next_error, server->hop.error, sizeof status->next_error);
    lh_next_hop_report_trial(&server->hop, &status->trial);
    lh_hop_survey_read(&server->survey, &status->surveyed);
    if (!server->relay)
        return;
    status->reach_count = lh_relay_read(server->relay, status->reaches);
    status->relayed = *lh_relay_read_totals(server->relay);
}

void lh_server_note_stopped(lh_server *server) {
    lh_stage_meter_unsettle(&server->meter);
}

void lh_server_note_loading(lh_server *server, bool is_loading) {
    lh_stage_meter_hold(&server->meter, is_loading);
}

void lh_server_drain(lh_server *server, void (*on_idle)(void *), void *context) {
    server->leaving = true;
    server->on_idle = (callback){on_idle, context};
    tell_if_idle(server);
}

int lh_server_port(const lh_server *server, bool tls) {
    const lh_h2_server *listener = tls ? server->secure : server->plain;
    return listener ? lh_h2_server_port(listener) : 0;
}

/* ---- The end ---- */

static void destroy(lh_server *server) {
    assert(server->table.count == 0);
    lh_relay_destroy(server->relay);
    lh_chain_place_leave(&server->place);
    free(server->name);
    free(server);
}

/* The last part to close takes the server along. */
static void on_trials_closed(void *context) {
    lh_server *server = context;
    callback on_closed = server->on_closed;
    destroy(server);
    tell_once(&on_closed);
}

static void on_table_closed(void *context) {
    lh_server *server = context;
    lh_stream_quota_close(&server->trials, on_trials_closed, server);
}

/* Its streams are closed, too. */
static void destroy_if_closed(void *context) {
    lh_server *server = context;
    if (server->closing && server->open_parts == 0 && server->hop.open_parts == 0 &&
        server->survey.open_parts == 0)
        lh_step_table_close(&server->table, on_table_closed, server);
}

static void on_part_closed(void *context) {
    lh_server *server = context;
    assert(server->open_parts > 0);
    server->open_parts--;
    destroy_if_closed(server);
}

static void on_handle_closed(uv_handle_t *handle) {
    on_part_closed(handle->data);
}

static void close_parts(lh_server *server) {
    assert(!server->closing);
    lh_step_table_fail_all(&server->table, LH_ERR_UNAVAILABLE, "the worker stops");
    lh_pipeline_destroy(server->pipeline);
    server->pipeline = NULL;
    lh_step_table_forget_pipeline(&server->table);
    server->closing = true;
    uv_close((uv_handle_t *)&server->woken, on_handle_closed);
    uv_close((uv_handle_t *)&server->after_io, on_handle_closed);
    lh_next_hop_use(&server->hop, NULL);
    lh_next_hop_try(&server->hop, NULL);
    lh_hop_survey_close(&server->survey);
    if (server->relay)
        lh_relay_close(server->relay);
    if (server->plain)
        lh_h2_server_close(server->plain, on_part_closed, server);
    if (server->secure)
        lh_h2_server_close(server->secure, on_part_closed, server);
}

/* The callbacks that say that the server is idle, or its stage removed, may close it: they run
 * inside the pipeline's poll, so the pipeline is destroyed later, when it is not at work. */
void lh_server_close(lh_server *server, void (*on_closed)(void *), void *context) {
    server->on_closed = (callback){on_closed, context};
    server->leaving = true;
    server->on_idle = (callback){0};
    server->close_wanted = true;
    uv_async_send(&server->woken);
}

/* ---- The start ---- */

static lh_status listen_on(lh_server *server, const char *address, const lh_tls_options *tls,
                           lh_h2_server **listener, lh_error *error) {
    if (!address || address[0] == '\0')
        return LH_OK;
    lh_status status = lh_h2_server_create(server->loop, address, tls, &server->limits, on_request,
                                           server, listener, error);
    server->open_parts += status == LH_OK;
    return status;
}

static lh_status start_relay(lh_server *server, const lh_server_options *options, lh_error *error) {
    const lh_relay_options relay = {.loop = options->loop,
                                    .name = server->name,
                                    .tls = options->tls,
                                    .limits = options->limits,
                                    .on_change = on_reach_change,
                                    .on_closed = on_part_closed,
                                    .context = server};
    lh_status status = options->relays ? lh_relay_create(&relay, &server->relay, error) : LH_OK;
    server->open_parts += server->relay != NULL;
    return status;
}

static lh_status start_handles(lh_server *server, lh_error *error) {
    if (uv_async_init(server->loop, &server->woken, on_woken) != 0)
        return lh_fail(error, LH_ERR_IO, "server: the event loop takes no more handles");
    uv_check_init(server->loop, &server->after_io); /* this and what follows cannot fail */
    uv_check_start(&server->after_io, after_io);
    lh_hop_survey_open(&server->survey);
    server->woken.data = server;
    server->after_io.data = server;
    server->open_parts += 2;
    return LH_OK;
}

static lh_status start_pipeline(lh_server *server, const lh_server_options *options,
                                lh_error *error) {
    lh_pipeline_options pipeline = {.inbox_bytes = options->inbox_bytes,
                                    .outbox_bytes = options->outbox_bytes,
                                    .encode = lh_frames_of_shard,
                                    .wake = wake,
                                    .events = {.on_consumed = on_consumed,
                                               .on_frame = lh_served_step_on_frame,
                                               .on_worked = lh_served_step_on_worked,
                                               .on_ended = lh_step_table_on_ended,
                                               .on_removed = on_removed},
                                    .context = server};
    lh_status status = lh_pipeline_create(&pipeline, &server->pipeline, error);
    const lh_served_step_tools tools = {.worker = server->name,
                                        .pipeline = server->pipeline,
                                        .hop = &server->hop,
                                        .place = &server->place,
                                        .meter = &server->meter};
    lh_step_table_init(&server->table, server->loop, &tools, on_step_failed, tell_if_idle, server);
    const lh_stream_quota_limits trial_limits = lh_trial_limits();
    lh_stream_quota_init(&server->trials, server->loop, "trials of hops", &trial_limits);
    return status;
}

static void init_parts(lh_server *server, const lh_server_options *options) {
    static const lh_worker_client_events hop_events = {.on_state = on_next_state,
                                                       .on_done = lh_step_table_on_done,
                                                       .on_times = lh_served_step_on_times};
    server->hop =
        (lh_next_hop){.loop = options->loop,
                      .tls = options->tls,
                      .limits = options->limits,
                      .connections = options->hop_connections > 0 ? options->hop_connections : 1,
                      .events = hop_events,
                      .on_closed = destroy_if_closed,
                      .on_trial = on_trial,
                      .context = server};
    server->survey = (lh_hop_survey){.loop = options->loop,
                                     .tls = options->tls,
                                     .limits = options->limits,
                                     .on_change = on_survey,
                                     .on_closed = destroy_if_closed,
                                     .context = server};
    server->loop = options->loop;
    server->limits = options->limits;
}

lh_status lh_server_create(const lh_server_options *options, lh_server **server, lh_error *error) {
    lh_server *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "server: out of memory");
    init_parts(made, options);
    made->name = strdup(options->name);
    lh_status status = made->name ? start_handles(made, error)
                                  : lh_fail(error, LH_ERR_NO_MEMORY, "server: out of memory");
    if (status != LH_OK) {
        destroy(made);
        return status;
    }
    status = start_pipeline(made, options, error);
    if (status == LH_OK)
        status = start_relay(made, options, error);
    if (status == LH_OK)
        status = listen_on(made, options->listen, NULL, &made->plain, error);
    if (status == LH_OK)
        status = listen_on(made, options->listen_tls, options->tls, &made->secure, error);
    if (status != LH_OK) {
        lh_server_close(made, NULL, NULL); /* the loop frees it */
        return status;
    }
    *server = made;
    return LH_OK;
}
