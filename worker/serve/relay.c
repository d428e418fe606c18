/* Members, legs, and the requests on them. */
#include "worker/serve/relay.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/log_limit.h"
#include "common/protocol/client/link_profile.h"
#include "common/protocol/client/worker_client.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TICK_MS = 5000,
    /* A chain that serves nobody sends nothing; connecting anew takes a round trip or two of the
     * site's own network. */
    LEG_IDLE_US = 60000000,
    /* As many as a server takes connections, each of them to two workers. */
    LEGS_MAX = 128,
    /* To one worker: fewer than the connections that it takes (common/http2/limits.h), so that
     * others of its site find places beside the relay. */
    LEGS_TO_WORKER_MAX = 48,
    /* Of one sender to one worker: what the one before it in a chain has at most. */
    LEGS_OF_SENDER_MAX = 1 + LH_WORKER_CLIENT_LANES_MAX
};

/* The windows of four connections that are full. */
#define HELD_BYTES_MAX ((size_t)256 << 20)

typedef struct member {
    TAILQ_ENTRY(member) links;
    lh_relay *relay;
    lh_way who;
    lh_h2_client *client;             /* NULL: it could not begin */
    char error[LH_RELAY_ERROR_BYTES]; /* why it is not reached; "": it is, or none failed yet */
    lh_log_limit lines;               /* it may close its connections as often as it likes */
} member;

typedef struct leg {
    TAILQ_ENTRY(leg) links;
    lh_relay *relay;
    lh_way to;
    char sender[LH_RELAY_SENDER_BYTES]; /* by its certificate; without one, its address */
    bool is_secure;                     /* its connection, of which there are two servers */
    uint64_t connection;                /* its number */
    lh_h2_client *client;
    bool is_closing;
    char down
        [LH_RELAY_ERROR_BYTES]; /* why it is not connected; "": it is, or that is not known yet */
    uint32_t request_count;
    int64_t used_us; /* when a request last came or left */
} leg;

struct lh_relay {
    lh_relay_options options;
    TAILQ_HEAD(, member) members;
    TAILQ_HEAD(, leg) legs;
    TAILQ_HEAD(, lh_relayed_request) requests;
    uint32_t leg_count;
    lh_relay_totals totals;
    uv_timer_t timer;
    unsigned open_parts; /* the timer and connections that are open or still closing */
    bool is_closing;
};

static void on_part_closed(lh_relay *relay) {
    assert(relay->open_parts > 0);
    relay->open_parts--;
    if (relay->is_closing && relay->open_parts == 0)
        relay->options.on_closed(relay->options.context);
}

static lh_status connect_to(lh_relay *relay, const lh_way *who, const lh_h2_limits *limits,
                            lh_h2_on_client_state *on_state, void *context, lh_h2_client **client,
                            lh_error *error) {
    lh_tls_options meant = {0};
    if (who->tls && !relay->options.tls)
        return lh_fail(error, LH_ERR_INVALID,
                       "%.80s takes TLS: give --tls-cert, --tls-key and --tls-ca", who->address);
    if (who->tls)
        meant = lh_tls_options_for(relay->options.tls, who->worker);
    lh_status status =
        lh_h2_client_create(relay->options.loop, who->address, who->tls ? &meant : NULL, limits,
                            on_state, context, client, error);
    relay->open_parts += status == LH_OK;
    return status;
}

/* ---- Legs ---- */

static void on_leg_closed(void *context) {
    leg *closed = context;
    lh_relay *relay = closed->relay;
    assert(closed->request_count == 0);
    free(closed);
    on_part_closed(relay);
}

static void fail_requests(leg *of, bool waiting_only, const char *message) {
    lh_relayed_request *request, *next;
    for (request = TAILQ_FIRST(&of->relay->requests); request; request = next) {
        next = TAILQ_NEXT(request, links);
        if (request->leg == of && (!waiting_only || !request->inner))
            lh_relayed_request_fail(request, LH_ERR_UNAVAILABLE, message);
    }
}

static void close_leg(leg *closed, const char *reason) {
    lh_relay *relay = closed->relay;
    assert(!closed->is_closing);
    closed->is_closing = true;
    TAILQ_REMOVE(&relay->legs, closed, links);
    relay->leg_count--;
    fail_requests(closed, false, reason);
    lh_h2_client_close(closed->client, on_leg_closed, closed);
}

static void describe_down(const leg *of, char message[LH_ERROR_MESSAGE_BYTES]) {
    snprintf(message, LH_ERROR_MESSAGE_BYTES,
             "the relay does not reach worker '%s' at %.80s: %.80s", of->to.worker, of->to.address,
             of->down);
}

/* Requests have waited for it, in the order in which they came. */
static void on_leg_state(void *context, bool connected, const char *reason) {
    leg *told = context;
    lh_relayed_request *request, *next;
    char message[LH_ERROR_MESSAGE_BYTES];
    snprintf(told->down, sizeof told->down, "%.*s", (int)sizeof told->down - 1,
             connected ? "" : reason);
    if (!connected) {
        describe_down(told, message);
        fail_requests(told, true, message);
        return;
    }
    for (request = TAILQ_FIRST(&told->relay->requests); request; request = next) {
        next = TAILQ_NEXT(request, links);
        if (request->leg == told && !request->inner)
            lh_relayed_request_open(request, told->client);
    }
}

static leg *find_leg(const lh_relay *relay, const char *to, bool is_secure, uint64_t connection) {
    leg *found;
    TAILQ_FOREACH(found, &relay->legs, links)
    if (found->connection == connection && found->is_secure == is_secure &&
        strcmp(found->to.worker, to) == 0)
        return found;
    return NULL;
}

/* Whose legs are counted together; NULL: everybody's. */
typedef struct leg_share {
    const char *to, *sender;
    uint32_t most;
    const char *whose; /* for the answer */
} leg_share;

static bool is_of(const leg *looked, const leg_share *share) {
    return (!share->to || strcmp(looked->to.worker, share->to) == 0) &&
           (!share->sender || strcmp(looked->sender, share->sender) == 0);
}

/* Of those that carry nothing the one that was used longest ago makes room, if need be. */
static lh_status make_room(lh_relay *relay, const leg_share *share, lh_error *error) {
    leg *looked, *idle = NULL;
    uint32_t count = 0;
    TAILQ_FOREACH(looked, &relay->legs, links) {
        if (!is_of(looked, share))
            continue;
        count++;
        if (looked->request_count == 0 && (!idle || looked->used_us < idle->used_us))
            idle = looked;
    }
    if (count < share->most)
        return LH_OK;
    if (!idle)
        return lh_fail(error, LH_ERR_BUSY, "the relay has %u connections in use %s", count,
                       share->whose);
    close_leg(idle, "");
    return LH_OK;
}

static lh_status find_room(lh_relay *relay, const char *to, const char *sender, lh_error *error) {
    const leg_share shares[] = {{to, sender, LEGS_OF_SENDER_MAX, "for this sender"},
                                {to, NULL, LEGS_TO_WORKER_MAX, "to this worker"},
                                {NULL, NULL, LEGS_MAX, "for all senders"}};
    lh_status status = LH_OK;
    for (size_t i = 0; i < sizeof shares / sizeof *shares && status == LH_OK; i++)
        status = make_room(relay, &shares[i], error);
    return status;
}

/* Nobody shows a certificate where there is no TLS: whoever is at an address is one sender then. */
static void name_sender(const lh_h2_request *http, char sender[LH_RELAY_SENDER_BYTES]) {
    const char *colon = strrchr(http->peer, ':');
    if (http->peer_identity->kind != LH_TLS_NONE)
        lh_relay_sender_render(http->peer_identity, sender);
    else
        snprintf(sender, LH_RELAY_SENDER_BYTES, "%.*s", colon ? (int)(colon - http->peer) : 0,
                 http->peer);
}

static lh_status open_leg(lh_relay *relay, const lh_way *to, const lh_h2_request *http,
                          leg **opened, lh_error *error) {
    lh_h2_limits limits = relay->options.limits;
    char sender[LH_RELAY_SENDER_BYTES];
    limits.probe_percent = 0; /* the member's own connection probes */
    name_sender(http, sender);
    lh_status status = find_room(relay, to->worker, sender, error);
    if (status != LH_OK)
        return status;
    leg *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "the relay is out of memory");
    *made = (leg){.relay = relay,
                  .to = *to,
                  .is_secure = http->peer_identity->kind != LH_TLS_NONE,
                  .connection = http->connection,
                  .used_us = lh_clock_us()};
    memcpy(made->sender, sender, sizeof made->sender);
    status = connect_to(relay, to, &limits, on_leg_state, made, &made->client, error);
    if (status != LH_OK) {
        free(made);
        return status;
    }
    TAILQ_INSERT_TAIL(&relay->legs, made, links);
    relay->leg_count++;
    *opened = made;
    return LH_OK;
}

static void on_tick(uv_timer_t *timer) {
    lh_relay *relay = timer->data;
    int64_t now_us = lh_clock_us();
    for (leg *looked = TAILQ_FIRST(&relay->legs), *next; looked; looked = next) {
        next = TAILQ_NEXT(looked, links);
        if (looked->request_count == 0 && now_us - looked->used_us >= LEG_IDLE_US)
            close_leg(looked, "");
    }
}

/* ---- Members ---- */

static void on_member_closed(void *context) {
    member *closed = context;
    lh_relay *relay = closed->relay;
    free(closed);
    on_part_closed(relay);
}

static void on_member_state(void *context, bool connected, const char *reason) {
    member *told = context;
    lh_relay *relay = told->relay;
    unsigned long long left_out;
    snprintf(told->error, sizeof told->error, "%.*s", (int)sizeof told->error - 1,
             connected ? "" : reason);
    if (!lh_log_limit_take(&told->lines, lh_clock_us(), &left_out))
        ;
    else if (connected)
        lh_log(LH_LOG_INFO, "relay",
               "a worker behind is reached worker=%s address=%s left_out=%llu", told->who.worker,
               told->who.address, left_out);
    else
        lh_log(LH_LOG_WARN, "relay",
               "a worker behind is not reached worker=%s address=%s reason=\"%s\" left_out=%llu",
               told->who.worker, told->who.address, reason, left_out);
    relay->options.on_change(relay->options.context);
}

static member *find_member(const lh_relay *relay, const char *name) {
    member *found;
    TAILQ_FOREACH(found, &relay->members, links)
    if (strcmp(found->who.worker, name) == 0)
        return found;
    return NULL;
}

static void drop_member(member *dropped) {
    lh_relay *relay = dropped->relay;
    for (leg *looked = TAILQ_FIRST(&relay->legs), *next; looked; looked = next) {
        next = TAILQ_NEXT(looked, links);
        if (strcmp(looked->to.worker, dropped->who.worker) == 0)
            close_leg(looked, "it is relayed to no more");
    }
    TAILQ_REMOVE(&relay->members, dropped, links);
    if (dropped->client)
        lh_h2_client_close(dropped->client, on_member_closed, dropped);
    else
        free(dropped);
}

/* Without memory it is added by the gateway's next answer. */
static void add_member(lh_relay *relay, const lh_way *who) {
    lh_h2_limits limits = relay->options.limits;
    lh_error error;
    member *made = calloc(1, sizeof *made);
    if (!made)
        return;
    made->relay = relay;
    made->who = *who;
    if (connect_to(relay, who, &limits, on_member_state, made, &made->client, &error) != LH_OK) {
        made->client = NULL;
        snprintf(made->error, sizeof made->error, "%.*s", (int)sizeof made->error - 1,
                 error.message);
    }
    TAILQ_INSERT_TAIL(&relay->members, made, links);
}

static bool is_wanted(const lh_way *who, const lh_way *members, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (lh_way_is_same(who, &members[i]))
            return true;
    return false;
}

void lh_relay_want(lh_relay *relay, const lh_way *members, uint32_t count) {
    assert(count <= LH_RELAY_REACHES_MAX);
    if (relay->is_closing)
        return;
    for (member *looked = TAILQ_FIRST(&relay->members), *next; looked; looked = next) {
        next = TAILQ_NEXT(looked, links);
        if (!is_wanted(&looked->who, members, count))
            drop_member(looked);
    }
    for (uint32_t i = 0; i < count; i++)
        if (!find_member(relay, members[i].worker))
            add_member(relay, &members[i]);
}

/* ---- Requests ---- */

static void on_request_left(lh_relayed_request *request) {
    leg *left = request->leg;
    assert(left->request_count > 0);
    left->request_count--;
    left->used_us = lh_clock_us();
}

static void on_request_over(lh_relayed_request *request) {
    lh_relay *relay = request->owner;
    TAILQ_REMOVE(&relay->requests, request, links);
    free(request);
}

static void refuse(const lh_relay *relay, lh_h2_stream *stream, lh_status status,
                   const char *message) {
    char *body = lh_step_answer_render(relay->options.name, status, message);
    if (!body || lh_h2_stream_respond(stream, lh_step_answer_http_status(status), body) != LH_OK)
        lh_h2_stream_cancel(stream);
    free(body);
}

static bool is_relayed_kind(lh_worker_request_kind kind) {
    return kind == LH_REQUEST_STEP || kind == LH_REQUEST_SHARDS || kind == LH_REQUEST_TRIAL;
}

static lh_status check(const lh_relay *relay, const char *to, const lh_h2_request *http,
                       const lh_worker_request *request, const member **found, lh_error *error) {
    *found = find_member(relay, to);
    if (!is_relayed_kind(request->kind))
        return lh_fail(error, LH_ERR_NOT_FOUND,
                       "steps, their shards and trials are relayed, nothing else");
    if (relay->options.tls && http->peer_identity->kind == LH_TLS_NONE)
        return lh_fail(error, LH_ERR_INVALID, "this relay serves those with a certificate alone");
    if (!*found || relay->is_closing)
        return lh_fail(error, LH_ERR_NOT_FOUND, "this worker relays for no '%.63s'", to);
    return LH_OK;
}

static lh_status begin(lh_relay *relay, leg *on, lh_h2_stream *stream, const lh_h2_request *http,
                       const lh_h2_stream_events **events, void **context,
                       lh_relayed_request **begun, lh_error *error) {
    lh_relayed_request *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "the relay is out of memory");
    made->owner = relay;
    made->leg = on;
    made->relay = relay->options.name;
    snprintf(made->to, sizeof made->to, "%s", on->to.worker);
    made->totals = &relay->totals;
    made->held_bytes_max = HELD_BYTES_MAX;
    made->on_left = on_request_left;
    made->on_over = on_request_over;
    lh_status status = lh_relayed_request_begin(made, stream, http, events, context, error);
    if (status != LH_OK) {
        free(made);
        return status;
    }
    on->request_count++;
    on->used_us = lh_clock_us();
    TAILQ_INSERT_TAIL(&relay->requests, made, links);
    *begun = made;
    return LH_OK;
}

void lh_relay_take(lh_relay *relay, const char *to, lh_h2_stream *stream, const lh_h2_request *http,
                   const lh_worker_request *request, const lh_h2_stream_events **events,
                   void **context) {
    const member *found;
    lh_relayed_request *begun = NULL;
    lh_error error;
    bool is_secure = http->peer_identity->kind != LH_TLS_NONE;
    lh_status status = check(relay, to, http, request, &found, &error);
    leg *on = status == LH_OK ? find_leg(relay, to, is_secure, http->connection) : NULL;
    if (status == LH_OK && !on)
        status = open_leg(relay, &found->who, http, &on, &error);
    if (status == LH_OK && on->down[0] != '\0') {
        describe_down(on, error.message);
        status = LH_ERR_UNAVAILABLE;
    }
    if (status == LH_OK)
        status = begin(relay, on, stream, http, events, context, &begun, &error);
    if (status != LH_OK)
        refuse(relay, stream, status, error.message);
    else if (lh_h2_client_is_connected(on->client))
        lh_relayed_request_open(begun, on->client);
}

void lh_relay_count_sent(lh_relay *relay) {
    lh_relayed_request *request;
    TAILQ_FOREACH(request, &relay->requests, links)
    lh_relayed_request_count_sent(request);
}

/* ---- What it is ---- */

static lh_hop_profile hop_to(const member *of) {
    lh_h2_client_link link = {0};
    if (of->client)
        lh_h2_client_read_link(of->client, &link);
    return lh_link_profile(&link, of->client && lh_h2_client_is_connected(of->client));
}

uint32_t lh_relay_read(const lh_relay *relay, lh_relay_reach *reaches) {
    uint32_t count = 0;
    const member *looked;
    TAILQ_FOREACH(looked, &relay->members, links) {
        lh_relay_reach *reach = &reaches[count++];
        memcpy(reach->name, looked->who.worker, sizeof reach->name);
        memcpy(reach->error, looked->error, sizeof reach->error);
        reach->hop = hop_to(looked);
    }
    return count;
}

const lh_relay_totals *lh_relay_read_totals(const lh_relay *relay) {
    return &relay->totals;
}

/* ---- Life ---- */

lh_status lh_relay_create(const lh_relay_options *options, lh_relay **relay, lh_error *error) {
    lh_relay *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a relay");
    made->options = *options;
    TAILQ_INIT(&made->members);
    TAILQ_INIT(&made->legs);
    TAILQ_INIT(&made->requests);
    uv_timer_init(options->loop, &made->timer);
    made->timer.data = made;
    uv_timer_start(&made->timer, on_tick, TICK_MS, TICK_MS);
    made->open_parts = 1;
    *relay = made;
    return LH_OK;
}

static void on_timer_closed(uv_handle_t *handle) {
    on_part_closed(handle->data);
}

void lh_relay_close(lh_relay *relay) {
    assert(!relay->is_closing);
    lh_relay_want(relay, NULL, 0);
    relay->is_closing = true;
    uv_close((uv_handle_t *)&relay->timer, on_timer_closed);
}

void lh_relay_destroy(lh_relay *relay) {
    assert(!relay || (relay->open_parts == 0 && TAILQ_EMPTY(&relay->requests)));
    free(relay);
}
