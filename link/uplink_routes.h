/* The routes that lead out through one interface, and leading them through a device before it.
 *
 * A route is kept with a higher metric, for what is bound to the interface itself, and a twin of it
 * with the old metric leads into the device. Routes that come later, as when a network is connected
 * again, are found by looking again. IPv4. Thread: one at a time. */
#pragma once

#include "common/base/status.h"

#include <net/if.h>
#include <stdint.h>

typedef struct lh_uplink_routes {
    char interface[IFNAMSIZ], device[IFNAMSIZ];
    unsigned index;         /* of the interface */
    uint32_t network, mask; /* only routes to within it, in network order; 0, 0: all */
    int socket;             /* of the kernel's calls */
    uint32_t moved;         /* so far */
} lh_uplink_routes;

/* "10.77.0.0/16"; "": all. False: it is no IPv4 network. */
bool lh_uplink_network_read(const char *text, uint32_t *network, uint32_t *mask);
/* The interface of the first route to within the network, or of the default route.
 * LH_ERR_NOT_FOUND: there is none. */
lh_status lh_uplink_find_interface(uint32_t network, uint32_t mask, char interface[IFNAMSIZ],
                                   lh_error *error);
/* Takes the device up with the interface's address and its MTU. `interface`, `device`, `network`
 * and `mask` are set. LH_ERR_IO. */
lh_status lh_uplink_routes_open(lh_uplink_routes *routes, lh_error *error);
/* Moves what is not moved yet. LH_ERR_IO: the kernel refuses, with the route. */
lh_status lh_uplink_routes_move(lh_uplink_routes *routes, lh_error *error);
/* Whether the interface that was opened is still there: another one of its name is not it. */
bool lh_uplink_routes_are_there(const lh_uplink_routes *routes);
/* The device takes its routes along when it is closed. */
void lh_uplink_routes_close(lh_uplink_routes *routes);
