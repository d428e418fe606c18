/* This machine as a member of a fleet: it has joined, now or before, keeps its certificate fresh
 * while it serves, and knows how others reach it. Thread: the loop's; _open blocks, and is for
 * start-up. */
#pragma once

#include "common/net/program_options.h"
#include "worker/membership/joining.h"

#include <uv.h>

typedef struct lh_fleet_member lh_fleet_member;

/* Joins where there is an order (NULL: it has joined before) and finds out which address of this
 * machine faces the gateway. Statuses of lh_membership_store_open, _load and lh_joining_run;
 * LH_ERR_INVALID: the certificate has ended by this machine's clock;
 * LH_ERR_UNAVAILABLE: there is no way to the gateway's address. */
lh_status lh_fleet_member_open(const char *folder, const lh_joining_order *order,
                               lh_fleet_member **member, lh_error *error);

/* Both live as long as the member. */
const lh_own_membership *lh_fleet_member_membership(const lh_fleet_member *member);
const lh_membership_store *lh_fleet_member_store(const lh_fleet_member *member);
/* By which others reach this machine, as far as is known: an IP address. */
const char *lh_fleet_member_host(const lh_fleet_member *member);

/* Has the gateway connect to this worker at `address` ("HOST:PORT"), whose port is open, and where
 * that fails and others may be tried, at the address from which the gateway saw it come. on_done
 * has the one to be told to others; what has come of it is in the log by then. Takes 20 s at most.
 * `program`, whose TLS files are the store's and open, and the loop outlive the member. Before
 * _start. */
void lh_fleet_member_test_reach(lh_fleet_member *member, uv_loop_t *loop,
                                const lh_program_options *program, const char *address,
                                bool may_try_others,
                                void (*on_done)(void *context, const char *address), void *context);
/* From now on the certificate is renewed; `program` and the loop as above. LH_ERR_NO_MEMORY. */
lh_status lh_fleet_member_start(lh_fleet_member *member, uv_loop_t *loop,
                                const lh_program_options *program, lh_error *error);
/* As lh_renewal_hear_trust and lh_renewal_trust. It has been started. */
void lh_fleet_member_hear_trust(lh_fleet_member *member, const char *digest);
const char *lh_fleet_member_trust(const lh_fleet_member *member);

/* Waits for what is on its way, then frees the member; on_closed comes from the loop, or at once
 * where it has not been started. */
void lh_fleet_member_close(lh_fleet_member *member, void (*on_closed)(void *context),
                           void *context);
