/* Joining and renewing, as JOINING.md says: who may, and what he gets. No clock: now_s is
 * Unix time. Its functions block, for as long as a disk takes. Thread: any. */
#pragma once

#include "gateway/membership/issuer.h"

/* observed: the IP address that asks. False: refused, and nothing has changed. */
bool lh_certificate_grant_join(const lh_issuer *issuer, const lh_join_request *request,
                               const char *observed, int64_t now_s, lh_join_grant *grant,
                               lh_join_refusal *refusal);
/* Who asks for another certificate. Nothing is copied. */
typedef struct lh_renewing_member {
    const char *name, *site, *serial; /* as the certificate says that it has shown */
    const char *observed;             /* the IP address that asks */
    bool is_where_it_serves;          /* that is where the worker of this name serves from */
} lh_renewing_member;

/* By the rules of admission.h. */
bool lh_certificate_grant_renewal(const lh_issuer *issuer, const lh_renewing_member *member,
                                  const lh_join_renewal *renewal, int64_t now_s,
                                  lh_join_grant *grant, lh_join_refusal *refusal);
