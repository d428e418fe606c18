/* Simulated links and connections between nodes. Node 0 is the gateway. A connection has a
 * direction (who opened it) and carries requests one way and answers the other; each direction of a
 * pair of nodes is a link with delay and rate, which sends whole messages, those of class 0 first.
 * Loss costs a retransmission; a partition holds messages up, and kills a connection when it lasts.
 */
#pragma once

#include "common/base/status.h"
#include "tests/fleet/support/event_queue.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NETWORK_NODES_MAX 65

typedef enum message_kind { MESSAGE_REQUEST, MESSAGE_ANSWER, MESSAGE_RESET } message_kind;

typedef struct message {
    message_kind kind;
    int from, to;
    uint64_t connection; /* its serial number: a message of a connection that is gone is dropped */
    uint64_t request;    /* the sender's number of the request */
    int send_class;
    lh_status status; /* ANSWER */
    size_t size;
    uint8_t bytes[]; /* REQUEST */
} message;

typedef struct link_options {
    int64_t delay_us;
    int64_t bytes_per_s; /* 0: no limit */
    int64_t head_bytes;  /* of each request on top of its body */
    double loss;         /* probability that a message needs a retransmission */
    double corruption;   /* probability that a bit of a request is flipped */
} link_options;

typedef struct network network;

typedef struct network_events {
    void *context;
    void (*on_message)(void *context, const message *received);
    /* The connection that `from` opened to `to` came up or went down; told to both. */
    void (*on_connection)(void *context, int from, int to, bool connected);
} network_events;

network *network_create(event_queue *queue, const int64_t *now_us, uint64_t seed,
                        const network_events *events);
void network_destroy(network *net);
void network_set_link(network *net, int from, int to, link_options options);
link_options network_link(const network *net, int from, int to);
int64_t network_delay_us(const network *net, int from, int to);

/* Keeps a connection open from now on, reconnecting when it is lost; or stops that. */
void network_open(network *net, int from, int to);
void network_close(network *net, int from, int to);
/* Both are alive and running, and nothing between them is blocked. */
bool network_is_passable(const network *net, int from, int to);
bool network_is_connected(const network *net, int from, int to);
/* Who connects now hears that nobody listens. */
bool network_is_refused(const network *net, int from, int to);

/* Sends on the connection that `from` opened, or with `reverse` on the one that `to` opened. False:
 * it is not there. */
bool network_send(network *net, int from, int to, bool reverse, message_kind kind, uint64_t request,
                  int send_class, lh_status status, const void *bytes, size_t size);

/* The node died: its connections break, its peers learn of it after the delay. It may open new ones
 * when it lives again. */
void network_set_alive(network *net, int node, bool alive);
/* Nothing gets from one node to the other until then. */
void network_block(network *net, int from, int to, int64_t until_us);
/* The node does nothing until then. */
void network_stall(network *net, int node, int64_t until_us);
int64_t network_stalled_until(const network *net, int node);
/* Cuts a connection at once. */
void network_cut(network *net, int from, int to);

/* Delivers once more, on the connection that is there now, one of the last requests that were
 * delivered: an old frame, of whatever epoch. False: there is none, or no connection. */
bool network_replay(network *net);

/* A generator for everything random in the simulation. */
uint64_t network_random(network *net, uint64_t below);
