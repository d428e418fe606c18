/* What a connection may cost, and how soon it counts as dead. Plain data; thread: any. */
#pragma once

#include "common/net/program_options.h"

#include <stddef.h>
#include <stdint.h>

typedef struct lh_h2_limits {
    /* of a stream; a connection gets four times as much. Default 16 MiB */
    uint32_t window_bytes;
    uint32_t streams_max;     /* concurrent, per connection, at a server. Default 256 */
    uint32_t connections_max; /* server: that speak HTTP/2. Default 64 */
    /* server: that do not yet, beside the former (common/net/connection_places.h). Default 128 */
    uint32_t new_connections_max;
    /* of one request or answer: names, values and 32 for each (RFC 9113, 6.5.2); more ends the
     * connection. Default 16 KiB */
    size_t header_bytes_max;
    int64_t ping_interval_ms; /* 0: none. Default 500 */
    /* The connection is dead after this time without a byte or a PING answer; after three times as
     * long where bytes come, but no answer. Default 2000 */
    int64_t dead_after_ms;
    /* address, TCP, TLS and the first SETTINGS together. Default 3000 */
    int64_t connect_timeout_ms;
    /* client: streams after which the connection is renewed, before ids run out. Default 2^29 */
    uint32_t renew_after;
    /* client: the share of the link's rate, as a mean over a minute, that may go into probes that
     * open the connection's window (link_warmup.h). Default 0: none */
    uint32_t probe_percent;
    uint64_t probe_bytes_max;    /* client: of one probe. Default 8 MiB */
    uint32_t probe_span_ms;      /* client: lh_link_warmup_measure. Default 0 */
    char congestion_control[16]; /* of the connections; default "": the system's */
} lh_h2_limits;

lh_h2_limits lh_h2_default_limits(void);
/* The default limits with what a program's options say of links. */
lh_h2_limits lh_h2_limits_of_program(const lh_program_options *options);
