/* The answer to a request, before it is on the wire. Plain data; thread: its owner's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define LH_HTTP_REPLY_HEADERS_MAX 20

typedef struct lh_http_reply {
    unsigned status;
    bool streamed; /* the body comes from the handler's on_read */
    bool close;    /* the connection ends with this answer */
    char *body;    /* malloc'd (NULL: empty); whoever takes the reply frees it */
    size_t body_bytes;
    size_t header_count;
    struct {
        const char *name; /* static */
        char value[160];
    } headers[LH_HTTP_REPLY_HEADERS_MAX];
} lh_http_reply;

/* Appends a header whose value is formatted; control characters in it become '?', so that no value
 * can end its line. */
void lh_http_reply_add(lh_http_reply *reply, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
