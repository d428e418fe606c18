/* What the kernel tells of this process, under the names that Prometheus' client libraries give
 * (prometheus.io/docs/instrumenting/writing_clientlibs), and which build of which program it is.
 * Thread: any. */
#pragma once

#include "common/metrics/exposition.h"

/* process_*. What cannot be read (a /proc that is not there) is left out. */
void lh_process_metrics_render(lh_exposition *exposition);
/* longhaul_build_info. program: "gateway", "worker". */
void lh_build_metrics_render(lh_exposition *exposition, const char *program);
