/* Keeps the certificate of a member fresh, and knows whom its fleet trusts.
 *
 *   issued ------------ 2/3 of its life ---------------- end
 *                       | renewed, with a fresh key
 *                       | else again after 1 s, 2 s, 4 s, ... an hour, an eighth of what is left
 *
 * It is renewed at once where by this clock it is not valid yet, since then a clock was ahead when
 * it was issued.
 *
 * What it gets is stored as a whole set and then read by all connections that are opened from then
 * on; those that are open live on. The clock is looked at every ten seconds, so that a machine that
 * slept, or whose clock was set, is not late for longer.
 *
 * Thread: the loop's; asking waits on libuv's pool. */
#pragma once

#include "common/net/program_options.h"
#include "worker/membership/certificate.h"
#include "worker/membership/membership_store.h"

#include <uv.h>

typedef struct lh_renewal lh_renewal;

typedef struct lh_renewal_options {
    uv_loop_t *loop;
    lh_membership_store *store;
    lh_own_membership *membership;     /* the set in use, which is kept up to date */
    const lh_program_options *program; /* whose TLS files are the store's, and are open */
} lh_renewal_options;

/* All that the options point to outlives the renewal. LH_ERR_INVALID: the certificate cannot be
 * read; LH_ERR_NO_MEMORY. */
lh_status lh_renewal_create(const lh_renewal_options *options, lh_renewal **renewal,
                            lh_error *error);
/* The gateway trusts the bundle with this digest (SHA-256, hex): where ours is another one it is
 * fetched. "": it does not say. */
void lh_renewal_hear_trust(lh_renewal *renewal, const char *digest);
/* Of the bundle in use; as long as the renewal. */
const char *lh_renewal_trust(const lh_renewal *renewal);
/* Waits for what is on its way. */
void lh_renewal_close(lh_renewal *renewal, void (*on_closed)(void *), void *context);

/* Seconds to wait after so many failures in a row (at least 1), with so much of the life left. */
int64_t lh_renewal_pause_s(int failures, int64_t left_s);
