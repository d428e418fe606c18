/* Status codes of every fallible function, and the error text that travels with one.
 *
 * Thread: any. An lh_error belongs to its caller, usually on the stack; functions that take an
 * `lh_error *` accept NULL and write it only when they fail. */
#pragma once

#include <stdbool.h>

/* name, text. From FATAL_FIRST on, the object that returned it is dead and can only be destroyed;
 * before it, only the one call failed. */
#define LH_STATUS_TABLE(X)                                                                         \
    X(LH_OK, "ok")                                                                                 \
    X(LH_AGAIN, "nothing to do now, try again later")                                              \
    X(LH_ERR_INVALID, "invalid value")                                                             \
    X(LH_ERR_MALFORMED, "malformed bytes")                                                         \
    X(LH_ERR_UNSUPPORTED, "not supported")                                                         \
    X(LH_ERR_NOT_FOUND, "not found")                                                               \
    X(LH_ERR_EXISTS, "exists already")                                                             \
    X(LH_ERR_BUSY, "queue is full")                                                                \
    X(LH_ERR_LIMIT, "over a limit")                                                                \
    X(LH_ERR_STALE, "of an older epoch")                                                           \
    X(LH_ERR_CORRUPT, "checksum or digest differs")                                                \
    X(LH_ERR_CANCELLED, "cancelled")                                                               \
    X(LH_ERR_TIMEOUT, "timed out")                                                                 \
    X(LH_ERR_UNAVAILABLE, "not available now")                                                     \
    X(LH_ERR_NO_MEMORY, "out of memory")                                                           \
    X(LH_ERR_FATAL_FIRST, "fatal")                                                                 \
    X(LH_ERR_IO, "input or output failed")                                                         \
    X(LH_ERR_PROTOCOL, "peer broke the protocol")                                                  \
    X(LH_ERR_CLOSED, "connection closed")                                                          \
    X(LH_ERR_INTERNAL, "internal error")

typedef enum lh_status {
#define X(name, text) name,
    LH_STATUS_TABLE(X)
#undef X
} lh_status;

#define LH_ERROR_MESSAGE_BYTES 320

typedef struct lh_error {
    lh_status status;
    char message[LH_ERROR_MESSAGE_BYTES]; /* what is wrong, where, what to do; cut when too long */
} lh_error;

/* The text of a status: static storage. An unknown number gives "unknown status". */
const char *lh_status_text(lh_status status);

/* The name of a status ("LH_ERR_IO"): static storage. */
const char *lh_status_name(lh_status status);

static inline bool lh_status_is_fatal(lh_status status) {
    return status >= LH_ERR_FATAL_FIRST;
}

/* Fills *error (where not NULL) and returns `status`, so that a failing function ends with
 * `return lh_fail(error, LH_ERR_INVALID, "--threads: %d is not in 1..1024", n);` Control characters
 * of the message become question marks, but for line feeds. */
lh_status lh_fail(lh_error *error, lh_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
