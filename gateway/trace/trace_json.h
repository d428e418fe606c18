/* What the API tells of a trace, straight from the store. Thread: any. */
#pragma once

#include "gateway/trace/trace_store.h"

#include <jansson.h>

/* GET /trace/{id}: trace events (API.md). LH_ERR_NOT_FOUND: no such request; LH_ERR_NO_MEMORY. */
lh_status lh_trace_json_find(lh_trace_store *store, const char *id, json_t **events, lh_error *error);
/* "timing" of an answer; NULL: the request's trace has gone, or no memory. */
json_t *lh_trace_json_timing(lh_trace_store *store, uint64_t trace);
