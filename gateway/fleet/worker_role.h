/* What a worker is to its fleet, in words for an operator: which place it has, or why it has none
 * and what would give it one. Pure; thread: any. */
#pragma once

#include "gateway/fleet/handover.h"

typedef enum lh_worker_role {
    LH_ROLE_STAGE,   /* it has a stage of the present chain */
    LH_ROLE_NEXT,    /* it will have one, in the chain that is being prepared */
    LH_ROLE_SPARE,   /* it has none */
    LH_ROLE_WAITING, /* nobody has: there is no chain */
} lh_worker_role;

/* "stage", "next", "spare", "waiting". */
const char *lh_worker_role_name(lh_worker_role role);

/* About workers of one moment: what is the same for all of them is found once, when the first is
 * asked about that needs it. Valid until what it was begun with changes. */
typedef struct lh_role_inquiry {
    const lh_handover *handover;
    lh_handover_view view;
    int64_t now_us;
    bool has_gain;
    double gain; /* lh_draft_gain of all that are there */
} lh_role_inquiry;

lh_role_inquiry lh_role_inquiry_begin(const lh_handover *handover, const lh_handover_view *view,
                                      int64_t now_us);
/* The role of this worker. reason: of a spare, at least LH_ERROR_MESSAGE_BYTES; "" for others. */
lh_worker_role lh_worker_role_of(lh_role_inquiry *inquiry, const lh_worker *worker, char *reason);
