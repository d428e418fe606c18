/* Phases, wake-ups and the end of an exchange. */
#include "gateway/http/connection.h"

#include "common/base/clock.h"
#include "common/net/address.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define HALF_CLOSED_GRACE_US 1000000
#define FIRST_BODY_BYTES     16384

static void send_reply(int fd, const lh_http_reply *reply) {
    char head[2048];
    int used = snprintf(head, sizeof head,
                        "HTTP/1.1 %u %s\r\nConnection: close\r\nContent-Length: %zu\r\n",
                        reply->status, MHD_get_reason_phrase_for(reply->status), reply->body_bytes);
    for (size_t i = 0; i < reply->header_count && (size_t)used < sizeof head; i++)
        used += snprintf(head + used, sizeof head - (size_t)used, "%s: %s\r\n",
                         reply->headers[i].name, reply->headers[i].value);
    if ((size_t)used + 2 >= sizeof head)
        return;
    memcpy(head + used, "\r\n", 2);
    struct iovec parts[2] = {{head, (size_t)used + 2}, {reply->body, reply->body_bytes}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    /* A fresh socket takes so little at once; should it not, the client sees the connection close.
     */
    ssize_t ignored = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)ignored;
}

/* With the connection locked. The library sees the end of the stream and cleans up. */
static void close_locked(lh_http_exchange *connection, unsigned status, const char *message) {
    if (status && !connection->status) { /* else an answer is on its way */
        lh_http_reply reply = {.status = status};
        connection->around->handler.on_refusal(connection->state, status, message, &reply);
        if (!connection->around->config.tls) /* the session is the library's */
            send_reply(connection->fd, &reply);
        free(reply.body);
        connection->status = status;
    }
    connection->phase = LH_HTTP_PHASE_CLOSED;
    shutdown(connection->fd, SHUT_RDWR);
}

void lh_http_connection_refuse(lh_http_exchange *exchange, unsigned status, const char *message) {
    pthread_mutex_lock(&exchange->mutex);
    if (exchange->phase != LH_HTTP_PHASE_CLOSED)
        close_locked(exchange, status, message);
    pthread_mutex_unlock(&exchange->mutex);
}

void lh_http_connection_note_takes(lh_http_exchange *exchange) {
    pthread_mutex_lock(&exchange->mutex);
    exchange->takes = true;
    pthread_mutex_unlock(&exchange->mutex);
}

static bool waits_for_client(const lh_http_exchange *connection) {
    return connection->phase == LH_HTTP_PHASE_HEADERS || connection->phase == LH_HTTP_PHASE_BODY ||
           (connection->phase == LH_HTTP_PHASE_ANSWER && connection->takes);
}

/* A client whose connection rests between two requests expects it to be closed without a word. */
void lh_http_connection_shed(lh_http_exchange *connection) {
    pthread_mutex_lock(&connection->mutex);
    bool rests = connection->phase == LH_HTTP_PHASE_HEADERS && connection->served_before;
    if (waits_for_client(connection))
        close_locked(connection, rests ? 0 : 503, "The server has too many connections.");
    pthread_mutex_unlock(&connection->mutex);
}

/* Only an exchange that is being answered is suspended. With the connection locked. */
static void wake_locked(lh_http_exchange *exchange) {
    if (exchange->suspended) {
        assert(exchange->phase == LH_HTTP_PHASE_ANSWER);
        exchange->suspended = false;
        MHD_resume_connection(exchange->mhd);
    } else {
        exchange->wake_pending = true;
    }
}

void lh_http_exchange_wake(lh_http_exchange *exchange) {
    pthread_mutex_lock(&exchange->mutex);
    wake_locked(exchange);
    pthread_mutex_unlock(&exchange->mutex);
}

void lh_http_connection_break(lh_http_exchange *exchange) {
    pthread_mutex_lock(&exchange->mutex);
    exchange->broken = exchange->gone = true;
    wake_locked(exchange);
    pthread_mutex_unlock(&exchange->mutex);
}

static void on_deadline_locked(lh_http_exchange *connection) {
    if (!connection->deadline_us || lh_clock_us() < connection->deadline_us)
        return; /* of a phase that is over */
    connection->deadline_us = 0;
    switch (connection->phase) {
    case LH_HTTP_PHASE_HEADERS:
        /* A client that keeps a connection for later expects it to be closed without a word. */
        close_locked(connection, connection->served_before || connection->half_closed ? 0 : 408,
                     "The request's headers did not come in time.");
        break;
    case LH_HTTP_PHASE_BODY:
        close_locked(connection, connection->half_closed ? 0 : 408,
                     "The request's body did not come in time.");
        break;
    case LH_HTTP_PHASE_ANSWER:
        wake_locked(connection);
        break;
    case LH_HTTP_PHASE_CLOSED:
        break;
    }
}

/* The client has closed its side. What it sent before may be a whole request, so the library has a
 * moment to read that; it may also have overlooked the end of the stream, which came together with
 * the last bytes. */
static void on_half_close_locked(lh_http_exchange *connection) {
    int64_t deadline_us = lh_clock_us() + HALF_CLOSED_GRACE_US;
    connection->half_closed = true;
    if (!connection->deadline_us || deadline_us < connection->deadline_us)
        connection->deadline_us = deadline_us;
    lh_socket_monitor_arm(connection->around->monitor, connection->monitor_id, false,
                          connection->deadline_us);
}

/* On the monitor's thread, with the monitor locked. */
static void on_signal(void *context, lh_http_signal signal) {
    lh_http_exchange *connection = context;
    pthread_mutex_lock(&connection->mutex);
    bool leaves = false; /* while it is being answered */
    if (signal == LH_HTTP_DEADLINE)
        on_deadline_locked(connection);
    else if (connection->phase == LH_HTTP_PHASE_ANSWER)
        leaves = !connection->gone;
    else
        on_half_close_locked(connection);
    connection->gone |= leaves;
    pthread_mutex_unlock(&connection->mutex);
    if (!leaves)
        return;
    connection->around->handler.on_gone(connection->state);
    lh_http_exchange_wake(connection);
}

static void identify_peer(lh_http_exchange *connection) {
    struct sockaddr_storage peer = {0};
    struct sockaddr *any = (struct sockaddr *)&peer;
    socklen_t length = sizeof peer;
    getpeername(connection->fd, any, &length); /* in vain where it has gone already */
    bool is_known = any->sa_family == AF_INET || any->sa_family == AF_INET6;
    connection->address =
        is_known ? lh_address_key(any) : UINT64_MAX; /* no network has that number */
    if (is_known)
        lh_address_render(any, connection->peer);
    else
        strcpy(connection->peer, "-");
}

lh_http_exchange *lh_http_connection_create(lh_http_surroundings *around,
                                            struct MHD_Connection *mhd, int fd) {
    lh_http_exchange *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->around = around;
    connection->mhd = mhd;
    connection->fd = fd;
    connection->place = UINT32_MAX;
    identify_peer(connection);
    if (pthread_mutex_init(&connection->mutex, NULL)) {
        free(connection);
        return NULL;
    }
    if (lh_socket_monitor_add(around->monitor, fd, on_signal, connection, &connection->monitor_id,
                              NULL)) {
        pthread_mutex_destroy(&connection->mutex);
        free(connection);
        return NULL;
    }
    lh_http_connection_enter(connection, LH_HTTP_PHASE_HEADERS, around->config.header_deadline_ms);
    return connection;
}

void lh_http_connection_destroy(lh_http_exchange *connection) {
    lh_socket_monitor_remove(connection->around->monitor, connection->monitor_id);
    pthread_mutex_destroy(&connection->mutex);
    free(connection);
}

lh_status lh_http_connection_begin(lh_http_exchange *exchange, const char *target) {
    exchange->begun_us = lh_clock_us();
    exchange->request.peer = exchange->peer;
    exchange->request.peer_network = exchange->address;
    exchange->wire_target = target;
    exchange->wire_target_bytes = strlen(target);
    exchange->target = strdup(target);
    exchange->path = strndup(target, strcspn(target, "?"));
    exchange->request.target = exchange->target;
    exchange->request.path = exchange->path;
    return exchange->target && exchange->path ? LH_OK : LH_ERR_NO_MEMORY;
}

bool lh_http_connection_enter(lh_http_exchange *exchange, lh_http_phase phase,
                              uint32_t deadline_ms) {
    int64_t deadline_us = deadline_ms ? lh_clock_us() + (int64_t)deadline_ms * 1000 : 0;
    pthread_mutex_lock(&exchange->mutex);
    bool open = exchange->phase != LH_HTTP_PHASE_CLOSED;
    if (open) {
        assert(phase == LH_HTTP_PHASE_HEADERS || phase == exchange->phase + 1);
        exchange->phase = phase;
        exchange->deadline_us = deadline_us;
    }
    pthread_mutex_unlock(&exchange->mutex);
    if (open)
        lh_socket_monitor_arm(exchange->around->monitor, exchange->monitor_id, true, deadline_us);
    return open;
}

void lh_http_exchange_wake_at(lh_http_exchange *exchange, int64_t time_us) {
    pthread_mutex_lock(&exchange->mutex);
    bool hang_up = !exchange->gone;
    exchange->deadline_us = time_us;
    pthread_mutex_unlock(&exchange->mutex);
    lh_socket_monitor_arm(exchange->around->monitor, exchange->monitor_id, hang_up, time_us);
}

bool lh_http_connection_wait(lh_http_exchange *exchange) {
    pthread_mutex_lock(&exchange->mutex);
    bool waits = !exchange->wake_pending && !exchange->gone;
    exchange->wake_pending = false;
    assert(!exchange->suspended);
    if (waits) {
        assert(exchange->phase == LH_HTTP_PHASE_ANSWER);
        exchange->suspended = true;
        exchange->takes = false;
        MHD_suspend_connection(exchange->mhd);
    }
    pthread_mutex_unlock(&exchange->mutex);
    return waits;
}

bool lh_http_connection_is_gone(lh_http_exchange *exchange) {
    pthread_mutex_lock(&exchange->mutex);
    bool gone = exchange->gone || exchange->phase == LH_HTTP_PHASE_CLOSED;
    pthread_mutex_unlock(&exchange->mutex);
    return gone;
}

/* ---- The body's memory. ---- */

static uint64_t owner_of(const lh_http_exchange *exchange) {
    return exchange->client ? exchange->client : exchange->address;
}

/* With the bodies' memory locked. */
static void end_body(lh_http_surroundings *around, lh_body_share *share) {
    lh_http_exchange *connection =
        (lh_http_exchange *)((char *)share - offsetof(lh_http_exchange, share));
    lh_body_memory_end(&around->bodies, share);
    lh_http_connection_refuse(connection, 408,
                              "The request's body did not come fast enough while others needed the "
                              "memory.");
}

/* The same. False: there is no room, also where others' bodies would be ended for it. */
static bool take_memory(lh_http_exchange *exchange, size_t bytes, int64_t now_us) {
    lh_http_surroundings *around = exchange->around;
    lh_body_share *share = &exchange->share, *goes;
    if (share->is_ended)
        return false;
    share->owner = owner_of(exchange);
    while (!lh_body_memory_take(&around->bodies, share, bytes, now_us)) {
        goes = lh_body_memory_pick(&around->bodies, share, bytes, now_us);
        if (!goes)
            return false;
        end_body(around, goes);
    }
    return true;
}

/* For so many bytes of body: twice as much each time, but not more than was announced. */
static size_t capacity_for(const lh_http_exchange *exchange, size_t wanted) {
    size_t capacity = exchange->body_capacity ? exchange->body_capacity : FIRST_BODY_BYTES;
    uint64_t announced = exchange->request.announced_bytes;
    while (capacity < wanted)
        capacity *= 2;
    return announced >= wanted && announced < capacity ? (size_t)announced : capacity;
}

lh_status lh_http_connection_grow_body(lh_http_exchange *exchange, size_t more) {
    lh_http_surroundings *around = exchange->around;
    size_t wanted = exchange->body_bytes + more;
    size_t capacity = exchange->body_capacity;
    int64_t now_us = lh_clock_us();
    if (wanted > capacity)
        capacity = capacity_for(exchange, wanted);
    pthread_mutex_lock(&around->bodies_mutex);
    bool has_room = capacity == exchange->body_capacity ||
                    take_memory(exchange, capacity - exchange->body_capacity, now_us);
    lh_body_share_note(&exchange->share, wanted, now_us);
    pthread_mutex_unlock(&around->bodies_mutex);
    if (!has_room)
        return LH_ERR_LIMIT;
    if (capacity == exchange->body_capacity)
        return LH_OK;
    char *body = realloc(exchange->body, capacity);
    if (!body)
        return LH_ERR_NO_MEMORY; /* the share goes with the exchange */
    exchange->body = body;
    exchange->body_capacity = capacity;
    return LH_OK;
}

void lh_http_connection_complete_body(lh_http_exchange *exchange) {
    pthread_mutex_lock(&exchange->around->bodies_mutex);
    exchange->share.is_whole = true;
    pthread_mutex_unlock(&exchange->around->bodies_mutex);
}

char *lh_http_exchange_take_body(lh_http_exchange *exchange) {
    lh_http_surroundings *around = exchange->around;
    char *body = exchange->body;
    pthread_mutex_lock(&around->bodies_mutex);
    lh_body_memory_release(&around->bodies, &exchange->share);
    pthread_mutex_unlock(&around->bodies_mutex);
    exchange->body = NULL;
    exchange->body_bytes = exchange->body_capacity = 0;
    exchange->request.body = "";
    exchange->request.body_bytes = 0;
    return body;
}

void lh_http_connection_drop_body(lh_http_exchange *exchange) {
    free(lh_http_exchange_take_body(exchange));
}

/* ---- The answer's memory. ---- */

/* With the bodies' memory locked. Its client finds the answer cut. */
static void end_answer(lh_http_surroundings *around, lh_body_share *share) {
    lh_http_exchange *connection =
        (lh_http_exchange *)((char *)share - offsetof(lh_http_exchange, answer_share));
    lh_body_memory_end(&around->answers, share);
    lh_http_connection_refuse(connection, 0, NULL);
}

bool lh_http_connection_take_answer_room(lh_http_exchange *exchange, size_t bytes) {
    lh_http_surroundings *around = exchange->around;
    lh_body_share *share = &exchange->answer_share, *goes;
    int64_t now_us = lh_clock_us();
    pthread_mutex_lock(&around->bodies_mutex);
    share->owner = owner_of(exchange);
    bool has_room = !share->is_ended;
    if (has_room && bytes <= share->bytes)
        lh_body_memory_give(&around->answers, share, share->bytes - bytes);
    else if (has_room) {
        size_t more = bytes - share->bytes;
        while (!(has_room = lh_body_memory_take(&around->answers, share, more, now_us)) &&
               (goes = lh_body_memory_pick(&around->answers, share, more, now_us)))
            end_answer(around, goes);
    }
    pthread_mutex_unlock(&around->bodies_mutex);
    return has_room;
}

void lh_http_connection_note_sent(lh_http_exchange *exchange, uint64_t bytes) {
    pthread_mutex_lock(&exchange->around->bodies_mutex);
    lh_body_share_note(&exchange->answer_share, bytes, lh_clock_us());
    pthread_mutex_unlock(&exchange->around->bodies_mutex);
}

static void drop_answer_room(lh_http_exchange *exchange) {
    pthread_mutex_lock(&exchange->around->bodies_mutex);
    lh_body_memory_release(&exchange->around->answers, &exchange->answer_share);
    pthread_mutex_unlock(&exchange->around->bodies_mutex);
}

/* ---- The end. ---- */

/* Nothing of the exchange is left for the next request on the connection. */
static void forget_exchange(lh_http_exchange *exchange) {
    free(exchange->target);
    free(exchange->path);
    lh_http_connection_drop_body(exchange);
    drop_answer_room(exchange);
    exchange->target = exchange->path = NULL;
    exchange->request = (lh_http_request){0};
    exchange->headers_taken = exchange->request_taken = exchange->close_after = false;
    exchange->streamed_bytes = 0;
}

void lh_http_connection_finish(lh_http_exchange *exchange, bool complete) {
    /* Waits for a signal that is being handled; after it on_gone comes no more. */
    lh_socket_monitor_arm(exchange->around->monitor, exchange->monitor_id, false, 0);
    pthread_mutex_lock(&exchange->mutex);
    assert(!exchange->suspended);
    lh_http_outcome outcome = {exchange->status, lh_clock_us() - exchange->begun_us, complete};
    if (!complete && !exchange->broken && exchange->phase != LH_HTTP_PHASE_CLOSED)
        outcome.status = 499;
    /* from here on the connection may still be refused, but not in the name of this exchange */
    void *state = exchange->state;
    exchange->state = NULL;
    pthread_mutex_unlock(&exchange->mutex);
    exchange->around->handler.on_done(state, &exchange->request, &outcome);

    bool close_after = exchange->close_after;
    forget_exchange(exchange);
    pthread_mutex_lock(&exchange->mutex);
    exchange->gone = exchange->broken = exchange->wake_pending = exchange->takes = false;
    exchange->status = 0;
    exchange->served_before = true;
    if (close_after && exchange->phase != LH_HTTP_PHASE_CLOSED)
        close_locked(exchange, 0, NULL);
    pthread_mutex_unlock(&exchange->mutex);
    lh_http_connection_enter(exchange, LH_HTTP_PHASE_HEADERS,
                             exchange->around->config.idle_deadline_ms);
}

void lh_http_exchange_know_client(lh_http_exchange *exchange, uint64_t client) {
    exchange->client = client;
}

bool lh_http_exchange_hold(lh_http_exchange *exchange, size_t bytes) {
    lh_http_connection_note_sent(exchange, exchange->streamed_bytes);
    return lh_http_connection_take_answer_room(exchange, bytes);
}

void lh_http_exchange_close_after(lh_http_exchange *exchange) {
    exchange->close_after = true;
}
