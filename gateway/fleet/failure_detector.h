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
 * It changes no lease: it says whom to suspect and until when, and its owner tells the registry. A
 * worker that is wrongly taken for gone comes back with its next report.
 *
 * Sans-I/O. Thread: one at a time. */
#pragma once

#include "gateway/fleet/chain.h"

typedef struct lh_failure_detector lh_failure_detector;

typedef struct lh_suspicion {
    const char *worker;   /* the registry's or the chain's text */
    int64_t until_us;     /* its lease ends then, unless it reports */
    const char *evidence; /* NULL: it is on probation only */
} lh_suspicion;

/* renew_us: how often workers report; probation_us: how soon one must after its chain has broken.
 * LH_ERR_NO_MEMORY. */
lh_status lh_failure_detector_create(int64_t renew_us, int64_t probation_us,
                                     lh_failure_detector **detector, lh_error *error);
void lh_failure_detector_destroy(lh_failure_detector *detector);

/* ---- Evidence ---- */

/* Whether nobody listens at the first worker's address, as the gateway itself finds. */
void lh_failure_detector_note_first_hop(lh_failure_detector *detector, bool refused);
/* The chain served until now. */
void lh_failure_detector_note_broken(lh_failure_detector *detector, int64_t now_us);
/* The gateway runs, and will look again at due_us at the latest (INT64_MAX: when something
 * happens). */
void lh_failure_detector_note_tick(lh_failure_detector *detector, int64_t now_us, int64_t due_us);

/* ---- Conclusions: suspicions[LH_PLAN_STAGES_MAX]; each returns how many ---- */

/* All workers of the chain, which has broken. */
uint32_t lh_failure_detector_probation(const lh_failure_detector *detector, const lh_chain *chain,
                                       int64_t now_us, lh_suspicion *suspicions);
/* Those of a forming chain whose process has ended, as their neighbours say. */
uint32_t lh_failure_detector_refused(const lh_failure_detector *detector, const lh_chain *chain,
                                     const lh_registry *registry, int64_t now_us,
                                     lh_suspicion *suspicions);
/* Those of a ready chain who are silent, where steps are under way and the last moved at
 * progress_us. */
uint32_t lh_failure_detector_silent(const lh_failure_detector *detector, const lh_chain *chain,
                                    const lh_registry *registry, int64_t progress_us,
                                    int64_t now_us, lh_suspicion *suspicions);
/* When the first worker of the chain may have been silent for long enough; INT64_MAX: never. */
int64_t lh_failure_detector_due_us(const lh_failure_detector *detector, const lh_chain *chain,
                                   const lh_registry *registry, int64_t progress_us);
/* For how long the gateway was stopped, where it looks far later than it wanted; 0: it was not. */
int64_t lh_failure_detector_absence_us(const lh_failure_detector *detector, int64_t now_us);
