/* Who relays to whom (PROTOCOL.md, "Through a relay"): the workers that speak for their sites,
 * those behind them, and which of these each one reaches, as they last said. Of all replicas
 * together, since a relay serves whoever is at its site.
 *
 * A relay counts while it reports, as a worker's lease has it; what is known of its failing
 * shortens that, as in the registry. Pure: time is an argument. Thread: one at a time. */
#pragma once

#include "common/base/status.h"
#include "common/protocol/worker_report.h"
#include "gateway/fleet/registry.h"

#define LH_RELAYS_MAX        64u
#define LH_BEHIND_RELAYS_MAX LH_WORKERS_MAX

typedef struct lh_relays lh_relays;

/* LH_ERR_NO_MEMORY. */
lh_status lh_relays_create(int64_t lease_us, lh_relays **relays, lh_error *error);
/* NULL is allowed. */
void lh_relays_destroy(lh_relays *relays);

/* A worker's report; what it says of relaying counts until the next one, or its lease's end. There
 * is no place for more than LH_RELAYS_MAX relays, nor for more than LH_BEHIND_RELAYS_MAX behind
 * them: these are none, and are not reached. */
void lh_relays_note(lh_relays *relays, const lh_worker_report *report, int64_t now_us);
/* Ends leases. Time in which this was not called for half a lease counts against nobody. */
void lh_relays_tick(lh_relays *relays, int64_t now_us);
/* Shortens a relay's lease, never lengthens it. Who is none is left alone. `relays` may be NULL.
 */
void lh_relays_suspect(lh_relays *relays, const char *relay, int64_t until_us);
/* Chains do without this relay for a while (passed_list.h), until it is gone, or _relent. Returns
 * for how long. */
int64_t lh_relays_pass_over(lh_relays *relays, const char *relay, const char *reason,
                            int64_t now_us);
/* No relay is passed over for now, since whoever is there is needed. `relays` may be NULL. */
void lh_relays_relent(lh_relays *relays);
/* When a relay last reported; INT64_MAX: there is none of that name. `relays` may be NULL. */
int64_t lh_relays_renewed_us(const lh_relays *relays, const char *relay);

/* The relay of the worker's site that reaches it, the first one by name that is not passed over;
 * NULL: none does, or there are no relays. Its report's names, site and addresses are valid, and
 * live until the next call that is not const. */
const lh_worker_report *lh_relays_find(const lh_relays *relays, const lh_worker_report *worker);
/* Whether this one still relays to that one, and is not passed over. */
bool lh_relays_serves(const lh_relays *relays, const char *relay, const char *worker);
/* The leg from the relay to the worker, as the relay has measured it. False: unknown. */
bool lh_relays_read_hop(const lh_relays *relays, const char *relay, const char *worker,
                        lh_hop_profile *hop);
/* Why _find finds none, and what would help. */
void lh_relays_explain(const lh_relays *relays, const lh_worker_report *worker,
                       char text[LH_ERROR_MESSAGE_BYTES]);
/* For whom this worker is to relay, until the next call; at most LH_RELAY_REACHES_MAX. 0: it is no
 * relay, or nobody is behind it. */
uint32_t lh_relays_list(lh_relays *relays, const lh_worker_report *relay, const lh_way **workers);
