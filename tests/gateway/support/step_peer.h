/* A first worker over real HTTP/2 that computes nothing: it takes the steps of chain "main", or
 * refuses them, or says nothing; and steps of a trial under its name. Thread: the loop's. */
#pragma once

#include "common/http2/server.h"

typedef struct step_peer {
    lh_h2_server *server; /* NULL: it was told to close */
    const char *refusal;  /* a problem as JSON; NULL: it takes every step */
    bool is_silent, is_closed;
    uint32_t steps; /* whose bodies are here */
    const char *name;
    uint32_t trials;
    /* the ends of the connections that the last of them came by */
    char step_peer[64], trial_peer[64];
} step_peer;

void step_peer_open(step_peer *peer, uv_loop_t *loop);
/* Sets is_closed from the loop. A second call does nothing. */
void step_peer_close(step_peer *peer);
/* "127.0.0.1:port", until the next call. */
const char *step_peer_address(const step_peer *peer);
