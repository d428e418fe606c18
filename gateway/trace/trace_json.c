/* Trace to timeline to figures to JSON. Times count from when the request was received.
 *
 * Processes are the gateway (1) and the workers (2, 3, ... in the order of the chain), each with a
 * thread for what it does itself (1), one for each wire that goes out of it (2, ...), and one for
 * the wires among those who compute its stage with it. */
#include "gateway/trace/trace_json.h"

#include "common/json/json_text.h"

#include <stdio.h>
#include <string.h>

#define PID_GATEWAY 1
#define TID_TEAM    100 /* more than a program has wires */

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
    if (track->kind == LH_TRACK_TEAM)
        return TID_TEAM;
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
    else if (track->kind == LH_TRACK_TEAM)
        snprintf(name, bytes, "wire to its team");
    else
        snprintf(name, bytes, "wire to %s", program_name(track->to));
}

static json_t *meta(const char *kind, int pid, int tid, json_t *arguments) {
    return json_pack("{s:s, s:s, s:i, s:i, s:o}", "ph", "M", "name", kind, "pid", pid, "tid", tid,
                     "args", arguments);
}

/* Appends what the track is called, and with a program's first one what the program is. */
static json_t *describe_track(const lh_timeline *line, const lh_track *track, json_t *events) {
    char name[LH_STEP_TIMES_NAME_BYTES + 16], program[LH_STEP_TIMES_NAME_BYTES + 16];
    int pid = pid_of(line, track), tid = tid_of(line, track);
    name_track(track, name, sizeof name);
    snprintf(program, sizeof program, "%s%s", track->from[0] ? "worker " : "",
             program_name(track->from));
    events =
        lh_json_append(events, meta("thread_name", pid, tid, json_pack("{s:s}", "name", name)));
    events = lh_json_append(
        events, meta("thread_sort_index", pid, tid, json_pack("{s:i}", "sort_index", tid)));
    if (tid > 1)
        return events;
    events =
        lh_json_append(events, meta("process_name", pid, tid, json_pack("{s:s}", "name", program)));
    return lh_json_append(
        events, meta("process_sort_index", pid, tid, json_pack("{s:i}", "sort_index", pid)));
}

/* ---- Events ---- */

static void name_step(const lh_timeline_step *step, char *name, size_t bytes) {
    if (step->is_prefill)
        snprintf(name, bytes, "chunk %u", step->number);
    else
        snprintf(name, bytes, "%s %u",
                 step->step->step_class == LH_STEP_DECODE ? "decode" : "again", step->number);
}

static bool is_of_gather(const lh_span *span) {
    return span->kind == LH_SPAN_GATHER || span->kind == LH_SPAN_AWAIT;
}

static void name_span(const lh_timeline *line, const lh_span *span, char *name, size_t bytes) {
    char step[32] = "";
    if (span->step == LH_SPAN_NO_STEP) {
        snprintf(name, bytes, "%s", lh_span_kind_name(span->kind));
        return;
    }
    name_step(&line->steps[span->step], step, sizeof step);
    if (is_of_gather(span))
        snprintf(name, bytes, "%s %s %u", step, lh_span_kind_name(span->kind), span->gather);
    else if (span->columns)
        snprintf(name, bytes, "%s %s columns %u-%u", step, lh_span_kind_name(span->kind),
                 span->first_column, span->first_column + span->columns - 1);
    else
        snprintf(name, bytes, "%s %s", step, lh_span_kind_name(span->kind));
}

static json_t *span_arguments(const lh_timeline *line, const lh_span *span) {
    if (span->step == LH_SPAN_NO_STEP)
        return json_object();
    const lh_timeline_step *own = &line->steps[span->step];
    json_t *all = json_pack(
        "{s:s, s:b, s:I, s:I, s:I, s:I}", "class",
        own->step->step_class == LH_STEP_PREFILL ? "prefill" : "decode", "prefill", own->is_prefill,
        "number", (json_int_t)own->number, "step", (json_int_t)own->step->step, "first_position",
        (json_int_t)own->entry->first_position, "rows", (json_int_t)own->entry->rows);
    if (is_of_gather(span))
        all = lh_json_set(all, "gather", json_integer(span->gather));
    if (span->kind == LH_SPAN_GATHER) {
        all = lh_json_set(all, "bytes", json_integer(span->bytes));
        all = lh_json_set(all, "posted_ts", json_integer(span->left_us - line->trace->received_us));
    }
    if (!span->columns)
        return all;
    all = lh_json_set(all, "first_row", json_integer(span->first_row));
    all = lh_json_set(all, "shard_rows", json_integer(span->rows));
    all = lh_json_set(all, "first_column", json_integer(span->first_column));
    all = lh_json_set(all, "columns", json_integer(span->columns));
    all = lh_json_set(all, "bytes", json_integer(span->bytes));
    return span->left_us ? lh_json_set(all, "handed_ts",
                                       json_integer(span->left_us - line->trace->received_us))
                         : all;
}

static json_t *span_event(const lh_timeline *line, const lh_span *span) {
    char name[96];
    const lh_track *track = &line->tracks[span->track];
    name_span(line, span, name, sizeof name);
    return json_pack(
        "{s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:o}", "ph", "X", "name", name, "cat",
        lh_span_kind_name(span->kind), "pid", pid_of(line, track), "tid", tid_of(line, track), "ts",
        (json_int_t)(span->begin_us - line->trace->received_us), "dur",
        (json_int_t)(span->end_us - span->begin_us), "args", span_arguments(line, span));
}

static json_t *step_arguments(const lh_timeline_step *own, int64_t since_us) {
    const lh_trace_step *step = own->step;
    return json_pack("{s:I, s:I, s:I, s:o, s:I, s:s, s:b}", "rows", (json_int_t)own->entry->rows,
                     "step_rows", (json_int_t)step->rows, "submitted_ts",
                     (json_int_t)(step->submitted_us - since_us), "results_ts",
                     step->results_us ? json_integer(step->results_us - since_us) : json_null(),
                     "answered_ts", (json_int_t)(step->answered_us - since_us), "status",
                     lh_status_name(step->status), "timed", own->is_timed);
}

/* Steps overlap, so each is an asynchronous event of the gateway: its begin, and its end. */
static json_t *step_event(const lh_timeline_step *own, const char *phase, int64_t ts_us,
                          json_t *arguments) {
    char name[32], id[32];
    name_step(own, name, sizeof name);
    snprintf(id, sizeof id, "%u.%llu", own->step->epoch, (unsigned long long)own->step->step);
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:o}", "ph", phase, "name", name, "cat",
                     "step", "id", id, "pid", PID_GATEWAY, "tid", 1, "ts", (json_int_t)ts_us,
                     "args", arguments);
}

static json_t *events_of(const lh_timeline *line) {
    json_t *events = json_array();
    int64_t since_us = line->trace->received_us;
    for (uint32_t i = 0; i < line->track_count; i++)
        events = describe_track(line, &line->tracks[i], events);
    for (size_t i = 0; i < line->span_count; i++)
        events = lh_json_append(events, span_event(line, &line->spans[i]));
    for (uint32_t i = 0; i < line->step_count; i++) {
        const lh_timeline_step *own = &line->steps[i];
        events = lh_json_append(events, step_event(own, "b", own->step->formed_us - since_us,
                                                   step_arguments(own, since_us)));
        events = lh_json_append(
            events, step_event(own, "e", own->step->answered_us - since_us, json_object()));
    }
    return events;
}

/* ---- Figures ---- */

static json_t *numbers(const uint32_t *values, uint32_t count) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        list = lh_json_append(list, json_integer(values[i]));
    return list;
}

/* How many times the bound it took. */
static json_t *distance(int64_t took_us, int64_t bound_us) {
    return took_us > 0 && bound_us > 0 ? json_real((double)took_us / (double)bound_us)
                                       : json_null();
}

/* null: the worker computes its stage alone. */
static json_t *gather_figures(const lh_track_figures *figures) {
    if (figures->gathers_us == 0)
        return json_null();
    const double exposed = (double)figures->awaited_us / (double)figures->gathers_us;
    return json_pack("{s:o, s:o, s:f}", "under_way_ms", milliseconds(figures->gathers_us),
                     "awaited_ms", milliseconds(figures->awaited_us), "hidden_share",
                     exposed < 1 ? 1 - exposed : 0);
}

static json_t *stage_figures(const lh_track *track, const lh_track_figures *figures) {
    return json_pack(
        "{s:s, s:o, s:f, s:o, s:o}", "worker", track->from, "busy_ms",
        milliseconds(figures->busy_us), "busy_share", figures->busy_share, "believed_ms",
        figures->believed_us > 0 ? json_real(figures->believed_us / 1000) : json_null(), "gathers",
        gather_figures(figures));
}

/* Sentences on what is far from what was believed. */
static json_t *remarks(const lh_timeline *line, const lh_figures *figures) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < figures->track_count; i++) {
        const lh_track_figures *one = &figures->tracks[i];
        char text[LH_STEP_TIMES_NAME_BYTES + 96];
        if (one->surprise <= 0)
            continue;
        snprintf(text, sizeof text, "%s took %.1f times what its meter says: %s",
                 line->tracks[one->track].from, one->surprise,
                 one->surprise > 1 ? "other work on that machine?"
                                   : "was there other work when it was measured?");
        list = lh_json_append(list, json_string(text));
    }
    return list;
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
    for (uint32_t i = 0; i < figures->track_count; i++) {
        const lh_track_figures *one = &figures->tracks[i];
        const lh_track *track = &line->tracks[one->track];
        if (track->kind == kind)
            list = lh_json_append(list, kind == LH_TRACK_COMPUTE ? stage_figures(track, one)
                                                                 : hop_figures(track, one));
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
        "s:o, s:o, s:o}",
        "complete", f->is_whole, "time_to_first_token_ms", milliseconds(f->first_token_us),
        "total_ms", milliseconds(f->total_us), "prefill_ms", milliseconds(f->prefill_us),
        "compute_ms", milliseconds(f->compute_us), "wire_ms", milliseconds(f->wire_us), "wait_ms",
        milliseconds(f->wait_us), "bound_ms", milliseconds(f->bound_us), "distance",
        distance(f->prefill_us, f->bound_us), "sum_ms", milliseconds(f->sum_us), "around_ms",
        milliseconds(f->around_us), "cached_tokens", (json_int_t)f->cached_tokens, "chunk_count",
        (json_int_t)f->chunk_count, "chunks", numbers(f->chunks, listed), "plan",
        line->trace->plan[0] ? json_string(line->trace->plan) : json_null(), "predicted_ms",
        line->trace->predicted_us ? milliseconds(line->trace->predicted_us) : json_null(), "decode",
        decode, "stages", list_figures(line, f, LH_TRACK_COMPUTE), "hops",
        list_figures(line, f, LH_TRACK_WIRE), "remarks", remarks(line, f));
}

/* ---- The whole ---- */

static json_t *clocks_of(const lh_timeline *line) {
    json_t *clocks = json_object();
    for (uint32_t i = 0; i < line->track_count; i++) {
        const lh_track *track = &line->tracks[i];
        if (track->kind == LH_TRACK_COMPUTE)
            clocks = lh_json_set(clocks, track->from,
                                 track->error_us < 0 ? json_null() : milliseconds(track->error_us));
    }
    return clocks;
}

static json_t *other_data(const lh_timeline *line, const lh_figures *figures) {
    const lh_trace *trace = line->trace;
    bool is_over = trace->ended_us != 0 && trace->open_steps == 0;
    return json_pack("{s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:o, s:o}", "id", trace->id, "request_id",
                     trace->request_id, "over", is_over, "prompt_tokens",
                     (json_int_t)trace->prompt_tokens, "tokens", (json_int_t)trace->token_count,
                     "steps", (json_int_t)line->step_count, "steps_dropped",
                     (json_int_t)trace->dropped_count, "clock_error_ms", clocks_of(line), "timing",
                     lh_figures_json(line, figures));
}

json_t *lh_timeline_json(const lh_timeline *line, const lh_figures *figures) {
    return json_pack("{s:s, s:o, s:o}", "displayTimeUnit", "ms", "otherData",
                     other_data(line, figures), "traceEvents", events_of(line));
}

/* ---- From the store ---- */

/* Takes the trace. NULL: no memory. */
static json_t *render(lh_trace *trace, json_t *(*make)(const lh_timeline *, const lh_figures *)) {
    lh_timeline *timeline;
    lh_figures figures;
    json_t *made = NULL;
    if (lh_timeline_create(trace, &timeline, NULL))
        return NULL;
    if (!lh_figures_make(timeline, &figures, NULL)) {
        made = make(timeline, &figures);
        lh_figures_reset(&figures);
    }
    lh_timeline_destroy(timeline);
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
