/* What a member asks of its gateway over its own certificate (common/protocol/JOINING.md, "With a
 * certificate"). Blocking: for a thread that may wait; one at a time for a store. Messages say what
 * the gateway has answered. */
#pragma once

#include "common/net/tls_channel.h"
#include "worker/membership/membership_store.h"

/* Another certificate for a fresh key: *membership has all that goes with it afterwards, and is not
 * stored yet. LH_ERR_UNAVAILABLE, LH_ERR_CLOSED, LH_ERR_TIMEOUT: no answer; LH_ERR_INVALID:
 * refused, or not what was asked for; LH_ERR_MALFORMED, LH_ERR_LIMIT, LH_ERR_IO, LH_ERR_NO_MEMORY.
 */
lh_status lh_member_request_certificate(const lh_tls_options *tls, lh_membership_store *store,
                                        lh_own_membership *membership, lh_error *error);
/* The bundle of CAs with this digest, into *membership. LH_ERR_CORRUPT: it has another one by now;
 * the rest as above. */
lh_status lh_member_request_trust(const lh_tls_options *tls, const char *digest,
                                  lh_own_membership *membership, lh_error *error);
/* Whether the gateway reaches this worker at "HOST:PORT". */
lh_status lh_member_request_reach(const lh_tls_options *tls, const lh_own_membership *membership,
                                  const char *address, lh_join_reach *reach, lh_error *error);
