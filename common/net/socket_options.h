/* The TCP options of a data connection. Thread: any. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* No delay; little unsent data in the kernel, so that an urgent frame overtakes; a dead peer is
 * noticed: sent data that is not acknowledged for `dead_after_ms`, and keepalive probes on an idle
 * connection. congestion_control: "" is the system's. LH_ERR_IO. */
lh_status lh_socket_set_options(int descriptor, int64_t dead_after_ms,
                                const char *congestion_control, lh_error *error);
/* Bytes that the kernel has taken and not sent; 0 where it does not tell. */
size_t lh_socket_unsent_bytes(int descriptor);
/* How many unsent bytes the kernel takes before it asks for no more (TCP_NOTSENT_LOWAT): an urgent
 * frame waits behind them. It is not strict: what is written without being asked for still joins a
 * segment that waits, up to 64 KiB. A connection that is gone is left alone. */
void lh_socket_set_unsent_max(int descriptor, int bytes);
