/* Sums over spans. */
#include "gateway/trace/timeline_figures.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A stage is far from what was believed that took longer, or less, by this factor, and by so much:
 * what short prompts take swings. */
#define SURPRISE_FACTOR 1.5
#define SURPRISE_US     5000.0

typedef struct interval {
    int64_t begin_us, end_us;
} interval;

static bool is_compute(const lh_span *span) {
    return span->kind == LH_SPAN_BEGIN || span->kind == LH_SPAN_ACCEPT ||
           span->kind == LH_SPAN_FINISH;
}

static bool is_wire(const lh_span *span) {
    return span->kind == LH_SPAN_MANIFEST || span->kind == LH_SPAN_SHARD ||
           span->kind == LH_SPAN_RESULTS;
}

static const lh_timeline_step *step_of(const lh_timeline *line, const lh_span *span) {
    return span->step == LH_SPAN_NO_STEP ? NULL : &line->steps[span->step];
}

static bool is_prefill(const lh_timeline *line, const lh_span *span) {
    const lh_timeline_step *step = step_of(line, span);
    return step && step->is_prefill;
}

/* ---- The prefill's tracks ---- */

static lh_track_figures *find_track(lh_figures *figures, uint32_t track) {
    for (uint32_t i = 0; i < figures->track_count; i++)
        if (figures->tracks[i].track == track)
            return &figures->tracks[i];
    return NULL;
}

/* Of the worker whose stage's members a gather joins. */
static lh_track_figures *find_gathering(const lh_timeline *line, lh_figures *figures,
                                        const lh_span *span) {
    const char *worker = line->tracks[span->track].from;
    for (uint32_t i = 0; i < figures->track_count; i++) {
        const lh_track *track = &line->tracks[figures->tracks[i].track];
        if (track->kind == LH_TRACK_COMPUTE && strcmp(track->from, worker) == 0)
            return &figures->tracks[i];
    }
    return NULL;
}

static void sum_gathers(const lh_timeline *line, lh_figures *figures) {
    for (size_t i = 0; i < line->span_count; i++) {
        const lh_span *span = &line->spans[i];
        const bool is_gather = span->kind == LH_SPAN_GATHER;
        if ((!is_gather && span->kind != LH_SPAN_AWAIT) || !is_prefill(line, span))
            continue;
        lh_track_figures *own = find_gathering(line, figures, span);
        if (own)
            *(is_gather ? &own->gathers_us : &own->awaited_us) += span->end_us - span->begin_us;
    }
}

/* The columns at which the shards of the first chunk end, in the order in which they came. */
static void note_cut(const lh_timeline *line, lh_track_figures *track, const lh_span *span) {
    const lh_timeline_step *step = step_of(line, span);
    assert(step);
    if (span->kind != LH_SPAN_SHARD || step->number != 1 || span->first_row != 0)
        return;
    if (track->shard_count < LH_FIGURES_SHARDS_MAX)
        track->shard_ends[track->shard_count++] = span->first_column + span->columns;
}

/* Spans come by track and begin. A wire sends a shard from when it was handed to it, or the one
 * before was through, until the shard came, less the way there. */
static void sum_tracks(const lh_timeline *line, lh_figures *figures) {
    int64_t through_us = INT64_MIN;
    for (size_t i = 0; i < line->span_count; i++) {
        const lh_span *span = &line->spans[i];
        lh_track_figures *track = find_track(figures, span->track);
        if (!track || !is_prefill(line, span))
            continue;
        if (is_compute(span)) {
            track->busy_us += span->end_us - span->begin_us;
        } else if (is_wire(span)) {
            if (i == 0 || span[-1].track != span->track)
                through_us = INT64_MIN;
            int64_t arrival_us = span->left_us + line->tracks[span->track].one_way_us;
            int64_t since_us = arrival_us > through_us ? arrival_us : through_us;
            if (span->end_us > since_us)
                track->busy_us += span->end_us - since_us;
            through_us = span->end_us;
            track->bytes += span->bytes;
            note_cut(line, track, span);
        }
    }
}

static void compare_beliefs(const lh_timeline *line, lh_figures *figures) {
    for (uint32_t i = 0; i < figures->track_count; i++) {
        lh_track_figures *own = &figures->tracks[i];
        const lh_track *track = &line->tracks[own->track];
        if (track->lacks_belief || track->believed_us <= 0)
            continue;
        double busy_us = (double)own->busy_us, ratio = busy_us / track->believed_us;
        bool is_far = fabs(busy_us - track->believed_us) >= SURPRISE_US &&
                      (ratio >= SURPRISE_FACTOR || ratio <= 1 / SURPRISE_FACTOR);
        own->believed_us = track->believed_us;
        own->surprise = is_far ? ratio : 0;
    }
}

static lh_status list_tracks(const lh_timeline *line, lh_figures *figures, lh_error *error) {
    figures->tracks = calloc(line->track_count + 1u, sizeof *figures->tracks);
    if (!figures->tracks)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for figures");
    for (uint32_t i = 0; i < line->track_count; i++)
        if (line->tracks[i].kind == LH_TRACK_COMPUTE || line->tracks[i].kind == LH_TRACK_WIRE)
            figures->tracks[figures->track_count++].track = i;
    return LH_OK;
}

/* ---- Compute, wire, wait ---- */

static int compare_intervals(const void *one, const void *other) {
    const interval *a = one, *b = other;
    return a->begin_us < b->begin_us ? -1 : a->begin_us > b->begin_us;
}

/* How long any of them lasts, within the bounds; sorts them. */
static int64_t cover(interval *list, size_t count, int64_t begin_us, int64_t end_us) {
    int64_t covered = 0, until_us = begin_us;
    if (count)
        qsort(list, count, sizeof *list, compare_intervals);
    for (size_t i = 0; i < count; i++) {
        int64_t from = list[i].begin_us > until_us ? list[i].begin_us : until_us;
        int64_t to = list[i].end_us < end_us ? list[i].end_us : end_us;
        if (to > from)
            covered += to - from;
        if (to > until_us)
            until_us = to;
    }
    return covered;
}

/* track: of one alone; UINT32_MAX: of all of them. */
static size_t collect(const lh_timeline *line, bool with_wires, uint32_t track, interval *list) {
    size_t count = 0;
    for (size_t i = 0; i < line->span_count; i++) {
        const lh_span *span = &line->spans[i];
        bool is_wanted = is_compute(span) || (with_wires && is_wire(span));
        if (is_wanted && is_prefill(line, span) && (track == UINT32_MAX || span->track == track))
            list[count++] = (interval){span->begin_us, span->end_us};
    }
    return count;
}

static lh_status split_time(const lh_timeline *line, int64_t begin_us, int64_t end_us,
                            lh_figures *figures, lh_error *error) {
    interval *list = calloc(line->span_count + 1, sizeof *list);
    if (!list)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for figures");
    size_t count = collect(line, false, UINT32_MAX, list);
    figures->compute_us = cover(list, count, begin_us, end_us);
    count = collect(line, true, UINT32_MAX, list);
    figures->wire_us = cover(list, count, begin_us, end_us) - figures->compute_us;
    figures->wait_us = figures->prefill_us - figures->compute_us - figures->wire_us;
    for (uint32_t i = 0; i < figures->track_count; i++) {
        count = collect(line, true, figures->tracks[i].track, list);
        if (figures->prefill_us > 0)
            figures->tracks[i].busy_share =
                (double)cover(list, count, begin_us, end_us) / (double)figures->prefill_us;
    }
    free(list);
    return LH_OK;
}

/* ---- Bounds ---- */

static void bound_prefill(const lh_timeline *line, lh_figures *figures) {
    int64_t longest_us = 0;
    for (uint32_t i = 0; i < figures->track_count; i++) {
        const lh_track_figures *track = &figures->tracks[i];
        figures->around_us += line->tracks[track->track].one_way_us;
        figures->sum_us += track->busy_us;
        if (track->busy_us > longest_us)
            longest_us = track->busy_us;
    }
    figures->bound_us = longest_us + figures->around_us;
    figures->sum_us += figures->around_us;
}

/* Mean over the decode steps that were timed and brought a token. */
static void bound_decode(const lh_timeline *line, lh_figures *figures) {
    int64_t compute_us = 0;
    uint32_t steps = 0;
    for (uint32_t i = 0; i < line->step_count; i++)
        steps += line->steps[i].step->step_class == LH_STEP_DECODE && line->steps[i].is_timed &&
                 line->steps[i].step->results_us;
    for (size_t i = 0; i < line->span_count; i++) {
        const lh_timeline_step *step = step_of(line, &line->spans[i]);
        if (step && step->step->step_class == LH_STEP_DECODE && step->step->results_us &&
            is_compute(&line->spans[i]))
            compute_us += line->spans[i].end_us - line->spans[i].begin_us;
    }
    if (steps)
        figures->decode_bound_us = compute_us / steps + figures->around_us;
    if (line->trace->token_count > 1) {
        figures->decode_count = line->trace->token_count - 1;
        figures->decode_us =
            (line->trace->last_token_us - line->trace->first_token_us) / figures->decode_count;
    }
}

/* ---- Making ---- */

/* When the prefill began; 0: it has no step. */
static int64_t list_chunks(const lh_timeline *line, lh_figures *figures) {
    int64_t begin_us = 0;
    uint32_t rows = 0;
    figures->is_whole = line->trace->first_token_us != 0;
    for (uint32_t i = 0; i < line->step_count; i++) {
        const lh_timeline_step *step = &line->steps[i];
        if (!step->is_prefill)
            continue;
        if (begin_us == 0)
            begin_us = step->step->formed_us;
        if (figures->chunk_count < LH_FIGURES_CHUNKS_MAX)
            figures->chunks[figures->chunk_count] = step->entry->rows;
        figures->chunk_count++;
        figures->is_whole &= step->is_timed;
        rows += step->entry->rows;
        figures->cached_tokens += step->entry->shared;
    }
    figures->is_whole &= rows + figures->cached_tokens >= line->trace->prompt_tokens;
    return begin_us;
}

lh_status lh_figures_make(const lh_timeline *line, lh_figures *figures, lh_error *error) {
    *figures = (lh_figures){0};
    lh_status status = list_tracks(line, figures, error);
    int64_t begin_us = list_chunks(line, figures);
    if (line->trace->first_token_us) {
        figures->first_token_us = line->trace->first_token_us - line->trace->received_us;
        figures->total_us = line->trace->last_token_us - line->trace->received_us;
    }
    if (status == LH_OK && begin_us && line->trace->first_token_us) {
        figures->prefill_us = line->trace->first_token_us - begin_us;
        sum_tracks(line, figures);
        sum_gathers(line, figures);
        compare_beliefs(line, figures);
        bound_prefill(line, figures);
        bound_decode(line, figures);
        status = split_time(line, begin_us, line->trace->first_token_us, figures, error);
    }
    if (status != LH_OK)
        lh_figures_reset(figures);
    return status;
}

void lh_figures_reset(lh_figures *figures) {
    free(figures->tracks);
    *figures = (lh_figures){0};
}
