/* Two witnesses, or a tick that comes too late. */
#include "gateway/fleet/failure_detector.h"

#include <assert.h>
#include <stdlib.h>

/* The least time for which steps and reports must be silent: longer than a lost packet takes. Where
 * workers report less often it is two and a half of their intervals, so that one report may be late
 * by half of one. */
#define SILENCE_US 1000000
/* How late a tick may come when the machine is busy. */
#define LATE_US 500000

struct lh_failure_detector {
    int64_t silence_us, probation_us;
    int64_t broken_us; /* when the chain last stopped serving */
    bool first_hop_refused;
    int64_t ticked_us, due_us; /* the last tick; when the next one should come at the latest */
};

lh_status lh_failure_detector_create(int64_t renew_us, int64_t probation_us,
                                     lh_failure_detector **detector, lh_error *error) {
    lh_failure_detector *d = calloc(1, sizeof *d);
    if (!d)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the failure detector");
    int64_t renewals_us = renew_us * 5 / 2;
    d->silence_us = renewals_us > SILENCE_US ? renewals_us : SILENCE_US;
    d->probation_us = probation_us;
    d->due_us = INT64_MAX;
    *detector = d;
    return LH_OK;
}

void lh_failure_detector_destroy(lh_failure_detector *detector) {
    free(detector);
}

void lh_failure_detector_note_first_hop(lh_failure_detector *detector, bool refused) {
    detector->first_hop_refused = refused;
}

void lh_failure_detector_note_broken(lh_failure_detector *detector, int64_t now_us) {
    assert(now_us >= detector->broken_us);
    detector->broken_us = now_us;
}

void lh_failure_detector_note_tick(lh_failure_detector *detector, int64_t now_us, int64_t due_us) {
    assert(now_us >= detector->ticked_us);
    detector->ticked_us = now_us;
    detector->due_us = due_us;
}

uint32_t lh_failure_detector_probation(const lh_failure_detector *detector, const lh_chain *chain,
                                       int64_t now_us, lh_suspicion *suspicions) {
    for (uint32_t i = 0; i < chain->stage_count; i++)
        suspicions[i] =
            (lh_suspicion){chain->stages[i].name, now_us + detector->probation_us, NULL};
    return chain->stage_count;
}

/* Whether the one before this stage was refused there, in this chain or before it was renewed. */
static bool is_refused(const lh_failure_detector *detector, const lh_chain *chain,
                       const lh_registry *registry, uint32_t stage) {
    if (stage == 0)
        return detector->first_hop_refused;
    const lh_worker *before = lh_registry_find(registry, chain->stages[stage - 1].name);
    return before && before->report.next.refused && !before->report.next.connected &&
           before->report.assignment.generation >= chain->planned_epoch;
}

uint32_t lh_failure_detector_refused(const lh_failure_detector *detector, const lh_chain *chain,
                                     const lh_registry *registry, int64_t now_us,
                                     lh_suspicion *suspicions) {
    uint32_t count = 0;
    if (chain->state != LH_CHAIN_FORMING)
        return 0;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_worker *worker = lh_registry_find(registry, chain->stages[i].name);
        if (worker && worker->renewed_us <= detector->broken_us &&
            is_refused(detector, chain, registry, i))
            suspicions[count++] =
                (lh_suspicion){worker->report.name, now_us, "nobody listens at its address"};
    }
    return count;
}

uint32_t lh_failure_detector_silent(const lh_failure_detector *detector, const lh_chain *chain,
                                    const lh_registry *registry, int64_t progress_us,
                                    int64_t now_us, lh_suspicion *suspicions) {
    uint32_t count = 0;
    if (chain->state != LH_CHAIN_READY || now_us - progress_us < detector->silence_us)
        return 0;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_worker *worker = lh_registry_find(registry, chain->stages[i].name);
        if (worker && now_us - worker->renewed_us >= detector->silence_us)
            suspicions[count++] = (lh_suspicion){worker->report.name, now_us,
                                                 "no step has moved, and it has not reported"};
    }
    return count;
}

int64_t lh_failure_detector_due_us(const lh_failure_detector *detector, const lh_chain *chain,
                                   const lh_registry *registry, int64_t progress_us) {
    int64_t due_us = INT64_MAX;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_worker *worker = lh_registry_find(registry, chain->stages[i].name);
        int64_t heard_us =
            worker && worker->renewed_us > progress_us ? worker->renewed_us : progress_us;
        if (worker && heard_us + detector->silence_us < due_us)
            due_us = heard_us + detector->silence_us;
    }
    return due_us;
}

int64_t lh_failure_detector_absence_us(const lh_failure_detector *detector, int64_t now_us) {
    bool is_late = detector->due_us != INT64_MAX && now_us - detector->due_us >= LATE_US;
    return is_late ? now_us - detector->ticked_us : 0;
}
