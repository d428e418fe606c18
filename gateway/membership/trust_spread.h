/* Which workers have said that they believe the present bundle of CAs: so that another CA signs
 * when nobody is left out. No clock. Thread: the owner's. */
#pragma once

#include "common/base/digest.h"
#include "gateway/membership/member_list.h"

#define LH_TRUST_SPREAD_MAX 256u

/* Empty: {0}. */
typedef struct lh_trust_spread {
    char bundle_sha256[LH_SHA256_HEX_BYTES]; /* the present one; "": none */
    char names[LH_TRUST_SPREAD_MAX][LH_NAME_BYTES];
    size_t count;
} lh_trust_spread;

/* Another bundle: nobody is known to believe it. The same one: nothing changes. */
void lh_trust_spread_begin(lh_trust_spread *spread, const char *bundle_sha256);
/* A worker has reported the digest of its bundle, "" where it has none. */
void lh_trust_spread_note(lh_trust_spread *spread, const char *name, const char *bundle_sha256);
/* All who have a certificate that is good now. */
bool lh_trust_spread_is_complete(const lh_trust_spread *spread, const lh_member_list *members,
                                 int64_t now_s);
