/* A listening TCP socket from an address as people write it. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* "127.0.0.1:8080", "[::1]:8080", "localhost:8080", ":8080" (any address). Port 0: a free one;
 * *port says which. The socket is non-blocking, the caller closes it. LH_ERR_INVALID: malformed;
 * LH_ERR_IO: cannot be resolved or bound. */
lh_status lh_listener_open(const char *address, int *fd, uint16_t *port, lh_error *error);

/* Whether one could be opened there, for who wants to know before it gives up the right to look
 * around: an address that is taken is an error that names the program that has it (port_owner.h)
 * and the flag, "listen", that gives another one. Everything else is left to lh_listener_open, and
 * so is an empty address. LH_ERR_EXISTS. */
lh_status lh_listener_check(const char *flag, const char *address, lh_error *error);

/* Whether only this machine reaches the socket: it is bound to 127.0.0.0/8 or ::1. */
bool lh_listener_is_loopback(int fd);
