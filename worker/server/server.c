/* Listeners, the route, the next hop, and the life of it all. */
#include "worker/server/server.h"

#include "common/clock.h"
#include "common/log.h"
#include "worker/api/step_answer.h"
#include "worker/server/server_batch.h"
#include "worker/server/server_state.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A step that the next hop has not answered for so long, and no other one either: perhaps its connection is alive, but the two
 * ends no longer agree on what may be sent, as after a flipped bit in a window. Then the next chain begins with another one. */
#define HOP_STALLED_US 5000000

/* ---- The pipeline's voice ----------------------------------------------------------------------- */

static void wake(void *context) {
    lh_server *server = context;
    uv_async_send(&server->woken);
}

static void close_parts(lh_server *server);

static void on_woken(uv_async_t *handle) {
    lh_server *server = handle->data;
    if (server->pipeline != NULL) {
        lh_pipeline_poll(server->pipeline);
    }
    if (server->close_wanted) {
        close_parts(server);
    }
}

static void on_removed(void *context) {
    lh_server *server = context;
    void (*call)(void *) = server->on_removed;
    server->on_removed = NULL;
    if (call != NULL) {
        call(server->removed_context);
    }
}

static void after_io(uv_check_t *handle) {
    lh_server *server = handle->data;
    lh_server_step *step;
    TAILQ_FOREACH(step, &server->steps, links) {
        if (server->pipeline != NULL) {
            lh_server_step_count_sent(step);
        }
    }
}

/* ---- The route ---------------------------------------------------------------------------------- */

static void reset_place(lh_server_place *place) {
    free(place->chain);
    free(place->next_name);
    free(place->next_address);
    *place = (lh_server_place){0};
}

static lh_status copy_place(const lh_server_route *route, lh_server_place *place, lh_error *error) {
    *place = (lh_server_place){.route = *route,
                               .chain = strdup(route->chain),
                               .next_name = strdup(route->next_name),
                               .next_address = strdup(route->next_address)};
    if (place->chain == NULL || place->next_name == NULL || place->next_address == NULL) {
        reset_place(place);
        return lh_fail(error, LH_ERR_NO_MEMORY, "route: out of memory");
    }
    place->route.chain = place->chain;
    place->route.next_name = place->next_name;
    place->route.next_address = place->next_address;
    return LH_OK;
}

static void destroy(lh_server *server) {
    reset_place(&server->place);
    free(server->name);
    free(server);
}

/* A listener, hop or handle is closed; the last one takes the server along. */
static void on_part_closed(void *context) {
    lh_server *server = context;
    assert(server->open_parts > 0);
    server->open_parts--;
    if (!server->closing || server->open_parts > 0) {
        return;
    }
    assert(TAILQ_EMPTY(&server->steps));
    void (*call)(void *) = server->on_closed;
    void *closed_context = server->closed_context;
    destroy(server);
    if (call != NULL) {
        call(closed_context);
    }
}

static void on_next_state(void *context, bool connected, const char *reason) {
    lh_server *server = context;
    const char *name = server->routed ? server->place.next_name : "";
    if (connected) {
        lh_log(LH_LOG_INFO, "server", "next hop is connected next=%s", name[0] != '\0' ? name : "gateway");
    } else {
        lh_log(LH_LOG_WARN, "server", "next hop is down next=%s reason=\"%s\"",
               name[0] != '\0' ? name : "gateway", reason);
    }
    if (server->on_change != NULL) {
        server->on_change(server->change_context);
    }
}

static void close_next(lh_server *server) {
    if (server->next != NULL) {
        lh_worker_client_close(server->next, on_part_closed, server);
        server->next = NULL;
    }
}

static lh_status open_next(lh_server *server, const lh_server_route *route, lh_worker_client **next,
                           lh_error *error) {
    static const lh_worker_client_events events = {
        .on_state = on_next_state, .on_done = lh_server_step_on_passed, .on_times = lh_server_step_on_times};
    if (route->next_tls && server->tls == NULL) {
        return lh_fail(error, LH_ERR_INVALID,
                       "the next hop %.80s takes TLS: give --tls-cert, --tls-key and --tls-ca",
                       route->next_address);
    }
    const lh_tls_options *tls = route->next_tls ? server->tls : NULL;
    uint32_t lanes = route->is_last ? 0 : server->hop_connections - 1;
    lh_h2_limits limits = server->limits;
    if (route->is_last || lanes > 0) {
        limits.probe_bytes_max = LH_WORKER_CLIENT_SMALL_PROBE_BYTES;
    }
    lh_worker_client *made;
    lh_status status = lh_worker_client_create(server->loop, route->next_address, route->chain, tls, &limits,
                                               &events, server, &made, error);
    if (status != LH_OK) {
        return status;
    }
    server->open_parts++;
    status = lh_worker_client_add_lanes(made, server->loop, tls, &server->limits, lanes, error);
    if (status != LH_OK) {
        lh_worker_client_close(made, on_part_closed, server);
        return status;
    }
    *next = made;
    return status;
}

static bool is_same_hop(const lh_server_route *a, const lh_server_route *b) {
    return strcmp(a->chain, b->chain) == 0 && strcmp(a->next_address, b->next_address) == 0 &&
           a->next_tls == b->next_tls;
}

static void fail_steps(lh_server *server, lh_status status, const char *message) {
    lh_server_step *step = TAILQ_FIRST(&server->steps);
    while (step != NULL) {
        lh_server_step *next = TAILQ_NEXT(step, links);
        lh_server_step_fail(step, status, message);
        step = next;
    }
}

lh_status lh_server_set_route(lh_server *server, const lh_server_route *route, lh_error *error) {
    lh_server_place place;
    lh_status status = copy_place(route, &place, error);
    if (status != LH_OK) {
        return status;
    }
    bool keep_next = server->routed && server->next != NULL && !server->hop_is_suspect &&
                     is_same_hop(route, &server->place.route);
    lh_worker_client *next = server->next;
    if (!keep_next) {
        status = open_next(server, route, &next, error);
        if (status != LH_OK) {
            reset_place(&place);
            return status;
        }
    }
    bool keeps_kv = server->kv_epoch != 0 && server->kv_epoch == route->kv_epoch;
    fail_steps(server, LH_ERR_STALE, "the chain was re-formed");
    status = lh_pipeline_reset(server->pipeline, keeps_kv, error);
    server->kv_epoch = status != LH_OK ? 0 : keeps_kv ? server->kv_epoch : route->epoch;
    server->awaits_roll = keeps_kv;
    server->has_begun = false;
    if (!keep_next) {
        close_next(server);
        server->next = next;
    }
    reset_place(&server->place);
    server->place = place;
    lh_step_window_reset(&server->window);
    server->hop_is_suspect = false;
    server->routed = status == LH_OK;
    return status;
}

/* ---- The stage ---------------------------------------------------------------------------------- */

lh_status lh_server_install(lh_server *server, lh_stage *stage, uint32_t steps_max,
                            const lh_compute_profile *profile, lh_error *error) {
    lh_status status = lh_pipeline_install(server->pipeline, stage, steps_max, error);
    if (status == LH_OK) {
        lh_server_meter_init(&server->meter, profile, lh_clock_us());
    }
    return status;
}

lh_status lh_server_remove(lh_server *server, void (*on_removed_callback)(void *), void *context,
                           lh_error *error) {
    assert(server->on_removed == NULL);
    lh_status status = lh_pipeline_remove(server->pipeline, error);
    if (status != LH_OK) {
        return status;
    }
    lh_server_meter_init(&server->meter, &(lh_compute_profile){0}, lh_clock_us());
    server->on_removed = on_removed_callback;
    server->removed_context = context;
    server->kv_epoch = 0;
    fail_steps(server, LH_ERR_STALE, "the worker's stage was taken away");
    close_next(server);
    server->routed = false;
    reset_place(&server->place);
    return LH_OK;
}

/* ---- Status and leaving ------------------------------------------------------------------------- */

void lh_server_watch(lh_server *server, void (*on_change)(void *), void (*on_trouble)(void *),
                     void *context) {
    server->on_change = on_change;
    server->on_trouble = on_trouble;
    server->change_context = context;
}

void lh_server_read_status(const lh_server *server, lh_server_status *status) {
    *status = (lh_server_status){.steps_active = server->step_count,
                                 .steps_done = server->steps_done,
                                 .steps_failed = server->steps_failed,
                                 .kv_epoch = server->kv_epoch};
    lh_server_meter_read(&server->meter, lh_clock_us(), &status->compute);
    if (server->next != NULL) {
        lh_worker_client_read_profile(server->next, &status->next);
    }
}

static void tell_if_idle(lh_server *server) {
    if (server->on_idle != NULL && server->step_count == 0) {
        void (*call)(void *) = server->on_idle;
        server->on_idle = NULL;
        call(server->idle_context);
    }
}

void lh_server_drain(lh_server *server, void (*on_idle)(void *), void *context) {
    server->leaving = true;
    server->on_idle = on_idle;
    server->idle_context = context;
    tell_if_idle(server);
}

void lh_server_on_step_lost(lh_server *server, const lh_server_step *step) {
    int64_t now_us = lh_clock_us();
    server->steps_failed++;
    if (step != NULL && step->downstream != NULL && now_us - step->first_byte_us > HOP_STALLED_US &&
        now_us - server->passed_us > HOP_STALLED_US) {
        server->hop_is_suspect = true;
    }
    if (server->on_trouble != NULL) {
        server->on_trouble(server->change_context);
    }
}

void lh_server_on_step_gone(lh_server *server) {
    tell_if_idle(server);
}

/* ---- Life --------------------------------------------------------------------------------------- */

int lh_server_port(const lh_server *server, bool tls) {
    const lh_h2_server *listener = tls ? server->secure : server->plain;
    return listener != NULL ? lh_h2_server_port(listener) : 0;
}

static void on_handle_closed(uv_handle_t *handle) {
    on_part_closed(handle->data);
}

static void forget_pipeline(lh_server *server) {
    lh_pipeline_destroy(server->pipeline);
    server->pipeline = NULL;
    lh_server_step *step = TAILQ_FIRST(&server->steps);
    while (step != NULL) {
        lh_server_step *next = TAILQ_NEXT(step, links);
        step->settled = true;
        lh_server_step_forget_pipeline(step);
        step = next;
    }
}

static void close_parts(lh_server *server) {
    fail_steps(server, LH_ERR_UNAVAILABLE, "the worker stops");
    forget_pipeline(server);
    server->closing = true;
    uv_close((uv_handle_t *)&server->woken, on_handle_closed);
    uv_close((uv_handle_t *)&server->after_io, on_handle_closed);
    close_next(server);
    if (server->plain != NULL) {
        lh_h2_server_close(server->plain, on_part_closed, server);
    }
    if (server->secure != NULL) {
        lh_h2_server_close(server->secure, on_part_closed, server);
    }
}

/* Whoever is told that the server is idle, or its stage removed, closes it from within that call: so the pipeline is only
 * destroyed when it is not at work here. */
void lh_server_close(lh_server *server, void (*on_closed)(void *), void *context) {
    server->on_closed = on_closed;
    server->closed_context = context;
    server->leaving = true;
    server->on_idle = NULL;
    server->close_wanted = true;
    uv_async_send(&server->woken);
}

static lh_status listen_on(lh_server *server, const char *address, const lh_tls_options *tls,
                           lh_h2_server **listener, lh_error *error) {
    if (address == NULL || address[0] == '\0') {
        return LH_OK;
    }
    lh_status status = lh_h2_server_create(server->loop, address, tls, &server->limits, lh_server_on_request,
                                           server, listener, error);
    server->open_parts += status == LH_OK;
    return status;
}

static lh_status start_handles(lh_server *server, lh_error *error) {
    if (uv_async_init(server->loop, &server->woken, on_woken) != 0) {
        return lh_fail(error, LH_ERR_IO, "server: the event loop takes no more handles");
    }
    uv_check_init(server->loop, &server->after_io); /* these two cannot fail */
    uv_check_start(&server->after_io, after_io);
    server->woken.data = server;
    server->after_io.data = server;
    server->open_parts += 2;
    return LH_OK;
}

static lh_status start_pipeline(lh_server *server, const lh_server_options *options, lh_error *error) {
    lh_pipeline_options pipeline = {.inbox_bytes = options->inbox_bytes,
                                    .outbox_bytes = options->outbox_bytes,
                                    .encode = lh_server_encode_shard,
                                    .wake = wake,
                                    .events = lh_server_step_pipeline_events,
                                    .context = server};
    pipeline.events.on_removed = on_removed;
    return lh_pipeline_create(&pipeline, &server->pipeline, error);
}

lh_status lh_server_create(const lh_server_options *options, lh_server **server, lh_error *error) {
    lh_server *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "server: out of memory");
    }
    TAILQ_INIT(&made->steps);
    TAILQ_INIT(&made->shards);
    made->loop = options->loop;
    made->tls = options->tls;
    made->limits = options->limits;
    made->hop_connections = options->hop_connections > 0 ? options->hop_connections : 1;
    made->name = strdup(options->name);
    if (made->name == NULL) {
        destroy(made);
        return lh_fail(error, LH_ERR_NO_MEMORY, "server: out of memory");
    }
    lh_status status = start_handles(made, error);
    if (status != LH_OK) {
        destroy(made);
        return status;
    }
    status = start_pipeline(made, options, error);
    if (status == LH_OK) {
        status = listen_on(made, options->listen, NULL, &made->plain, error);
    }
    if (status == LH_OK) {
        status = listen_on(made, options->listen_tls, options->tls, &made->secure, error);
    }
    if (status != LH_OK) {
        lh_server_close(made, NULL, NULL); /* the loop frees it */
        return status;
    }
    *server = made;
    return LH_OK;
}
