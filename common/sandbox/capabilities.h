/* What root may do beyond others (capabilities(7)): a program that is started as root keeps little
 * of it, so that whoever finds a fault in it cannot configure the machine's network, for one. */
#pragma once

#include "common/base/status.h"
#include "common/sandbox/sandbox_rules.h"

#include <stdint.h>

/* Keeps what opening files, listening on ports below 1024 and raising the limit of descriptors may
 * need, with rules->keeps_network_admin CAP_NET_ADMIN, too; *kept is what is left, one bit for each
 * as in CapEff of /proc/self/status: 0 for a usual user. For this thread and those that it starts.
 * LH_ERR_IO: the kernel refuses. */
lh_status lh_capabilities_drop(const lh_sandbox_rules *rules, uint64_t *kept, lh_error *error);
