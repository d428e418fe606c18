/* How fast this machine is, before it has been assigned a stage: some products, timed
 * (lh_machine_speed). */
#pragma once

#include "common/base/status.h"
#include "common/protocol/measurements.h"
#include "worker/compute/stage/ops.h"

/* Takes a tenth of a second, most of which it sleeps, and 16 MiB meanwhile; on a machine of a
 * hundredth of the speed some tenths more. What other programs take of the machine's cores does not
 * count. A device takes 300 MiB of its own. LH_ERR_NO_MEMORY, LH_ERR_UNAVAILABLE (of the device).
 * Thread: the one that may run jobs on compute->pool. */
lh_status lh_machine_speed_measure(const lh_compute *compute, lh_machine_speed *speed,
                                   lh_error *error);
