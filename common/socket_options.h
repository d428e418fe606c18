/* The TCP options of a data connection. Thread: any. */
#pragma once

#include "common/status.h"

#include <stdint.h>

/* No delay; little unsent data in the kernel, so that an urgent frame overtakes; a dead peer is noticed: sent
 * data that is not acknowledged for `dead_after_ms`, and keepalive probes on an idle connection. LH_ERR_IO.
 */
lh_status lh_socket_set_options(int descriptor, int64_t dead_after_ms, lh_error *error);
