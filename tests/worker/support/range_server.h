/* A small HTTP/1.1 server on loopback, in a thread of its own: files of memory, byte ranges, and
 * the ways in which servers fail. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef enum range_fault {
    RANGE_SOUND,
    RANGE_500,
    RANGE_404,
    RANGE_302,
    RANGE_CLOSES,       /* hangs up instead of answering */
    RANGE_SILENT,       /* never answers */
    RANGE_STALLS,       /* sends half of the bytes, then nothing, and does not hang up */
    RANGE_BREAKS_OFF,   /* sends half of the bytes, then hangs up */
    RANGE_ANSWERS_LESS, /* a sound 206 of the first half of the range */
    RANGE_WRONG_BYTE,   /* one bit of the body differs */
    RANGE_WRONG_BYTES,  /* one bit of every 16 bytes of it does */
    RANGE_NOT_PARTIAL,  /* 200 and the whole file */
    RANGE_NO_RANGE,     /* 206 without Content-Range */
    RANGE_OTHER_RANGE,  /* 206 of the bytes one further on */
    RANGE_LONGER_RANGE, /* 206 of one byte more than asked */
    /* says the right range, sends 100 bytes more, and Content-Length agrees with it */
    RANGE_LONGER_BODY,
    RANGE_ENDLESS_BODY, /* says the right range, no length, and sends for ever */
} range_fault;

typedef struct range_server range_server;

range_server *range_server_create(void);
void range_server_destroy(range_server *server);
/* Bytes are the caller's and outlive the server. Up to four files. */
void range_server_add(range_server *server, const char *path, const void *bytes, size_t length);
/* The next `times` requests for ranges (or, where whole is set, for whole files) meet this fault.
 */
void range_server_fail(range_server *server, range_fault fault, unsigned times);
void range_server_fail_whole(range_server *server, range_fault fault, unsigned times);
/* "http://127.0.0.1:PORT"; lives as long as the server. */
const char *range_server_url(const range_server *server);
/* Requests that have come. */
unsigned range_server_requests(range_server *server);
