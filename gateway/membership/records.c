/* Two arrays. */
#include "gateway/membership/records.h"

#include "common/base/growing_array.h"
#include <stdlib.h>
#include <string.h>

void lh_records_reset(lh_records *records) {
    for (size_t i = 0; i < records->invitation_count; i++)
        lh_invitation_reset(&records->invitations[i]);
    free(records->invitations);
    lh_member_list_reset(&records->members);
    *records = (lh_records){0};
}

lh_invitation *lh_records_find_invitation(const lh_records *records, const char *id) {
    for (size_t i = 0; i < records->invitation_count; i++)
        if (strcmp(records->invitations[i].id, id) == 0)
            return &records->invitations[i];
    return NULL;
}

lh_status lh_records_add_invitation(lh_records *records, lh_invitation *invitation,
                                    lh_error *error) {
    if (records->invitation_count == LH_INVITATIONS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "there are %u tokens, which is as many as there may be",
                       LH_INVITATIONS_MAX);
    if (!lh_growing_array_reserve(&records->invitations, &records->invitation_capacity,
                                  records->invitation_count + 1, sizeof *records->invitations))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a token");
    records->invitations[records->invitation_count++] = *invitation;
    *invitation = (lh_invitation){0};
    return LH_OK;
}

void lh_records_prune(lh_records *records, int64_t now_s) {
    size_t kept = 0;
    for (size_t i = 0; i < records->invitation_count; i++) {
        lh_invitation *invitation = &records->invitations[i];
        if (invitation->expires_s + LH_INVITATION_KEPT_S > now_s)
            records->invitations[kept++] = *invitation;
        else
            lh_invitation_reset(invitation);
    }
    records->invitation_count = kept;
    lh_member_list_prune(&records->members, now_s);
}
