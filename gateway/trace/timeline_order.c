/* Sorting, and cutting what overlaps. */
#include "gateway/trace/timeline_order.h"

#include <stdlib.h>

static int compare_ends(const void *one, const void *other) {
    const lh_span *a = one, *b = other;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (a->end_us != b->end_us)
        return a->end_us < b->end_us ? -1 : 1;
    return a->left_us < b->left_us ? -1 : a->left_us > b->left_us;
}

/* Where two begin at the same moment, kinds are in the order of their holding and following each other. */
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

/* A wire carries one thing after the other, so what comes later began no sooner than the one before it was through. Spans by end. */
static void cut_wires(lh_timeline *line) {
    for (size_t i = 1; i < line->span_count; i++) {
        lh_span *span = &line->spans[i];
        bool follows = line->tracks[span->track].kind == LH_TRACK_WIRE && span->track == span[-1].track;
        if (follows && span->begin_us < span[-1].end_us)
            span->begin_us = span[-1].end_us;
    }
}

static void clip(lh_span *span, int64_t begin_us, int64_t end_us) {
    span->begin_us = span->begin_us < begin_us ? begin_us : span->begin_us > end_us ? end_us : span->begin_us;
    span->end_us = span->end_us < begin_us ? begin_us : span->end_us > end_us ? end_us : span->end_us;
}

/* A compute thread does one thing at a time; but each step was put into the gateway's clock by itself, so that the last of one may
 * overlap with the first of the next by some microseconds. Spans by begin. */
static void cut_compute(lh_timeline *line) {
    const lh_span *around = NULL;
    for (size_t i = 0; i < line->span_count; i++) {
        lh_span *span = &line->spans[i];
        if (line->tracks[span->track].kind != LH_TRACK_COMPUTE)
            continue;
        if (around && around->track != span->track)
            around = NULL;
        if (around && span->kind == LH_SPAN_EMIT)
            clip(span, around->begin_us, around->end_us);
        else if (around)
            clip(span, around->end_us, INT64_MAX);
        if (span->kind != LH_SPAN_EMIT)
            around = span;
    }
}

void lh_timeline_order(lh_timeline *line) {
    if (line->span_count == 0)
        return;
    qsort(line->spans, line->span_count, sizeof *line->spans, compare_ends);
    cut_wires(line);
    qsort(line->spans, line->span_count, sizeof *line->spans, compare_begins);
    cut_compute(line);
}
