/* Trace to timeline to figures to JSON. */
#include "gateway/trace/trace_json.h"

#include "gateway/trace/timeline_json.h"

/* Takes the trace. NULL: no memory. */
static json_t *render(lh_trace *trace, json_t *(*make)(const lh_timeline *, const lh_figures *)) {
    lh_timeline *timeline = NULL;
    lh_figures figures;
    json_t *made = NULL;
    if (lh_timeline_create(trace, &timeline, NULL) == LH_OK &&
        lh_figures_make(timeline, &figures, NULL) == LH_OK) {
        made = make(timeline, &figures);
        lh_figures_reset(&figures);
    }
    lh_timeline_destroy(timeline);
    lh_trace_destroy(trace);
    return made;
}

lh_status lh_trace_json_find(lh_trace_store *store, const char *id, json_t **events, lh_error *error) {
    lh_trace *trace = lh_trace_store_find(store, id);
    if (!trace)
        return lh_fail(error, LH_ERR_NOT_FOUND, "no trace of '%.140s'", id);
    *events = render(trace, lh_timeline_json);
    return *events ? LH_OK : lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a trace");
}

json_t *lh_trace_json_timing(lh_trace_store *store, uint64_t trace) {
    lh_trace *copy = lh_trace_store_get(store, trace);
    return copy ? render(copy, lh_figures_json) : NULL;
}
