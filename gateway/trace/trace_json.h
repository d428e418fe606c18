/* A trace for others: as trace events (Chrome, Perfetto), and its figures as an object of an
 * answer. Thread: any. */
#pragma once

#include "gateway/trace/timeline_figures.h"

#include <jansson.h>

/* GET /trace/{id}: {"traceEvents": [...], "displayTimeUnit": "ms", "otherData": {...}}; API.md has
 * the details. LH_ERR_NOT_FOUND: no such request; LH_ERR_NO_MEMORY. */
lh_status lh_trace_json_find(lh_trace_store *store, const char *id, json_t **events,
                             lh_error *error);
/* "timing" of an answer; NULL: the request's trace has gone, or no memory. */
json_t *lh_trace_json_timing(lh_trace_store *store, uint64_t trace);

/* The same of a timeline and its figures. NULL: no memory. */
json_t *lh_timeline_json(const lh_timeline *timeline, const lh_figures *figures);
json_t *lh_figures_json(const lh_timeline *timeline, const lh_figures *figures);
