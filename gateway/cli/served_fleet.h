/* Whether a gateway serves the fleet of a state folder, for who makes a line that is to be pasted
 * elsewhere. Thread: start-up only. */
#pragma once

#include "common/base/status.h"

/* LH_OK: it does, by all that is seen. LH_ERR_UNAVAILABLE: its gateway does not listen now.
 * LH_ERR_NOT_FOUND: no gateway has served a fleet from there; LH_ERR_UNSUPPORTED: the gateway that
 * runs has no CA, so that its workers do not join. Statuses of lh_records_read. */
lh_status lh_served_fleet_check(const char *folder, lh_error *error);
