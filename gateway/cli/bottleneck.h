/* What holds a chain back, by what its cost model has measured: of prompts the stage or link that
 * is busy longest, since all of them work at the same time; of a single stream nothing but the sum
 * of all of them. Pure. Thread: any. */
#pragma once

#include "gateway/cli/fleet_document.h"

/* Rows of the chunk whose times are compared. */
#define LH_BOTTLENECK_ROWS 64

typedef enum lh_bottleneck_kind {
    LH_BOTTLENECK_UNKNOWN, /* not all is measured */
    LH_BOTTLENECK_STAGE,
    LH_BOTTLENECK_LINK
} lh_bottleneck_kind;

typedef struct lh_bottleneck {
    lh_bottleneck_kind kind;
    size_t index;              /* of the chain's stages or links */
    double busy_ms;            /* for a chunk of LH_BOTTLENECK_ROWS */
    double stage_ms, link_ms;  /* the longest of either kind */
    double compute_ms, way_ms; /* a single stream's token: at the stages, on the links */
    size_t slowest_stage, slowest_link, farthest_link;
} lh_bottleneck;

lh_bottleneck lh_bottleneck_find(const lh_document_chain *chain);

/* How long this stage or link is busy with a chunk; 0: not measured. */
double lh_bottleneck_stage_ms(const lh_document_stage *stage);
double lh_bottleneck_link_ms(const lh_document_link *link);

/* In words, as one paragraph each: what holds prompts back, and what a single stream's token is
 * made of; "" where it is not known. */
#define LH_BOTTLENECK_TEXT_BYTES 512
void lh_bottleneck_tell_prompts(const lh_document_chain *chain, const lh_bottleneck *bottleneck,
                                char text[LH_BOTTLENECK_TEXT_BYTES]);
void lh_bottleneck_tell_stream(const lh_document_chain *chain, const lh_bottleneck *bottleneck,
                               char text[LH_BOTTLENECK_TEXT_BYTES]);
