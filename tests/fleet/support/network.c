/* Links, connections, and what can happen to them. */
#include "tests/fleet/support/network.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define RECONNECT_US      100000
#define RETRANSMISSION_US 200000
#define DEAD_AFTER_US     2000000 /* PINGs without an answer */

typedef struct pending_message {
    struct pending_message *next;
    message *sent;
} pending_message;

typedef struct link {
    link_options options;
    int64_t last_arrival_us, blocked_until_us;
    bool is_sending;
    pending_message *first[2], *last[2];
    pending_message *held_first, *held_last; /* arrived, but blocked or before a stalled node */
} link;

typedef struct connection {
    bool wanted, connected;
    uint64_t serial; /* of the connection that is or was there */
} connection;

#define REPLAY_REQUEST (UINT64_C(1) << 62) /* a request that nobody waits for */

struct network {
    message *delivered[64]; /* the last requests, in a ring */
    uint64_t delivered_count;
    event_queue *queue;
    const int64_t *now_us;
    uint64_t random, next_serial;
    network_events events;
    bool alive[NETWORK_NODES_MAX];
    int64_t stalled_until_us[NETWORK_NODES_MAX];
    link links[NETWORK_NODES_MAX][NETWORK_NODES_MAX];
    connection connections[NETWORK_NODES_MAX][NETWORK_NODES_MAX];
};

typedef struct pair {
    int from, to;
    uint64_t serial;
} pair;

static void *copy_pair(int from, int to, uint64_t serial) {
    pair *copy = malloc(sizeof *copy);
    assert(copy);
    *copy = (pair){from, to, serial};
    return copy;
}

network *network_create(event_queue *queue, const int64_t *now_us, uint64_t seed,
                        const network_events *events) {
    network *net = calloc(1, sizeof *net);
    assert(net);
    net->queue = queue;
    net->now_us = now_us;
    net->random = seed;
    net->next_serial = 1;
    net->events = *events;
    for (int i = 0; i < NETWORK_NODES_MAX; i++)
        net->alive[i] = true;
    return net;
}

static void drop_pending(link *l) {
    for (int c = 0; c < 2; c++) {
        while (l->first[c]) {
            pending_message *next = l->first[c]->next;
            free(l->first[c]->sent);
            free(l->first[c]);
            l->first[c] = next;
        }
        l->last[c] = NULL;
    }
    while (l->held_first) {
        pending_message *next = l->held_first->next;
        free(l->held_first->sent);
        free(l->held_first);
        l->held_first = next;
    }
}

void network_destroy(network *net) {
    for (int i = 0; i < NETWORK_NODES_MAX; i++)
        for (int j = 0; j < NETWORK_NODES_MAX; j++)
            drop_pending(&net->links[i][j]);
    for (size_t i = 0; i < sizeof net->delivered / sizeof net->delivered[0]; i++)
        free(net->delivered[i]);
    free(net);
}

/* splitmix64. */
uint64_t network_random(network *net, uint64_t below) {
    uint64_t x = net->random += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % below;
}

static bool happens(network *net, double probability) {
    return probability > 0 && (double)network_random(net, 1000000) < probability * 1e6;
}

void network_set_link(network *net, int from, int to, link_options options) {
    net->links[from][to].options = options;
}

link_options network_link(const network *net, int from, int to) {
    return net->links[from][to].options;
}

int64_t network_delay_us(const network *net, int from, int to) {
    return net->links[from][to].options.delay_us;
}

/* ---- Connections ---- */

static void try_connect(void *context, void *argument);

static void connect_later(network *net, int from, int to, int64_t after_us) {
    event_queue_push(net->queue, *net->now_us + after_us, try_connect, net, copy_pair(from, to, 0));
}

bool network_is_passable(const network *net, int from, int to) {
    return net->alive[from] && net->alive[to] &&
           net->links[from][to].blocked_until_us <= *net->now_us &&
           net->links[to][from].blocked_until_us <= *net->now_us &&
           net->stalled_until_us[from] <= *net->now_us && net->stalled_until_us[to] <= *net->now_us;
}

static void try_connect(void *context, void *argument) {
    network *net = context;
    pair *p = argument;
    connection *c = &net->connections[p->from][p->to];
    if (!c->wanted || c->connected || !net->alive[p->from])
        return;
    if (!network_is_passable(net, p->from, p->to)) {
        connect_later(net, p->from, p->to, RECONNECT_US);
        return;
    }
    c->connected = true;
    c->serial = net->next_serial++;
    net->events.on_connection(net->events.context, p->from, p->to, true);
}

void network_open(network *net, int from, int to) {
    connection *c = &net->connections[from][to];
    if (c->wanted)
        return;
    c->wanted = true;
    connect_later(net, from, to, network_delay_us(net, from, to) + network_delay_us(net, to, from));
}

static void lose(network *net, int from, int to) {
    connection *c = &net->connections[from][to];
    if (!c->connected)
        return;
    c->connected = false;
    c->serial = 0;
    net->events.on_connection(net->events.context, from, to, false);
    if (c->wanted)
        connect_later(net, from, to, RECONNECT_US);
}

void network_close(network *net, int from, int to) {
    net->connections[from][to].wanted = false;
    lose(net, from, to);
}

void network_cut(network *net, int from, int to) {
    lose(net, from, to);
}

bool network_is_connected(const network *net, int from, int to) {
    return net->connections[from][to].connected;
}

bool network_is_refused(const network *net, int from, int to) {
    return !net->connections[from][to].connected && !net->alive[to] &&
           net->links[from][to].blocked_until_us <= *net->now_us &&
           net->links[to][from].blocked_until_us <= *net->now_us;
}

/* The other end learns of it later, if nothing has replaced the connection by then. */
static void lose_if_same(void *context, void *argument) {
    network *net = context;
    pair *p = argument;
    if (net->connections[p->from][p->to].serial == p->serial)
        lose(net, p->from, p->to);
}

static void lose_later(network *net, int from, int to, int64_t at_us) {
    connection *c = &net->connections[from][to];
    if (c->connected)
        event_queue_push(net->queue, at_us, lose_if_same, net, copy_pair(from, to, c->serial));
}

void network_set_alive(network *net, int node, bool alive) {
    net->alive[node] = alive;
    if (alive)
        return;
    net->stalled_until_us[node] = 0;
    for (int other = 0; other < NETWORK_NODES_MAX; other++) {
        net->connections[node][other].wanted = false;
        lose_later(net, node, other, *net->now_us + network_delay_us(net, node, other));
        lose_later(net, other, node, *net->now_us + network_delay_us(net, node, other));
    }
}

/* A connection over which nothing comes is given up, if that still holds then. */
static void give_up(void *context, void *argument) {
    network *net = context;
    pair *p = argument;
    if (!network_is_passable(net, p->from, p->to))
        lose_if_same(net, p);
}

static void give_up_later(network *net, int from, int to) {
    connection *c = &net->connections[from][to];
    if (c->connected)
        event_queue_push(net->queue, *net->now_us + DEAD_AFTER_US, give_up, net,
                         copy_pair(from, to, c->serial));
}

void network_block(network *net, int from, int to, int64_t until_us) {
    net->links[from][to].blocked_until_us = until_us;
    give_up_later(net, from, to);
    give_up_later(net, to, from);
}

void network_stall(network *net, int node, int64_t until_us) {
    net->stalled_until_us[node] = until_us;
    for (int other = 0; other < NETWORK_NODES_MAX; other++) {
        give_up_later(net, node, other);
        give_up_later(net, other, node);
    }
}

int64_t network_stalled_until(const network *net, int node) {
    return net->stalled_until_us[node];
}

/* ---- Messages ---- */

static void start_sending(network *net, int from, int to);
static message *copy_message(const message *m);
static void deliver(network *net, const message *m);

static bool is_current(const network *net, const message *m) {
    return m->connection != 0 && (net->connections[m->from][m->to].serial == m->connection ||
                                  net->connections[m->to][m->from].serial == m->connection);
}

static int64_t held_until_us(const network *net, int from, int to) {
    int64_t blocked = net->links[from][to].blocked_until_us, stalled = net->stalled_until_us[to];
    return blocked > stalled ? blocked : stalled;
}

static void flush_held(void *context, void *argument) {
    network *net = context;
    pair *p = argument;
    link *l = &net->links[p->from][p->to];
    while (l->held_first && held_until_us(net, p->from, p->to) <= *net->now_us) {
        pending_message *taken = l->held_first;
        l->held_first = taken->next;
        if (is_current(net, taken->sent))
            deliver(net, taken->sent);
        free(taken->sent);
        free(taken);
    }
    if (l->held_first)
        event_queue_push(net->queue, held_until_us(net, p->from, p->to), flush_held, net,
                         copy_pair(p->from, p->to, 0));
}

static void hold(network *net, const message *m) {
    link *l = &net->links[m->from][m->to];
    pending_message *p = malloc(sizeof *p);
    assert(p);
    *p = (pending_message){NULL, copy_message(m)};
    if (l->held_first) {
        l->held_last->next = p;
    } else {
        l->held_first = p;
        event_queue_push(net->queue, held_until_us(net, m->from, m->to), flush_held, net,
                         copy_pair(m->from, m->to, 0));
    }
    l->held_last = p;
}

static message *copy_message(const message *m) {
    message *copy = malloc(sizeof *copy + m->size);
    assert(copy);
    memcpy(copy, m, sizeof *copy + m->size);
    return copy;
}

static void deliver(network *net, const message *m) {
    if (m->kind == MESSAGE_REQUEST && m->request < REPLAY_REQUEST) {
        size_t at = net->delivered_count++ % (sizeof net->delivered / sizeof net->delivered[0]);
        free(net->delivered[at]);
        net->delivered[at] = copy_message(m);
    }
    net->events.on_message(net->events.context, m);
}

bool network_replay(network *net) {
    const message *old =
        net->delivered[network_random(net, sizeof net->delivered / sizeof net->delivered[0])];
    if (!old || !net->connections[old->from][old->to].connected ||
        !network_is_passable(net, old->from, old->to))
        return false;
    message *again = copy_message(old);
    again->connection = net->connections[old->from][old->to].serial;
    again->request = REPLAY_REQUEST + net->delivered_count;
    net->events.on_message(net->events.context, again);
    free(again);
    return true;
}

static void arrive(void *context, void *argument) {
    network *net = context;
    message *m = argument;
    if (!is_current(net, m))
        return;
    if (net->links[m->from][m->to].held_first || held_until_us(net, m->from, m->to) > *net->now_us)
        hold(net, m);
    else
        deliver(net, m);
}

static void sent(void *context, void *argument) {
    network *net = context;
    pair *p = argument;
    net->links[p->from][p->to].is_sending = false;
    start_sending(net, p->from, p->to);
}

static pending_message *take_pending(link *l) {
    int c = l->first[0] ? 0 : 1;
    pending_message *taken = l->first[c];
    if (!taken)
        return NULL;
    l->first[c] = taken->next;
    if (!taken->next)
        l->last[c] = NULL;
    return taken;
}

static void start_sending(network *net, int from, int to) {
    link *l = &net->links[from][to];
    pending_message *taken;
    while (!l->is_sending && (taken = take_pending(l))) {
        message *m = taken->sent;
        free(taken);
        int64_t bytes = (int64_t)m->size + (m->kind == MESSAGE_REQUEST ? l->options.head_bytes : 0);
        int64_t time_us = l->options.bytes_per_s ? bytes * 1000000 / l->options.bytes_per_s : 0;
        int64_t arrival_us = *net->now_us + time_us + l->options.delay_us;
        if (happens(net, l->options.loss))
            arrival_us += RETRANSMISSION_US;
        if (arrival_us < l->last_arrival_us)
            arrival_us = l->last_arrival_us;
        l->last_arrival_us = arrival_us;
        if (m->size > 0 && happens(net, l->options.corruption))
            m->bytes[network_random(net, m->size)] ^= (uint8_t)(1u << network_random(net, 8));
        event_queue_push(net->queue, arrival_us, arrive, net, m);
        if (time_us > 0) {
            l->is_sending = true;
            event_queue_push(net->queue, *net->now_us + time_us, sent, net, copy_pair(from, to, 0));
        }
    }
}

/* A request that has not left yet is never sent, as RST_STREAM does it. */
static bool withdraw(link *l, uint64_t connection_serial, uint64_t request) {
    for (int c = 0; c < 2; c++) {
        pending_message *before = NULL;
        for (pending_message *p = l->first[c]; p; before = p, p = p->next) {
            if (p->sent->kind != MESSAGE_REQUEST || p->sent->request != request ||
                p->sent->connection != connection_serial)
                continue;
            if (before)
                before->next = p->next;
            else
                l->first[c] = p->next;
            if (!p->next)
                l->last[c] = before;
            free(p->sent);
            free(p);
            return true;
        }
    }
    return false;
}

bool network_send(network *net, int from, int to, bool reverse, message_kind kind, uint64_t request,
                  int send_class, lh_status status, const void *bytes, size_t size) {
    const connection *c = reverse ? &net->connections[to][from] : &net->connections[from][to];
    if (!c->connected)
        return false;
    link *l = &net->links[from][to];
    if (kind == MESSAGE_RESET && withdraw(l, c->serial, request))
        return true;
    message *m = malloc(sizeof *m + size);
    pending_message *p = malloc(sizeof *p);
    assert(m && p);
    *m = (message){kind, from, to, c->serial, request, send_class, status, size};
    if (size)
        memcpy(m->bytes, bytes, size);
    *p = (pending_message){NULL, m};
    if (l->last[send_class])
        l->last[send_class]->next = p;
    else
        l->first[send_class] = p;
    l->last[send_class] = p;
    start_sending(net, from, to);
    return true;
}
