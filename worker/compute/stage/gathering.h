/* The stage's side of gather.h: what all members have computed of an activation comes together, in
 * pieces, one from each member, in ascending order of columns. So a product, which only continues
 * its chain over the next columns (kernels.h), consumes each piece when it is there and does not
 * wait for the rest. Pieces are columns of floats, or of packed activations, which travel as the
 * int8 that the product reads.
 *
 * A member that is alone has one piece, and nothing is copied. Thread: the compute thread. */
#pragma once

#include "worker/compute/stage/division.h"
#include "worker/compute/stage/ops.h"

/* A member in one step. */
typedef struct lh_member {
    const lh_division *division;
    const lh_compute *compute;
    const lh_gather *gather; /* NULL: alone */
    uint32_t number;         /* of the next gather */
    /* The first failure: from then on nothing is gathered, and what is computed means nothing. */
    lh_status status;
    lh_error error;
} lh_member;

/* LH_OK, or its failure. */
lh_status lh_member_status(const lh_member *member, lh_error *error);

/* A gather whose pieces have not all come. */
typedef struct lh_gathering {
    lh_member *member;
    const lh_division_spans *spans; /* NULL: one piece, `whole` */
    lh_span whole;
    uint32_t number, rows;
    uint32_t next; /* the member whose piece is the next */
    float *y;      /* of floats: [rows], `stride` apart; or else NULL */
    size_t stride;
    const lh_packed *packed;
    lh_activation_kind kind;
} lh_gathering;

/* Posts the own columns of y[rows][...], rows `stride` apart, and gathers those of the others into
 * it. All arrays stay the caller's. */
lh_gathering lh_gather_floats(lh_member *member, const lh_division_spans *spans, float *y,
                              size_t stride, uint32_t rows);
/* The same of packed activations, in the one form that is read by `reader`. */
lh_gathering lh_gather_packed(lh_member *member, const lh_division_spans *spans,
                              const lh_packed *packed, const lh_matrix *reader, uint32_t rows);
/* What is complete on every member: `columns` are the only piece. */
lh_gathering lh_gather_nothing(lh_member *member, lh_span columns);
/* Waits for the next piece: true, and its columns are there. False: all have come, or the member
 * has failed (its status). */
bool lh_gathering_next(lh_gathering *gathering, lh_span *columns);
/* All pieces that are left. */
void lh_gathering_complete(lh_gathering *gathering);
