/* Which addresses a name has, and which of this machine's own faces one of them. Thread: any; both
 * may block. */
#pragma once

#include "common/net/address.h"

#include <stddef.h>

#define LH_ROUTE_TARGETS_MAX 8u

typedef struct lh_route_targets {
    struct sockaddr_storage addresses[LH_ROUTE_TARGETS_MAX];
    size_t count; /* at least 1 */
} lh_route_targets;

/* In the order in which they are to be tried (RFC 6724, by getaddrinfo). LH_ERR_NOT_FOUND: no such
 * name, or nobody who knows (the message has both, and why). */
lh_status lh_route_resolve(const lh_address *address, lh_route_targets *targets, lh_error *error);

/* The IP address, without a port, with which this machine would send to `target`: no packet is
 * sent. False: there is no route. */
bool lh_route_own_host(const struct sockaddr *target, char host[LH_HOST_BYTES]);
