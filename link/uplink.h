/* Lets what leaves this machine, or this container's network namespace, by one interface go through
 * a line with a rate and a delay, so that machines of one room meet as those of several sites do.
 * Each end shapes what it sends: two of 10 ms make a round trip of 20 ms. IPv4; what comes in is
 * not touched.
 *
 * Needs CAP_NET_ADMIN, CAP_NET_RAW and /dev/net/tun. Real programs beside it need nothing. */
#pragma once

#include "common/base/status.h"
#include "link/line.h"

typedef struct lh_uplink_options {
    const char *interface; /* "": that of the routes to `network`, else of the default route */
    const char *network;   /* only what goes there, "10.77.0.0/16"; "": all */
    lh_line_settings line;
} lh_uplink_options;

/* Runs until SIGTERM or SIGINT. LH_ERR_INVALID (the network), LH_ERR_NOT_FOUND (no such route),
 * LH_ERR_CLOSED (the interface is gone: a container's network was disconnected, or the container
 * has ended), LH_ERR_IO. Thread: the only one. */
lh_status lh_link_uplink(const lh_uplink_options *options, lh_error *error);
