/* Who is taken for gone before its lease is over, and who is not although it is.
 *
 * A lease alone is slow: it must outlast lost packets and long pauses. Other evidence is quicker,
 * and sound where two witnesses agree:
 *  - the chain has broken, the machine of a worker says that nobody listens there any more (its
 *    predecessor was refused), and the worker has not reported since: its process has ended;
 *  - steps are under way and none has moved for a while, and a worker of the chain has not reported
 *    for as long either, although it does so every renew_us: data and control are silent, so it is
 *    frozen or cut off.
 * A broken chain alone puts its workers on probation: each must report soon. And a gateway that was
 * itself stopped has heard nobody: leases are longer by its own absence.
 *
 * What it concludes shortens or lengthens leases in the registry; that they end is for its owner to
 * see. A worker that is wrongly taken for gone comes back with its next report.
 *
 * Sans-I/O. Thread: one at a time. */
#pragma once

#include "gateway/fleet/chain.h"

typedef struct lh_failure_detector {
    int64_t silence_us, probation_us;
    int64_t broken_us; /* when the chain last stopped serving */
    bool first_hop_refused;
    int64_t ticked_us, due_us; /* the last tick; when the next one should come at the latest */
} lh_failure_detector;

/* renew_us: how often workers report; probation_us: how soon one must once its chain has broken. */
void lh_failure_detector_init(lh_failure_detector *detector, int64_t renew_us,
                              int64_t probation_us);

/* ---- Evidence ---- */

/* Whether nobody listens at the first worker's address, as the gateway itself finds. */
void lh_failure_detector_note_first_hop(lh_failure_detector *detector, bool refused);
/* The chain served until now. */
void lh_failure_detector_note_broken(lh_failure_detector *detector, int64_t now_us);
/* The gateway runs, and will look again at due_us at the latest (INT64_MAX: when something
 * happens). */
void lh_failure_detector_note_tick(lh_failure_detector *detector, int64_t now_us, int64_t due_us);

/* ---- Conclusions: whose leases end sooner, or later ---- */

/* All workers of the chain, which has broken, and the relays between them, must report soon.
 * relays: NULL: there are none; likewise below. */
void lh_failure_detector_probation(const lh_failure_detector *detector, const lh_chain *chain,
                                   lh_registry *registry, lh_relays *relays, int64_t now_us);
/* Gone are those of a forming chain whose process has ended, as their neighbours say. */
void lh_failure_detector_refused(const lh_failure_detector *detector, const lh_chain *chain,
                                 lh_registry *registry, lh_relays *relays, int64_t now_us);
/* Gone are those of a ready chain who are silent, where steps are under way and the last moved at
 * progress_us. */
void lh_failure_detector_silent(const lh_failure_detector *detector, const lh_chain *chain,
                                lh_registry *registry, lh_relays *relays, int64_t progress_us,
                                int64_t now_us);
/* When the first worker of the chain, or relay, may have been silent for long enough; INT64_MAX:
 * never. */
int64_t lh_failure_detector_due_us(const lh_failure_detector *detector, const lh_chain *chain,
                                   const lh_registry *registry, const lh_relays *relays,
                                   int64_t progress_us);
/* Where it looks far later than it wanted the gateway itself was stopped, and that time counts
 * against nobody. */
void lh_failure_detector_absence(const lh_failure_detector *detector, lh_registry *registry,
                                 int64_t now_us);
