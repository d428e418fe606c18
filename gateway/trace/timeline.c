/* Two passes over the steps: first for the clocks, then for the request, in the gateway's clock.
 *
 * Every step carries the bounds of the ring's clocks as they were known when it ended. All of a
 * trace's steps together know more than each: so the first pass gathers the bounds of each epoch,
 * and the second puts each step where they say it was. What was seen on a worker and what was seen
 * on the next one then keep their order, since the bounds hold for all of it. */
#include "gateway/trace/timeline.h"

#include "common/base/growing_array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 13 days: nothing of a request is as far from its beginning. What a worker says is nonsense then,
 * and no sums are made of it. */
#define FAR_US (1ll << 40)

/* Where in a step's activation a shard lies, and its size: of a span, from what a worker tells. */
#define CELLS_OF(shard)                                                                            \
    .first_row = (shard)->first_row, .rows = (shard)->rows, .first_column = (shard)->first_column, \
    .columns = (shard)->columns, .bytes = (shard)->bytes

/* What is needed while a timeline is made. */
typedef struct draft {
    lh_timeline *line;
    /* The ring of the epoch that is being drawn: its hops, and its clocks at the step's moment. */
    uint32_t hop_count;
    lh_clock_hop hops[LH_CLOCK_RING_MAX];
    lh_clock_offset clocks[LH_CLOCK_RING_MAX];
    lh_step_times times[2]; /* of a worker and the one before it */
    bool has_failed;        /* out of memory */
} draft;

const char *lh_span_kind_name(lh_span_kind kind) {
    static const char *const names[] = {"request",  "tokenize", "queue",   "prefill", "decode",
                                        "begin",    "accept",   "finish",  "emit",    "await",
                                        "manifest", "shard",    "results", "gather"};
    return names[kind];
}

/* ---- Tracks and spans ---- */

static uint32_t find_track(draft *d, lh_track_kind kind, const char *from, const char *to) {
    lh_timeline *line = d->line;
    for (uint32_t i = 0; i < line->track_count; i++)
        if (line->tracks[i].kind == kind && strcmp(line->tracks[i].from, from) == 0 &&
            strcmp(line->tracks[i].to, to) == 0)
            return i;
    lh_track *tracks = reallocarray(line->tracks, line->track_count + 1, sizeof *tracks);
    if (!tracks) {
        d->has_failed = true;
        return 0;
    }
    line->tracks = tracks;
    lh_track *track = &tracks[line->track_count];
    *track = (lh_track){.kind = kind};
    snprintf(track->from, sizeof track->from, "%s", from);
    snprintf(track->to, sizeof track->to, "%s", to);
    return line->track_count++;
}

/* Spans of which one end is not known, or that end before they begin by clocks that are not known
 * well, are left out. */
static void add_span(draft *d, const lh_span *span) {
    lh_timeline *line = d->line;
    int64_t received_us = line->trace->received_us;
    bool is_near = span->begin_us > received_us - FAR_US && span->end_us < received_us + FAR_US;
    if (d->has_failed || span->begin_us == 0 || span->end_us < span->begin_us || !is_near)
        return;
    if (!lh_growing_array_reserve(&line->spans, &line->span_capacity, line->span_count + 1,
                                  sizeof *line->spans)) {
        d->has_failed = true;
        return;
    }
    line->spans[line->span_count++] = *span;
}

/* ---- Clocks ---- */

/* What all steps of an epoch together know of its clocks; `first` is the first of them. Steps whose
 * answers were cut tell of fewer hops, and their last one is none of the ring's. */
static void gather_clocks(draft *d, uint32_t first) {
    const lh_timeline_step *steps = d->line->steps;
    d->hop_count = 0;
    for (uint32_t i = first;
         i < d->line->step_count && steps[i].step->epoch == steps[first].step->epoch; i++) {
        const lh_trace_step *step = steps[i].step;
        if (step->hop_count > d->hop_count) {
            memset(d->hops, 0, sizeof d->hops);
            d->hop_count = step->hop_count;
        }
        for (uint32_t k = 0; step->hop_count == d->hop_count && k < d->hop_count; k++)
            lh_clock_hop_bound(&d->hops[k], &step->hops[k]);
    }
}

/* In the gateway's clock; 0: it did not happen. */
static int64_t worker_moment(const draft *d, uint32_t clock, const lh_step_times *times,
                             uint32_t offset_us) {
    int64_t moment_us = lh_trace_moment(times, offset_us);
    return moment_us ? moment_us - d->clocks[clock].offset_us : 0;
}

static void note_error(lh_track *track, int64_t error_us) {
    if (error_us < 0 || track->error_us < 0)
        track->error_us = -1;
    else if (error_us > track->error_us)
        track->error_us = error_us;
}

/* The wire of a hop, with the errors of its clocks and its one-way delay. */
static uint32_t wire_track(draft *d, uint32_t hop, const char *from, const char *to,
                           int64_t near_us) {
    uint32_t index = find_track(d, LH_TRACK_WIRE, from, to);
    if (d->has_failed)
        return 0;
    lh_track *track = &d->line->tracks[index];
    uint32_t far = (hop + 1) % d->hop_count;
    lh_clock_bounds bounds;
    note_error(track, d->clocks[hop].error_us);
    note_error(track, d->clocks[far].error_us);
    if (lh_clock_hop_at(&d->hops[hop], near_us, &bounds))
        track->one_way_us = (bounds.highest_us - bounds.lowest_us) / 2;
    return index;
}

/* ---- Steps ---- */

static void note_belief(lh_track *track, const lh_timeline_step *own, uint32_t stage) {
    if (!own->is_prefill)
        return;
    if (stage < own->step->believed_count)
        track->believed_us += own->step->believed_us[stage];
    else
        track->lacks_belief = true;
}

static void draw_compute(draft *d, uint32_t step, uint32_t clock, const lh_step_times *t) {
    uint32_t track = find_track(d, LH_TRACK_COMPUTE, t->worker, "");
    if (d->has_failed)
        return;
    note_error(&d->line->tracks[track], d->clocks[clock].error_us);
    note_belief(&d->line->tracks[track], &d->line->steps[step], clock - 1);
    lh_span span = {.kind = LH_SPAN_BEGIN, .track = track, .step = step};
    span.begin_us = worker_moment(d, clock, t, t->begin_us);
    span.end_us = worker_moment(d, clock, t, t->begun_us);
    add_span(d, &span);
    span.kind = LH_SPAN_FINISH;
    span.begin_us = worker_moment(d, clock, t, t->finish_us);
    span.end_us = worker_moment(d, clock, t, t->finished_us);
    add_span(d, &span);
    for (uint32_t i = 0; i < t->taken_count && i < LH_STEP_TIMES_SHARDS_MAX; i++) {
        const lh_step_shard_taken *s = &t->taken[i];
        add_span(d, &(lh_span){.kind = LH_SPAN_ACCEPT,
                               .track = track,
                               .step = step,
                               .begin_us = worker_moment(d, clock, t, s->accept_us),
                               .end_us = worker_moment(d, clock, t, s->accepted_us),
                               CELLS_OF(s)});
    }
    int64_t before_us = 0;
    for (uint32_t i = 0; i < t->given_count && i < LH_STEP_TIMES_SHARDS_MAX; i++) {
        const lh_step_shard_given *s = &t->given[i];
        int64_t now_us = worker_moment(d, clock, t, s->emitted_us);
        add_span(d, &(lh_span){.kind = LH_SPAN_EMIT,
                               .track = track,
                               .step = step,
                               .begin_us = before_us ? before_us : now_us,
                               .end_us = now_us,
                               CELLS_OF(s)});
        before_us = now_us;
    }
}

/* What is waited for of several members, one after the other, is drawn as one wait. */
static void draw_gathers(draft *d, uint32_t step, uint32_t clock, const lh_step_times *t) {
    const uint32_t compute = find_track(d, LH_TRACK_COMPUTE, t->worker, ""),
                   team = t->gather_count > 0 ? find_track(d, LH_TRACK_TEAM, t->worker, "") : 0;
    for (uint32_t i = 0; i < t->gather_count && i < LH_STEP_TIMES_GATHERS_MAX; i++) {
        const lh_step_gather *g = &t->gathers[i];
        const int64_t posted_us = worker_moment(d, clock, t, g->posted_us),
                      taken_us = worker_moment(d, clock, t, g->taken_us);
        add_span(d, &(lh_span){.kind = LH_SPAN_GATHER,
                               .track = team,
                               .step = step,
                               .begin_us = posted_us,
                               .end_us = worker_moment(d, clock, t, g->there_us),
                               .left_us = posted_us,
                               .bytes = g->bytes,
                               .gather = i});
        if (g->waited_us > 0)
            add_span(d, &(lh_span){.kind = LH_SPAN_AWAIT,
                                   .track = compute,
                                   .step = step,
                                   .begin_us = taken_us,
                                   .end_us = taken_us + g->waited_us,
                                   .gather = i});
    }
}

static void draw_shards(draft *d, uint32_t step, uint32_t hop, const lh_step_times *from,
                        const lh_step_times *to) {
    uint32_t track = wire_track(d, hop, from->worker, to->worker, (int64_t)from->base_us);
    for (uint32_t i = 0; i < to->taken_count && i < LH_STEP_TIMES_SHARDS_MAX; i++) {
        const lh_step_shard_taken *s = &to->taken[i];
        const lh_step_shard_given *given = lh_trace_find_given(from, s);
        int64_t left_us = given ? worker_moment(d, hop, from, given->handed_us) : 0;
        add_span(d, &(lh_span){.kind = LH_SPAN_SHARD,
                               .track = track,
                               .step = step,
                               .begin_us = left_us,
                               .end_us = worker_moment(d, hop + 1, to, s->came_us),
                               .left_us = left_us,
                               CELLS_OF(s)});
    }
}

/* Where nothing is known of its clock, a worker's times mean nothing here. */
static bool is_placed(const draft *d, uint32_t clock) {
    return d->clocks[clock].error_us >= 0;
}

static void draw_step(draft *d, uint32_t index) {
    const lh_trace_step *step = d->line->steps[index].step;
    size_t offset = 0;
    uint32_t workers = step->hop_count - 1;
    lh_clock_ring_align(d->hops, d->hop_count, step->submitted_us, d->clocks);
    for (uint32_t i = 0; i < workers; i++) {
        lh_step_times *one = &d->times[i % 2], *before = &d->times[(i + 1) % 2];
        if (lh_step_times_read(step->frames, step->frames_bytes, &offset, one, NULL) != LH_OK)
            return;
        if (!is_placed(d, i + 1))
            continue;
        if (i == 0) {
            uint32_t track = wire_track(d, 0, "", one->worker, step->submitted_us);
            add_span(d, &(lh_span){.kind = LH_SPAN_MANIFEST,
                                   .track = track,
                                   .step = index,
                                   .begin_us = step->submitted_us,
                                   .end_us = worker_moment(d, 1, one, one->manifest_us),
                                   .left_us = step->submitted_us});
        } else if (is_placed(d, i)) {
            draw_shards(d, index, i, before, one);
        }
        draw_compute(d, index, i + 1, one);
        draw_gathers(d, index, i + 1, one);
    }
    const lh_step_times *last = &d->times[(workers - 1) % 2];
    if (!is_placed(d, workers) || step->results_us == 0)
        return;
    int64_t left_us = worker_moment(d, workers, last, last->submitted_us);
    add_span(d,
             &(lh_span){.kind = LH_SPAN_RESULTS,
                        .track = wire_track(d, workers, last->worker, "", (int64_t)last->base_us),
                        .step = index,
                        .begin_us = left_us,
                        .end_us = step->results_us,
                        .left_us = left_us});
}

static void draw_steps(draft *d) {
    for (uint32_t i = 0; i < d->line->step_count && !d->has_failed; i++) {
        lh_timeline_step *own = &d->line->steps[i];
        if (i == 0 || own->step->epoch != own[-1].step->epoch)
            gather_clocks(d, i);
        own->is_timed = own->step->hop_count > 1 && own->step->hop_count == d->hop_count;
        if (own->is_timed)
            draw_step(d, i);
    }
}

/* ---- The request ---- */

static void draw_phase(draft *d, lh_span_kind kind, int64_t begin_us, int64_t end_us) {
    if (end_us)
        add_span(
            d, &(lh_span){
                   .kind = kind, .step = LH_SPAN_NO_STEP, .begin_us = begin_us, .end_us = end_us});
}

static void draw_request(draft *d) {
    const lh_trace *trace = d->line->trace;
    int64_t end_us =
        trace->ended_us > trace->last_token_us ? trace->ended_us : trace->last_token_us;
    find_track(d, LH_TRACK_REQUEST, "", "");
    draw_phase(d, LH_SPAN_REQUEST, trace->received_us, end_us);
    draw_phase(d, LH_SPAN_TOKENIZE, trace->received_us, trace->tokenized_us);
    draw_phase(d, LH_SPAN_QUEUE, trace->tokenized_us, trace->admitted_us);
    draw_phase(d, LH_SPAN_PREFILL, trace->admitted_us, trace->first_token_us);
    if (trace->last_token_us > trace->first_token_us)
        draw_phase(d, LH_SPAN_DECODE, trace->first_token_us, trace->last_token_us);
}

/* ---- Order ---- */

static int compare_ends(const void *one, const void *other) {
    const lh_span *a = one, *b = other;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (a->end_us != b->end_us)
        return a->end_us < b->end_us ? -1 : 1;
    return a->left_us < b->left_us ? -1 : a->left_us > b->left_us;
}

/* Where two begin at the same moment, kinds are in the order of their holding and following each
 * other. */
static int compare_begins(const void *one, const void *other) {
    const lh_span *a = one, *b = other;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (a->begin_us != b->begin_us)
        return a->begin_us < b->begin_us ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->end_us < b->end_us ? -1 : a->end_us > b->end_us;
}

/* A wire carries one thing after the other, so what comes later began no sooner than the one before
 * it was through. Spans by end. */
static void cut_wires(lh_timeline *line) {
    for (size_t i = 1; i < line->span_count; i++) {
        lh_span *span = &line->spans[i];
        lh_track_kind kind = line->tracks[span->track].kind;
        bool follows =
            (kind == LH_TRACK_WIRE || kind == LH_TRACK_TEAM) && span->track == span[-1].track;
        if (follows && span->begin_us < span[-1].end_us)
            span->begin_us = span[-1].end_us;
    }
}

static void clip(lh_span *span, int64_t begin_us, int64_t end_us) {
    span->begin_us = span->begin_us < begin_us ? begin_us
                     : span->begin_us > end_us ? end_us
                                               : span->begin_us;
    span->end_us = span->end_us < begin_us ? begin_us
                   : span->end_us > end_us ? end_us
                                           : span->end_us;
}

/* A compute thread does one thing at a time; but each step was put into the gateway's clock by
 * itself, so that the last of one may overlap with the first of the next by some microseconds.
 * Spans by begin. */
static void cut_compute(lh_timeline *line) {
    const lh_span *around = NULL;
    for (size_t i = 0; i < line->span_count; i++) {
        lh_span *span = &line->spans[i];
        if (line->tracks[span->track].kind != LH_TRACK_COMPUTE)
            continue;
        if (around && around->track != span->track)
            around = NULL;
        bool is_within = span->kind == LH_SPAN_EMIT || span->kind == LH_SPAN_AWAIT;
        if (around && is_within)
            clip(span, around->begin_us, around->end_us);
        else if (around)
            clip(span, around->end_us, INT64_MAX);
        if (!is_within)
            around = span;
    }
}

/* The order that timeline.h promises; what overlaps by the errors of clocks is cut. */
static void order_spans(lh_timeline *line) {
    if (line->span_count == 0)
        return;
    qsort(line->spans, line->span_count, sizeof *line->spans, compare_ends);
    cut_wires(line);
    qsort(line->spans, line->span_count, sizeof *line->spans, compare_begins);
    cut_compute(line);
}

/* ---- Making ---- */

static int compare_steps(const void *one, const void *other) {
    const lh_trace_step *a = ((const lh_timeline_step *)one)->step,
                        *b = ((const lh_timeline_step *)other)->step;
    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    return a->step < b->step ? -1 : a->step > b->step;
}

static void list_steps(lh_timeline *line) {
    const lh_trace *trace = line->trace;
    uint32_t prefills = 0, others = 0;
    line->step_count = trace->entry_count;
    for (uint32_t i = 0; i < line->step_count; i++)
        line->steps[i] =
            (lh_timeline_step){.entry = &trace->entries[i], .step = trace->entries[i].step};
    qsort(line->steps, line->step_count, sizeof *line->steps, compare_steps);
    for (uint32_t i = 0; i < line->step_count; i++) {
        lh_timeline_step *own = &line->steps[i];
        own->is_prefill =
            own->step->step_class == LH_STEP_PREFILL &&
            (trace->first_token_us == 0 || own->step->formed_us < trace->first_token_us);
        own->number = own->is_prefill ? ++prefills : ++others;
    }
}

lh_status lh_timeline_create(lh_trace *trace, lh_timeline **timeline, lh_error *error) {
    lh_timeline *line = calloc(1, sizeof *line);
    if (!line) {
        lh_trace_destroy(trace);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a timeline");
    }
    line->trace = trace;
    line->steps = calloc(trace->entry_count + 1u, sizeof *line->steps);
    draft *d = calloc(1, sizeof *d);
    bool is_made = line->steps && d;
    if (is_made) {
        d->line = line;
        list_steps(line);
        draw_request(d);
        draw_steps(d);
        order_spans(line);
        is_made = !d->has_failed;
    }
    free(d);
    if (!is_made) {
        lh_timeline_destroy(line);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a timeline");
    }
    *timeline = line;
    return LH_OK;
}

void lh_timeline_destroy(lh_timeline *timeline) {
    if (!timeline)
        return;
    lh_trace_destroy(timeline->trace);
    free(timeline->tracks);
    free(timeline->steps);
    free(timeline->spans);
    free(timeline);
}
