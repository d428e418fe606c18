/* What a peer does wrong, or undoes, costs us work and it nothing (rapid reset, CVE-2023-44487;
 * MadeYouReset, CVE-2025-8671): so there is a budget, which grows with the streams that end well.
 * Private to session.c. Thread: the session's. */
#pragma once

#include "common/base/status.h"

#include <stdint.h>

/* All zeros is a peer that has done nothing yet. */
typedef struct lh_h2_conduct {
    uint64_t faults;    /* invalid frames, and streams that we had to reset because of the peer */
    uint64_t resets;    /* of streams, by the peer */
    uint64_t completed; /* streams that ended well: the owner counts them */
} lh_h2_conduct;

/* One more. LH_ERR_LIMIT with what it was: it is one too many, the connection must end. */
lh_status lh_h2_conduct_count_fault(lh_h2_conduct *conduct, lh_error *error);
lh_status lh_h2_conduct_count_reset(lh_h2_conduct *conduct, lh_error *error);
