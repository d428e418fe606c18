/* A peer that speaks bytes, not HTTP/2: it listens or connects on loopback, says what it is told
 * and keeps what it hears. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

typedef struct raw_peer {
    uv_tcp_t listener, *tcp;
    uv_connect_t connect;
    bool listens, is_open;
    bool waiting;         /* the next connection: taken when this one is closed */
    bool deaf;            /* does not read */
    bool curt;            /* closes what it accepts */
    const void *greeting; /* said as soon as the connection stands */
    size_t greeting_length;
    uint8_t heard[1 << 16]; /* the first bytes */
    size_t heard_length;
    int connected, closed; /* connections; by the other side */
} raw_peer;

/* Returns the port. */
int raw_peer_listen(raw_peer *p, uv_loop_t *loop, const void *greeting, size_t length);
void raw_peer_connect(raw_peer *p, uv_loop_t *loop, int port, const void *greeting, size_t length);
void raw_peer_send(raw_peer *p, const void *bytes, size_t length);
/* The loop must run afterwards. */
void raw_peer_close(raw_peer *p);

/* Empty SETTINGS of a server; the preface and empty SETTINGS of a client. */
extern const char raw_server_greeting[9];
extern const char raw_client_greeting[33];

/* Writes an HTTP/2 frame; its length. */
size_t raw_frame(uint8_t *to, uint8_t type, uint8_t flags, uint32_t stream, const void *payload,
                 size_t length);
/* The error code of the first GOAWAY in bytes that begin at a frame, or -1. */
int raw_find_goaway(const uint8_t *bytes, size_t length);
