/* Joining and renewing, as JOINING.md says: who may, and what he gets. No clock: now_s is
 * Unix time. Its functions block, for as long as a disk takes. Thread: any. */
#pragma once

#include "gateway/membership/issuer.h"

/* observed: the IP address that asks. False: refused, and nothing has changed. */
bool lh_certificate_grant_join(const lh_issuer *issuer, const lh_join_request *request,
                               const char *observed, int64_t now_s, lh_join_grant *grant,
                               lh_join_refusal *refusal);
/* name, site: as the certificate says that it has shown. */
bool lh_certificate_grant_renewal(const lh_issuer *issuer, const char *name, const char *site,
                                  const lh_join_renewal *renewal, const char *observed,
                                  int64_t now_s, lh_join_grant *grant, lh_join_refusal *refusal);
