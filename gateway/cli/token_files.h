/* Lines to join with in files, one for each site, for machines that are to join without anybody's
 * hands: the containers of a Compose file. Thread: start-up only. */
#pragma once

#include "gateway/membership/membership.h"

/* DIR/SITE gets `longhaul-worker join https://ADDRESS TOKEN`, mode 0600, where the token there is
 * not good enough: of this fleet's signing CA, for the site, open, and for half of terms->life_s at
 * least. terms->site may be a list, "A,B,...". address: "HOST:PORT". `state`: the gateway's state
 * folder. LH_ERR_INVALID: a site that is none; and the statuses of lh_state_file_write and
 * lh_membership_invite. */
lh_status lh_token_files_keep(const char *dir, const char *address, const char *state,
                              lh_membership *membership, const lh_invitation_terms *terms,
                              int64_t now_s, lh_error *error);
