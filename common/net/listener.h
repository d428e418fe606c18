/* A listening TCP socket from an address as people write it. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* "127.0.0.1:8080", "[::1]:8080", "localhost:8080", ":8080" (any address). Port 0: a free one;
 * *port says which. The socket is non-blocking, the caller closes it. LH_ERR_INVALID: malformed;
 * LH_ERR_IO: cannot be resolved or bound. */
lh_status lh_listener_open(const char *address, int *fd, uint16_t *port, lh_error *error);

/* Whether only this machine reaches the socket: it is bound to 127.0.0.0/8 or ::1. */
bool lh_listener_is_loopback(int fd);
