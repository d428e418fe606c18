/* All that makes a fleet's membership: its CAs, its invitations and its members. Plain data.
 * Thread: the owner's. */
#pragma once

#include "gateway/membership/authority_list.h"
#include "gateway/membership/invitation.h"
#include "gateway/membership/member_list.h"

#define LH_RECORDS_FILE       "membership.json"
#define LH_RECORDS_BYTES_MAX  (8u << 20)
#define LH_INVITATIONS_MAX    1000u
#define LH_INVITATION_KEPT_S  (7 * 86400) /* after its end, so that its holder is told why */
#define LH_FLEET_LISTEN_BYTES 272         /* "HOST:PORT" */

typedef struct lh_records {
    lh_authority_list authorities; /* count 0: there is no fleet yet */
    lh_invitation *invitations;    /* [count], malloc'd, in the order in which they were made */
    size_t invitation_count, invitation_capacity;
    lh_member_list members;
    /* Where the gateway listened when it last started; "": it has never. */
    char fleet_listen[LH_FLEET_LISTEN_BYTES];
} lh_records;

void lh_records_reset(lh_records *records);

/* NULL: none has this id. */
lh_invitation *lh_records_find_invitation(const lh_records *records, const char *id);
/* Takes it over. LH_ERR_LIMIT: there are LH_INVITATIONS_MAX; LH_ERR_NO_MEMORY. */
lh_status lh_records_add_invitation(lh_records *records, lh_invitation *invitation,
                                    lh_error *error);
/* Drops what ended long ago. */
void lh_records_prune(lh_records *records, int64_t now_s);
