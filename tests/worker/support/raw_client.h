/* A client that sends a worker whatever a test wants to, one request at a time. */
#pragma once

#include "common/http2/client.h"

typedef struct raw_client {
    uv_loop_t *loop;
    lh_h2_client *client;
    bool connected, closed; /* closed: the request is over */
    int http_status;
    char body[1024]; /* of the answer: a string */
    size_t length;
} raw_client;

/* Connects, or fails the test. */
void raw_client_open(raw_client *client, uv_loop_t *loop, const char *address);
void raw_client_close(raw_client *client);
/* Sends the body and returns the answer's code; its body is in client->body. */
int raw_client_request(raw_client *client, const char *method, const char *path, const void *body,
                       size_t length);
/* Begins a request whose body the caller writes; client->closed says when it is over. */
lh_h2_stream *raw_client_begin(raw_client *client, const char *method, const char *path);
