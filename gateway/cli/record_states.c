/* Revoked first, then the time. */
#include "gateway/cli/record_states.h"

const char *lh_member_state(const lh_member *member, int64_t now_s) {
    if (member->is_revoked)
        return "revoked";
    return member->expires_s <= now_s ? "ended" : "good";
}

const char *lh_invitation_state(const lh_invitation *invitation, int64_t now_s) {
    if (invitation->is_revoked)
        return "revoked";
    if (now_s >= invitation->expires_s)
        return "ended";
    return invitation->use_count >= invitation->uses_max ? "used" : "open";
}
