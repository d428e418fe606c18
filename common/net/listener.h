/* A listening TCP socket from an address as people write it. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* "127.0.0.1:8080", "[::1]:8080", "localhost:8080", ":8080" (any address). Port 0: a free one;
 * *port says which. The socket is non-blocking, the caller closes it. LH_ERR_INVALID: malformed;
 * LH_ERR_IO: cannot be resolved or bound. */
lh_status lh_listener_open(const char *address, int *fd, uint16_t *port, lh_error *error);

/* Each of a program's listeners. */
#define LH_PORT_RESERVATIONS_MAX 4
/* A closed connection keeps its port for 60 s (TIME_WAIT). */
#define LH_PORT_PATIENCE_MS 65000u

/* Ports that this program has bound, so that the kernel gives them to no connection, and will
 * listen at. {0}: none. */
typedef struct lh_port_reservations {
    int descriptors[LH_PORT_RESERVATIONS_MAX];
    uint32_t count;
} lh_port_reservations;

/* Reserves an address, which is listened at by lh_listener_open or libuv while it is reserved.
 * Called before the program gives up the right to look around: where somebody listens there, the
 * error names the program (port_owner.h) and the flag, "listen", that gives another address. Where
 * only a connection has the port as its own end, as the kernel hands them out, this waits for it to
 * end, for patience_ms at most, which a line of the log says. Everything else is left to who opens
 * the listener, and so is an empty address. Blocking. LH_ERR_EXISTS. */
lh_status lh_listener_reserve(const char *flag, const char *address, uint32_t patience_ms,
                              lh_port_reservations *reserved, lh_error *error);
/* When all listeners are open, or will not be. */
void lh_listener_release(lh_port_reservations *reserved);

/* Whether only this machine reaches the socket: it is bound to 127.0.0.0/8 or ::1. */
bool lh_listener_is_loopback(int fd);
