/* What the hops of a chain measure, entered into the matrix of links. Pure; thread: as the
 * matrix's. */
#pragma once

#include "gateway/fleet/chain.h"
#include "gateway/fleet/link_matrix.h"

typedef struct lh_link_notes {
    lh_link_matrix *links; /* NULL: nothing is entered */
    const char *gateway_site;
    const lh_chain *chain;
    const lh_registry *registry;
} lh_link_notes;

/* Of a worker that is in the registry, what its report says of the hop after it, and
 * of one that it tries. */
void lh_link_notes_take(const lh_link_notes *notes, const lh_worker_report *report, int64_t now_us);
/* Of the gateway's own hop to this worker. */
void lh_link_notes_take_first_hop(const lh_link_notes *notes, const char *worker,
                                  const lh_hop_profile *profile, int64_t now_us);
