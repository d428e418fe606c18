/* How a peer is reached: whom one connects to, where, with TLS or without, and through whom. Plain
 * values. Thread: any. */
#pragma once

#include "common/protocol/step_answer.h"

#include <stdbool.h>

#define LH_ADDRESS_BYTES 272u /* a DNS name of 253, a port, brackets */

typedef struct lh_way {
    bool is_gateway; /* it is the gateway that this worker registers with; the rest may be "" */
    char worker[LH_WORKER_NAME_BYTES];
    char address[LH_ADDRESS_BYTES]; /* "host:port" of the worker, or of the relay `via` */
    bool tls;
    char via[LH_WORKER_NAME_BYTES]; /* the relay that the address is of; "": the worker's own */
} lh_way;

/* Who is at the other end of the connection: the relay, or else the worker; "": the gateway. Lives
 * as long as the way. */
const char *lh_way_peer(const lh_way *way);

bool lh_way_is_same(const lh_way *a, const lh_way *b);
