/* How fast a request was: where the time of its prompt went, and how far that is from the bound.
 *
 * The bound of a prefill is what a perfect pipe of the same parts would take: the longest of all
 * stages' and wires' own busy times, plus the way once around the ring. Undecomposed, one after the
 * other, it would be their sum. A decode step of one sequence is bound by the sum of all stages'
 * times and the way around the ring. All of it from the measured times of this very request.
 * Thread: any. */
#pragma once

#include "gateway/trace/timeline.h"

#define LH_FIGURES_CHUNKS_MAX 64u /* listed */
#define LH_FIGURES_SHARDS_MAX 16u

/* A stage or a wire during the prefill. */
typedef struct lh_track_figures {
    uint32_t track;
    int64_t busy_us;      /* computing; or sending, which the way there is not a part of */
    double busy_share;    /* of the prefill's time; a wire's with the way */
    uint32_t shard_count; /* wire: of the first chunk; 0: the first and last hop's */
    uint32_t shard_ends[LH_FIGURES_SHARDS_MAX]; /* columns */
    uint64_t bytes;
    double believed_us; /* compute: what the gateway believed of busy_us; 0: not known */
    /* how many times that it was, where it was far from it; else 0 */
    double surprise;
    /* compute, of a stage of several members: how long gathers were on their way, and how much of
     * it nothing was computed meanwhile: the rest is hidden */
    int64_t gathers_us, awaited_us;
} lh_track_figures;

typedef struct lh_figures {
    /* the prefill's steps are all there, with their times; else the rest is of those that are */
    bool is_whole;
    int64_t first_token_us; /* since the request was received; 0: none came */
    int64_t total_us;       /* until its last token */
    int64_t prefill_us;     /* from the first step's forming to the first token */
    /* They add up to prefill_us: some stage computed; no stage did, but something was on a wire;
     * neither. */
    int64_t compute_us, wire_us, wait_us;
    int64_t bound_us, sum_us;
    /* the way around the ring: a part of both */
    int64_t around_us;
    uint32_t chunk_count, chunks[LH_FIGURES_CHUNKS_MAX]; /* rows */
    /* of the prompt: others had computed them */
    uint32_t cached_tokens;
    uint32_t decode_count;   /* tokens after the first */
    int64_t decode_us;       /* per token; 0: not known */
    int64_t decode_bound_us; /* per token */
    uint32_t track_count;
    lh_track_figures *tracks; /* of compute and wires, in the timeline's order */
} lh_figures;

/* LH_ERR_NO_MEMORY. */
lh_status lh_figures_make(const lh_timeline *timeline, lh_figures *figures, lh_error *error);
void lh_figures_reset(lh_figures *figures);
