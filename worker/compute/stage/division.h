/* What each member of a stage (gather.h) has of it. Every matrix is divided by its outputs: q, k
 * and v by heads, the gate and the up projection by rows of the feed-forward part, and of each
 * expert, what attention and feed-forward add to h by columns of h, the output head by tokens. So
 * each output is computed by one member, over all inputs in their order, and has the bits that one
 * machine gives it. A KV head is with every member that has one of its query heads. Routers are
 * with all, and where attention is latent, so are the latent rows and what makes them.
 *
 * Bounds are such that what a member computes is whole blocks of what the next product reads
 * (LH_SPAN_COLUMNS). A member that is alone has everything. Thread: any; plain values. */
#pragma once

#include "common/model/model.h"
#include "kernels/kernels.h"
#include "worker/compute/stage/gather.h"

typedef struct lh_membership {
    uint32_t members; /* 0 or 1: alone */
    uint32_t number;  /* of this one */
    /* how the work is divided, by speed say; all 0: evenly */
    uint32_t weights[LH_MEMBERS_MAX];
} lh_membership;

/* A dimension, divided: spans[members], ascending, none of them empty. */
typedef struct lh_division_spans {
    lh_span of[LH_MEMBERS_MAX];
} lh_division_spans;

typedef struct lh_division {
    uint32_t members, own;
    uint32_t group;             /* query heads of a KV head, all members together */
    lh_division_spans heads;    /* of queries */
    lh_division_spans queries;  /* the numbers of these */
    lh_division_spans kv_heads; /* these overlap, */
    lh_division_spans kept;     /* and so do the numbers of their keys, and of their values */
    lh_division_spans attended; /* what attention gives: the inputs of its product */
    lh_division_spans gated;    /* what the gates give: the inputs of the down projection */
    lh_division_spans mixed;    /* the same of each expert, */
    lh_division_spans shared;   /* and of the one that all rows go through */
    lh_division_spans columns;  /* of h */
    lh_division_spans tokens;   /* of the vocabulary */
} lh_division;

/* LH_ERR_INVALID: no such number of members, or member. LH_ERR_LIMIT: more members than there are
 * parts. */
lh_status lh_division_make(const lh_model_config *config, const lh_membership *membership,
                           lh_division *division, lh_error *error);
/* The model as the member computes it: with its own heads, KV heads and feed-forward rows, those of
 * experts too, and all the width and vocabulary. */
lh_model_config lh_division_config(const lh_division *division, const lh_model_config *config);
/* The most numbers of a row that members gather at a time, all of them together; but the logits. */
uint64_t lh_division_gathered_max(const lh_division *division, const lh_model_config *config);
/* Cuts the part of a tensor that is for `role` down to the rows (of a vector, or of each of
 * several: elements) that the member holds. */
void lh_division_cut(const lh_division *division, lh_tensor_role role, lh_tensor_part *part);

static inline lh_span lh_division_own(const lh_division *division, const lh_division_spans *spans) {
    return spans->of[division->own];
}
