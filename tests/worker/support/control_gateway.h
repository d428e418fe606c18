/* The gateway's end of the control plane on a test's loop: keeps each worker's report and gives the
 * answer that was set. Worker "w"; results of chain "c" are taken, too, and steps of its trials. */
#pragma once

#include "common/http2/server.h"

typedef struct control_gateway {
    uv_loop_t *loop;
    lh_h2_server *server;
    int port; /* 0: any, and then the same again */
    char url[64];
    char answer[4096]; /* to every PUT; it gets a seal */
    const char *raw;   /* instead, as it is; NULL: none */
    int answer_status;
    size_t answer_damage; /* the byte of it whose lowest bit is flipped; 0: none */
    bool holds;           /* the next PUT waits for control_gateway_answer_held */
    lh_h2_stream *held;
    char report[4096]; /* of the last PUT */
    int puts;
    uint32_t results, trials; /* steps of chain "c", and of the trial of its last hop */
    /* the ends of the connections that the last of them came by */
    char put_peer[64], result_peer[64], trial_peer[64];
    bool closed;
} control_gateway;

/* Zeroed before the first time. tls: NULL: none. */
void control_gateway_open(control_gateway *g, uv_loop_t *loop, const lh_tls_options *tls);
void control_gateway_close(control_gateway *g);
/* Runs the loop until `count` more reports have come. */
void control_gateway_await(control_gateway *g, int count);
void control_gateway_answer_held(control_gateway *g);
