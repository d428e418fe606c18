/* Looks after a fleet's membership while the gateway runs: sees within a second
 * what the commands beside it have changed, renews the gateway's own
 * certificate, has one CA follow another. What blocks is done by libuv's
 * threads. Thread: the loop's. */
#pragma once

#include "gateway/membership/membership.h"

#include <uv.h>

typedef struct lh_membership_watch lh_membership_watch;

/* Somebody who waits for a look at the disk. */
typedef struct lh_membership_waiter {
    void (*on_looked)(struct lh_membership_waiter *waiter); /* from the loop */
    struct lh_membership_waiter *next;                      /* the watch's */
} lh_membership_waiter;

typedef struct lh_membership_watch_options {
    uv_loop_t *loop;
    lh_membership *membership;       /* both outlive the watch */
    lh_tls_credentials *credentials; /* of the gateway, made of lh_membership_tls */
    /* The credentials have changed, and perhaps who is admitted by them; `before`: the view until
     * now. May be NULL. */
    void (*on_change)(void *context, const lh_membership_view *before);
    void *context;
} lh_membership_watch_options;

/* Looks once, and blocks for it. Statuses of lh_upkeep_refresh and
 * lh_tls_credentials_reload.
 */
lh_status lh_membership_watch_create(const lh_membership_watch_options *options,
                                     lh_membership_watch **watch, lh_error *error);
/* on_closed comes from the loop; the watch is gone by then. Nobody waits. */
void lh_membership_watch_close(lh_membership_watch *watch, void (*on_closed)(void *),
                               void *context);

/* What there is now; until the next on_change. */
const lh_membership_view *lh_membership_watch_view(const lh_membership_watch *watch);
/* Looks at once. The waiter is called when it has seen all that has been
 * written by now: so a certificate is accepted before anybody has it. */
void lh_membership_watch_await(lh_membership_watch *watch, lh_membership_waiter *waiter);
/* A worker has reported the digest of the bundle that it believes, "" where it
 * has none, and when the certificate ends that it uses, -1 where it does not say. */
void lh_membership_watch_note(lh_membership_watch *watch, const char *worker,
                              const char *bundle_sha256, int64_t certificate_ends_s);
