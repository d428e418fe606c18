/* The least that so many layers of one size cost on machines of one site, where no stage takes
 * longer than a limit: a program over (machines, layers), for which the order inside the site does
 * not matter. Thread: one at a time. */
#pragma once

#include "gateway/plan/part_costs.h"

/* What a site has besides layers: the embedding at the ring's first site, the head at its last. */
enum { LH_FILL_FIRST = 1, LH_FILL_LAST = 2, LH_FILL_KINDS = 4 };

/* One layer, as all are taken to be. */
typedef struct lh_fill_layer {
    uint32_t count; /* of them */
    double row_mib;
    uint64_t held_bytes, embedding_bytes, head_bytes;
} lh_fill_layer;

typedef struct lh_site_fill {
    uint32_t site, count, row;
    uint32_t *machines; /* [count], of the parts: some more than a chain can have, the fastest */
    double *us;         /* [LH_FILL_KINDS][row]: of 0 .. row - 1 layers; INFINITY: does not go */
    uint16_t *choices;  /* [count][LH_FILL_KINDS][row] */
} lh_site_fill;

/* LH_ERR_NO_MEMORY. */
lh_status lh_site_fill_init(lh_site_fill *fill, const lh_parts *parts, uint32_t site,
                            uint32_t layers, lh_error *error);
void lh_site_fill_reset(lh_site_fill *fill);
/* Sets us. The parts are priced. */
void lh_site_fill_compute(lh_site_fill *fill, const lh_parts *parts, const lh_fill_layer *layer,
                          double limit_us);
/* Appends the stages of that many layers, whose cost is finite, to the layout: the one with the
 * embedding first, the one with the head last. False: it has no room. */
bool lh_site_fill_append(const lh_site_fill *fill, uint32_t kind, uint32_t layers,
                         lh_layout *layout);

static inline double lh_site_fill_us(const lh_site_fill *fill, uint32_t kind, uint32_t layers) {
    return fill->us[kind * fill->row + layers];
}
