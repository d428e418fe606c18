/* What can be wrong with a fleet, by what its gateway says of it: a table of checks, each a small
 * function with a text of its own. Pure, but for the files of keys. Thread: any. */
#pragma once

#include "common/doctor/findings.h"
#include "gateway/cli/fleet_document.h"

/* Looks at everything, machines included (machine_checks.h). now_s: Unix time. LH_ERR_NO_MEMORY. */
lh_status lh_fleet_checks_run(const lh_fleet_document *document, int64_t now_s,
                              lh_findings *findings);
