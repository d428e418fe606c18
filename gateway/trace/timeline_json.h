/* A timeline for others: as trace events (Chrome, Perfetto), and its figures as an object of an answer. Thread: any. */
#pragma once

#include "gateway/trace/timeline_figures.h"

#include <jansson.h>

/* {"traceEvents": [...], "displayTimeUnit": "ms", "otherData": {...}}: API.md has the details. NULL: no memory. */
json_t *lh_timeline_json(const lh_timeline *timeline, const lh_figures *figures);
/* "timing" of an answer. NULL: no memory. */
json_t *lh_figures_json(const lh_timeline *timeline, const lh_figures *figures);
