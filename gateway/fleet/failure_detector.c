/* Two witnesses, or a tick that comes too late. */
#include "gateway/fleet/failure_detector.h"

#include "common/base/arithmetic.h"
#include "common/base/log.h"

#include <assert.h>

/* The least time for which steps and reports must be silent: longer than a lost packet takes. Where
 * workers report less often it is two and a half of their intervals, so that one report may be late
 * by half of one. */
#define SILENCE_US 1000000
/* How late a tick may come when the machine is busy. */
#define LATE_US 500000

void lh_failure_detector_init(lh_failure_detector *detector, int64_t renew_us,
                              int64_t probation_us) {
    *detector = (lh_failure_detector){.silence_us = lh_max_i64(renew_us * 5 / 2, SILENCE_US),
                                      .probation_us = probation_us,
                                      .due_us = INT64_MAX};
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
    /* What was due already waits for something else than the time. */
    detector->due_us = lh_max_i64(due_us, now_us);
}

void lh_failure_detector_probation(const lh_failure_detector *detector, const lh_chain *chain,
                                   lh_registry *registry, lh_relays *relays, int64_t now_us) {
    const lh_worker *member;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        for (uint32_t k = 0; lh_chain_member(chain, registry, i, k, &member); k++)
            if (member)
                lh_registry_suspect(registry, member->report.name, now_us + detector->probation_us);
        if (chain->stages[i].way.via[0])
            lh_relays_suspect(relays, chain->stages[i].way.via, now_us + detector->probation_us);
    }
}

static void take_for_gone(lh_registry *registry, const lh_worker *worker, int64_t now_us,
                          const char *evidence) {
    if (worker->lease_until_us > now_us)
        lh_log(LH_LOG_WARN, "fleet", "worker is taken for gone worker=%s evidence=\"%s\"",
               worker->report.name, evidence);
    lh_registry_suspect(registry, worker->report.name, now_us);
}

static void take_relay_for_gone(lh_relays *relays, const char *relay, int64_t now_us,
                                const char *evidence) {
    lh_log(LH_LOG_WARN, "fleet", "relay is taken for gone worker=%s evidence=\"%s\"", relay,
           evidence);
    lh_relays_suspect(relays, relay, now_us);
}

/* Whether the one before this stage was refused there, in this chain or before it was renewed. */
static bool is_refused(const lh_failure_detector *detector, const lh_chain *chain,
                       const lh_registry *registry, uint32_t stage) {
    if (stage == 0)
        return detector->first_hop_refused;
    const lh_worker *before = lh_chain_worker(chain, registry, stage - 1);
    return before && before->report.next.refused && !before->report.next.connected &&
           before->report.assignment.generation >= chain->planned_epoch;
}

void lh_failure_detector_refused(const lh_failure_detector *detector, const lh_chain *chain,
                                 lh_registry *registry, lh_relays *relays, int64_t now_us) {
    static const char evidence[] = "nobody listens at its address";
    if (chain->state != LH_CHAIN_FORMING)
        return;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_worker *worker = lh_chain_worker(chain, registry, i);
        const char *relay = chain->stages[i].way.via;
        int64_t renewed_us = relay[0] ? lh_relays_renewed_us(relays, relay)
                             : worker ? worker->renewed_us
                                      : INT64_MAX;
        if (renewed_us > detector->broken_us || !is_refused(detector, chain, registry, i))
            continue;
        if (relay[0])
            take_relay_for_gone(relays, relay, now_us, evidence);
        else
            take_for_gone(registry, worker, now_us, evidence);
    }
}

void lh_failure_detector_silent(const lh_failure_detector *detector, const lh_chain *chain,
                                lh_registry *registry, lh_relays *relays, int64_t progress_us,
                                int64_t now_us) {
    static const char evidence[] = "no step has moved, and it has not reported";
    if (chain->state != LH_CHAIN_READY || now_us - progress_us < detector->silence_us)
        return;
    const lh_worker *member;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const char *relay = chain->stages[i].way.via;
        for (uint32_t k = 0; lh_chain_member(chain, registry, i, k, &member); k++)
            if (member && now_us - member->renewed_us >= detector->silence_us)
                take_for_gone(registry, member, now_us, evidence);
        if (relay[0] && lh_relays_renewed_us(relays, relay) <= now_us - detector->silence_us)
            take_relay_for_gone(relays, relay, now_us, evidence);
    }
}

int64_t lh_failure_detector_due_us(const lh_failure_detector *detector, const lh_chain *chain,
                                   const lh_registry *registry, const lh_relays *relays,
                                   int64_t progress_us) {
    int64_t due_us = INT64_MAX;
    const lh_worker *member;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        for (uint32_t k = 0; lh_chain_member(chain, registry, i, k, &member); k++)
            if (member)
                due_us = lh_min_i64(due_us, lh_max_i64(member->renewed_us, progress_us) +
                                                detector->silence_us);
        int64_t relayed_us = chain->stages[i].way.via[0]
                                 ? lh_relays_renewed_us(relays, chain->stages[i].way.via)
                                 : INT64_MAX;
        if (relayed_us != INT64_MAX)
            due_us = lh_min_i64(due_us, lh_max_i64(relayed_us, progress_us) + detector->silence_us);
    }
    return due_us;
}

void lh_failure_detector_absence(const lh_failure_detector *detector, lh_registry *registry,
                                 int64_t now_us) {
    if (detector->due_us == INT64_MAX || now_us - detector->due_us < LATE_US)
        return;
    int64_t absence_us = now_us - detector->ticked_us;
    lh_log(LH_LOG_WARN, "fleet", "the gateway was stopped itself: leases are longer by ms=%lld",
           (long long)(absence_us / 1000));
    lh_registry_extend(registry, absence_us);
}
