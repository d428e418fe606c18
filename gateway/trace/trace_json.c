/* Trace to timeline to figures to JSON. Times count from when the request was received.
 *
 * Processes are the gateway (1) and the workers (2, 3, ... in the order of the chain), each with a
 * thread for what it does itself (1) and one for each wire that goes out of it (2, ...). */
#include "gateway/trace/trace_json.h"

#include <stdio.h>
#include <string.h>

#define PID_GATEWAY 1

/* Appends what may be NULL. False: no memory. */
static bool append(json_t *list, json_t *value) {
    return value && json_array_append_new(list, value) == 0;
}

static json_t *milliseconds(int64_t us) {
    return json_real((double)us / 1000);
}

/* ---- Tracks ---- */

/* Of the program that a track belongs to: that of its `from`. */
static int pid_of(const lh_timeline *line, const lh_track *track) {
    int pid = PID_GATEWAY;
    if (track->from[0] == '\0')
        return pid;
    for (uint32_t i = 0; i < line->track_count; i++) {
        const lh_track *other = &line->tracks[i];
        pid += other->kind == LH_TRACK_COMPUTE;
        if (other->kind == LH_TRACK_COMPUTE && strcmp(other->from, track->from) == 0)
            return pid;
    }
    return pid + 1;
}

static int tid_of(const lh_timeline *line, const lh_track *track) {
    int tid = 2;
    if (track->kind != LH_TRACK_WIRE)
        return 1;
    for (const lh_track *other = line->tracks; other < track; other++)
        tid += other->kind == LH_TRACK_WIRE && strcmp(other->from, track->from) == 0;
    return tid;
}

static const char *program_name(const char *name) {
    return name[0] ? name : "gateway";
}

static void name_track(const lh_track *track, char *name, size_t bytes) {
    if (track->kind == LH_TRACK_REQUEST)
        snprintf(name, bytes, "request");
    else if (track->kind == LH_TRACK_COMPUTE)
        snprintf(name, bytes, "compute");
    else
        snprintf(name, bytes, "wire to %s", program_name(track->to));
}

static json_t *meta(const char *kind, int pid, int tid, json_t *arguments) {
    return json_pack("{s:s, s:s, s:i, s:i, s:o}", "ph", "M", "name", kind, "pid", pid, "tid", tid,
                     "args", arguments);
}

static bool describe_track(const lh_timeline *line, const lh_track *track, json_t *events) {
    char name[LH_STEP_TIMES_NAME_BYTES + 16], program[LH_STEP_TIMES_NAME_BYTES + 16];
    int pid = pid_of(line, track), tid = tid_of(line, track);
    name_track(track, name, sizeof name);
    snprintf(program, sizeof program, "%s%s", track->from[0] ? "worker " : "",
             program_name(track->from));
    bool is_whole =
        append(events, meta("thread_name", pid, tid, json_pack("{s:s}", "name", name))) &&
        append(events, meta("thread_sort_index", pid, tid, json_pack("{s:i}", "sort_index", tid)));
    if (tid > 1)
        return is_whole;
    return is_whole &&
           append(events, meta("process_name", pid, tid, json_pack("{s:s}", "name", program))) &&
           append(events,
                  meta("process_sort_index", pid, tid, json_pack("{s:i}", "sort_index", pid)));
}

/* ---- Events ---- */

static void name_step(const lh_timeline_step *step, char *name, size_t bytes) {
    if (step->is_prefill)
        snprintf(name, bytes, "chunk %u", step->number);
    else
        snprintf(name, bytes, "%s %u", step->step_class == LH_STEP_DECODE ? "decode" : "again",
                 step->number);
}

static void name_span(const lh_timeline *line, const lh_span *span, char *name, size_t bytes) {
    char step[32] = "";
    if (span->step == LH_SPAN_NO_STEP) {
        snprintf(name, bytes, "%s", lh_span_kind_name(span->kind));
        return;
    }
    name_step(&line->steps[span->step], step, sizeof step);
    if (span->columns)
        snprintf(name, bytes, "%s %s columns %u-%u", step, lh_span_kind_name(span->kind),
                 span->first_column, span->first_column + span->columns - 1);
    else
        snprintf(name, bytes, "%s %s", step, lh_span_kind_name(span->kind));
}

static json_t *span_arguments(const lh_timeline *line, const lh_span *span) {
    if (span->step == LH_SPAN_NO_STEP)
        return json_object();
    const lh_timeline_step *step = &line->steps[span->step];
    json_t *all = json_pack("{s:s, s:b, s:I, s:I, s:I, s:I}", "class",
                            step->step_class == LH_STEP_PREFILL ? "prefill" : "decode", "prefill",
                            step->is_prefill, "number", (json_int_t)step->number, "step",
                            (json_int_t)step->step, "first_position",
                            (json_int_t)step->first_position, "rows", (json_int_t)step->rows);
    if (!all || !span->columns)
        return all;
    json_t *shard = json_pack("{s:I, s:I, s:I, s:I, s:I}", "first_row", (json_int_t)span->first_row,
                              "shard_rows", (json_int_t)span->rows, "first_column",
                              (json_int_t)span->first_column, "columns", (json_int_t)span->columns,
                              "bytes", (json_int_t)span->bytes);
    bool is_whole = shard && json_object_update(all, shard) == 0;
    json_decref(shard);
    if (is_whole && span->left_us)
        is_whole = json_object_set_new(all, "handed_ts",
                                       json_integer(span->left_us - line->received_us)) == 0;
    if (is_whole)
        return all;
    json_decref(all);
    return NULL;
}

static json_t *span_event(const lh_timeline *line, const lh_span *span) {
    char name[96];
    const lh_track *track = &line->tracks[span->track];
    name_span(line, span, name, sizeof name);
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:o}", "ph", "X", "name", name, "cat",
                     lh_span_kind_name(span->kind), "pid", pid_of(line, track), "tid",
                     tid_of(line, track), "ts", (json_int_t)(span->begin_us - line->received_us),
                     "dur", (json_int_t)(span->end_us - span->begin_us), "args",
                     span_arguments(line, span));
}

/* Steps overlap, so they are asynchronous events of the gateway: formed, submitted, results,
 * answer. */
static json_t *step_event(const lh_timeline *line, const lh_timeline_step *step, const char *phase,
                          int64_t at_us) {
    char name[32], id[32];
    name_step(step, name, sizeof name);
    snprintf(id, sizeof id, "%u.%llu", step->epoch, (unsigned long long)step->step);
    json_t *arguments = json_object();
    if (strcmp(phase, "b") == 0) {
        json_decref(arguments);
        int64_t since = line->received_us;
        arguments = json_pack(
            "{s:I, s:I, s:I, s:o, s:I, s:s, s:b}", "rows", (json_int_t)step->rows, "step_rows",
            (json_int_t)step->step_rows, "submitted_ts", (json_int_t)(step->submitted_us - since),
            "results_ts", step->results_us ? json_integer(step->results_us - since) : json_null(),
            "answered_ts", (json_int_t)(step->answered_us - since), "status",
            lh_status_name(step->status), "timed", step->is_timed);
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:o}", "ph", phase, "name", name, "cat",
                     "step", "id", id, "pid", PID_GATEWAY, "tid", 1, "ts",
                     (json_int_t)(at_us - line->received_us), "args", arguments);
}

static json_t *events_of(const lh_timeline *line) {
    json_t *events = json_array();
    bool is_whole = events;
    for (uint32_t i = 0; is_whole && i < line->track_count; i++)
        is_whole = describe_track(line, &line->tracks[i], events);
    for (size_t i = 0; is_whole && i < line->span_count; i++)
        is_whole = append(events, span_event(line, &line->spans[i]));
    for (uint32_t i = 0; is_whole && i < line->step_count; i++) {
        const lh_timeline_step *step = &line->steps[i];
        is_whole = append(events, step_event(line, step, "b", step->formed_us)) &&
                   append(events, step_event(line, step, "e", step->answered_us));
    }
    if (is_whole)
        return events;
    json_decref(events);
    return NULL;
}

/* ---- Figures ---- */

static json_t *numbers(const uint32_t *values, uint32_t count) {
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < count; i++)
        if (!append(list, json_integer(values[i]))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* How many times the bound it took. */
static json_t *distance(int64_t took_us, int64_t bound_us) {
    return took_us > 0 && bound_us > 0 ? json_real((double)took_us / (double)bound_us)
                                       : json_null();
}

static json_t *stage_figures(const lh_track *track, const lh_track_figures *figures) {
    return json_pack("{s:s, s:o, s:f}", "worker", track->from, "busy_ms",
                     milliseconds(figures->busy_us), "busy_share", figures->busy_share);
}

static json_t *hop_figures(const lh_track *track, const lh_track_figures *figures) {
    return json_pack("{s:s, s:s, s:o, s:f, s:o, s:I, s:o}", "from", program_name(track->from), "to",
                     program_name(track->to), "busy_ms", milliseconds(figures->busy_us),
                     "busy_share", figures->busy_share, "one_way_ms",
                     milliseconds(track->one_way_us), "bytes", (json_int_t)figures->bytes, "cut",
                     numbers(figures->shard_ends, figures->shard_count));
}

static json_t *list_figures(const lh_timeline *line, const lh_figures *figures,
                            lh_track_kind kind) {
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < figures->track_count; i++) {
        const lh_track *track = &line->tracks[figures->tracks[i].track];
        if (track->kind != kind)
            continue;
        json_t *one = kind == LH_TRACK_COMPUTE ? stage_figures(track, &figures->tracks[i])
                                               : hop_figures(track, &figures->tracks[i]);
        if (!append(list, one)) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *lh_figures_json(const lh_timeline *line, const lh_figures *f) {
    uint32_t listed =
        f->chunk_count < LH_FIGURES_CHUNKS_MAX ? f->chunk_count : LH_FIGURES_CHUNKS_MAX;
    json_t *decode =
        f->decode_us
            ? json_pack("{s:I, s:o, s:o, s:o}", "tokens", (json_int_t)f->decode_count, "token_ms",
                        milliseconds(f->decode_us), "bound_ms", milliseconds(f->decode_bound_us),
                        "distance", distance(f->decode_us, f->decode_bound_us))
            : json_null();
    return json_pack(
        "{s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, "
        "s:o, s:o}",
        "complete", f->is_whole, "time_to_first_token_ms", milliseconds(f->first_token_us),
        "total_ms", milliseconds(f->total_us), "prefill_ms", milliseconds(f->prefill_us),
        "compute_ms", milliseconds(f->compute_us), "wire_ms", milliseconds(f->wire_us), "wait_ms",
        milliseconds(f->wait_us), "bound_ms", milliseconds(f->bound_us), "distance",
        distance(f->prefill_us, f->bound_us), "sum_ms", milliseconds(f->sum_us), "around_ms",
        milliseconds(f->around_us), "cached_tokens", (json_int_t)f->cached_tokens, "chunk_count",
        (json_int_t)f->chunk_count, "chunks", numbers(f->chunks, listed), "plan",
        line->plan[0] ? json_string(line->plan) : json_null(), "predicted_ms",
        line->predicted_us ? milliseconds(line->predicted_us) : json_null(), "decode", decode,
        "stages", list_figures(line, f, LH_TRACK_COMPUTE), "hops",
        list_figures(line, f, LH_TRACK_WIRE));
}

/* ---- The whole ---- */

static json_t *error_or_null(int64_t error_us) {
    return error_us < 0 ? json_null() : milliseconds(error_us);
}

static json_t *clocks_of(const lh_timeline *line) {
    json_t *clocks = json_object();
    for (uint32_t i = 0; clocks && i < line->track_count; i++) {
        const lh_track *track = &line->tracks[i];
        if (track->kind == LH_TRACK_COMPUTE &&
            json_object_set_new(clocks, track->from, error_or_null(track->error_us)) != 0) {
            json_decref(clocks);
            return NULL;
        }
    }
    return clocks;
}

static json_t *other_data(const lh_timeline *line, const lh_figures *figures) {
    return json_pack("{s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:o, s:o}", "id", line->id, "request_id",
                     line->request_id, "over", line->is_over, "prompt_tokens",
                     (json_int_t)line->prompt_tokens, "tokens", (json_int_t)line->token_count,
                     "steps", (json_int_t)line->step_count, "steps_dropped",
                     (json_int_t)line->dropped_count, "clock_error_ms", clocks_of(line), "timing",
                     lh_figures_json(line, figures));
}

json_t *lh_timeline_json(const lh_timeline *line, const lh_figures *figures) {
    return json_pack("{s:s, s:o, s:o}", "displayTimeUnit", "ms", "otherData",
                     other_data(line, figures), "traceEvents", events_of(line));
}

/* ---- From the store ---- */

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

lh_status lh_trace_json_find(lh_trace_store *store, const char *id, json_t **events,
                             lh_error *error) {
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
