/* A trace as spans on tracks, all in the gateway's clock: what the request, each worker's compute
 * and each hop's wire were doing when. Thread: any.
 *
 * On one track spans never overlap, but those of LH_SPAN_EMIT and LH_SPAN_AWAIT lie within their
 * LH_SPAN_FINISH, and those of the request's phases within LH_SPAN_REQUEST. A wire is busy with a
 * shard from the moment at which the shard was handed to it, or at which the one before it has
 * come, whichever is later, until it has come: so a span holds the way there as well as the
 * sending. In the same way the
 * wires among a stage's members are busy with a gather from when the worker's own part of it was
 * computed, or the one before it was there. */
#pragma once

#include "gateway/trace/trace_store.h"

typedef enum lh_track_kind {
    LH_TRACK_REQUEST, /* the gateway's own */
    LH_TRACK_COMPUTE, /* of worker `from` */
    LH_TRACK_WIRE,    /* from `from` to `to`; "" is the gateway */
    LH_TRACK_TEAM     /* the wires among those who compute worker `from`'s stage with it */
} lh_track_kind;

typedef struct lh_track {
    lh_track_kind kind;
    char from[LH_STEP_TIMES_NAME_BYTES], to[LH_STEP_TIMES_NAME_BYTES];
    /* by which its clock may be off, at most; -1: it is not known at all. A wire's: of both ends */
    int64_t error_us;
    int64_t one_way_us; /* WIRE: the shortest way seen, without queues; 0: not known */
    /* COMPUTE: what the gateway believed that the prompt's steps would take there; and whether it
     * did not of one of them */
    double believed_us;
    bool lacks_belief;
} lh_track;

typedef enum lh_span_kind {
    LH_SPAN_REQUEST,  /* from its headers to its last byte, or last token */
    LH_SPAN_TOKENIZE, /* until it was submitted */
    LH_SPAN_QUEUE,    /* until its first step was formed */
    LH_SPAN_PREFILL,  /* until its first token came */
    LH_SPAN_DECODE,   /* until its last one */
    LH_SPAN_BEGIN,    /* compute: pages, the first stage's embedding */
    LH_SPAN_ACCEPT,   /* a shard that came */
    LH_SPAN_FINISH,   /* the layers */
    LH_SPAN_EMIT,     /* within it: a shard of the result, since the one before it */
    LH_SPAN_AWAIT,    /* within it: nothing was computed, for a gather was not there */
    LH_SPAN_MANIFEST, /* wire: on the first hop, where the manifest is all there is */
    LH_SPAN_SHARD,
    LH_SPAN_RESULTS, /* on the last hop */
    LH_SPAN_GATHER   /* team: what all members had computed comes together */
} lh_span_kind;

#define LH_SPAN_NO_STEP UINT32_MAX

typedef struct lh_span {
    lh_span_kind kind;
    uint32_t track, step; /* indices; step: LH_SPAN_NO_STEP for the request's */
    int64_t begin_us, end_us;
    int64_t left_us; /* wire: handed to the connection, whether or not the wire was free */
    uint32_t first_row, rows, first_column, columns, bytes; /* of a shard; bytes also of a gather */
    uint32_t gather; /* GATHER, AWAIT: which of the step's, from 0 */
} lh_span;

typedef struct lh_timeline_step {
    const lh_trace_entry *entry; /* the request's part in it */
    const lh_trace_step *step;   /* the entry's */
    bool is_timed;               /* the workers told of it */
    /* a chunk of the request's prompt, before its first token */
    bool is_prefill;
    uint32_t number; /* among its kind, from 1 */
} lh_timeline_step;

typedef struct lh_timeline {
    lh_trace *trace; /* its own */
    lh_track *tracks;
    uint32_t track_count;
    lh_timeline_step *steps; /* in the order in which they were formed */
    uint32_t step_count;
    lh_span *spans; /* by track, then by begin; what holds another one comes before it */
    size_t span_count, span_capacity;
} lh_timeline;

/* Takes the trace, also where it fails. LH_ERR_NO_MEMORY. */
lh_status lh_timeline_create(lh_trace *trace, lh_timeline **timeline, lh_error *error);
/* NULL is allowed. */
void lh_timeline_destroy(lh_timeline *timeline);
/* "prefill", "shard"...: static. */
const char *lh_span_kind_name(lh_span_kind kind);
