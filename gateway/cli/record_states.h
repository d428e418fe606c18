/* What the commands' lists call the state of a record. Static texts. Thread: any. */
#pragma once

#include "gateway/membership/invitation.h"
#include "gateway/membership/member_list.h"

/* "good", "ended", "revoked". */
const char *lh_member_state(const lh_member *member, int64_t now_s);
/* "open", "used", "ended", "revoked". */
const char *lh_invitation_state(const lh_invitation *invitation, int64_t now_s);
