/* Who is taken for gone before its lease is over, and who is not although it is.
 *
 * A lease alone is slow: it must outlast lost packets and long pauses. Other evidence is quicker, and sound where two
 * witnesses agree:
 *  - the chain has broken, the machine of a worker says that nobody listens there any more (its predecessor was
 *    refused), and the worker has not reported since: its process has ended;
 *  - steps are under way and none has moved for a while, and a worker of the chain has not reported for as long either,
 *    although it does so every renew_us: data and control are silent, so it is frozen or cut off.
 * The other way around, a step that has come around the ring proves that each worker of its chain lives, whatever has
 * become of its reports. And a gateway that was itself stopped has heard nobody: leases are longer by its own absence.
 *
 * A worker that is wrongly taken for gone comes back with its next report. */
#include "gateway/fleet/fleet_state.h"

#include "common/log.h"

/* Steps and reports are silent for so long, which is longer than a lost packet takes, and longer than two reports lie apart when one of them is
 * late by half of their distance. */
#define SILENCE_US 1000000
/* A tick may come so late when the machine is busy. */
#define LATE_US 500000

static int64_t silence_us(const lh_fleet *fleet) {
    int64_t renewals_us = fleet->options.renew_us * 5 / 2;
    return renewals_us > SILENCE_US ? renewals_us : SILENCE_US;
}

/* Whether the one before this stage was refused there, in this chain or before it was renewed. */
static bool is_refused(const lh_fleet *fleet, uint32_t stage) {
    if (stage == 0)
        return fleet->first_hop_refused;
    const lh_worker *before = lh_registry_find(fleet->registry, fleet->chain.stages[stage - 1].name);
    return before && before->report.next.refused && !before->report.next.connected &&
           before->report.assignment.generation >= fleet->planned_epoch;
}

static void take_for_gone(lh_fleet *fleet, const lh_worker *worker, int64_t now_us, const char *evidence) {
    if (worker->lease_until_us <= now_us)
        return;
    lh_log(LH_LOG_WARN, "fleet", "worker is taken for gone worker=%s evidence=\"%s\"", worker->report.name,
           evidence);
    lh_registry_suspect(fleet->registry, worker->report.name, now_us);
}

void lh_fleet_weigh_evidence(lh_fleet *fleet, int64_t now_us) {
    if (fleet->chain.state != LH_CHAIN_FORMING)
        return;
    for (uint32_t i = 0; i < fleet->chain.stage_count; i++) {
        const lh_worker *worker = lh_registry_find(fleet->registry, fleet->chain.stages[i].name);
        if (worker && worker->renewed_us <= fleet->broken_us && is_refused(fleet, i))
            take_for_gone(fleet, worker, now_us, "nobody listens at its address");
    }
}

int64_t lh_fleet_suspicion_due_us(const lh_fleet *fleet, int64_t progress_us) {
    int64_t due_us = INT64_MAX;
    for (uint32_t i = 0; i < fleet->chain.stage_count; i++) {
        const lh_worker *worker = lh_registry_find(fleet->registry, fleet->chain.stages[i].name);
        int64_t heard_us = worker && worker->renewed_us > progress_us ? worker->renewed_us : progress_us;
        if (worker && heard_us + silence_us(fleet) < due_us)
            due_us = heard_us + silence_us(fleet);
    }
    return due_us;
}

void lh_fleet_stalled(lh_fleet *fleet, int64_t progress_us, int64_t now_us) {
    if (fleet->chain.state != LH_CHAIN_READY || now_us - progress_us < silence_us(fleet))
        return;
    for (uint32_t i = 0; i < fleet->chain.stage_count; i++) {
        const lh_worker *worker = lh_registry_find(fleet->registry, fleet->chain.stages[i].name);
        if (worker && now_us - worker->renewed_us >= silence_us(fleet))
            take_for_gone(fleet, worker, now_us, "no step has moved, and it has not reported");
    }
}

void lh_fleet_moved(lh_fleet *fleet, int64_t now_us) {
    for (uint32_t i = 0; i < fleet->chain.stage_count; i++)
        lh_registry_vouch(fleet->registry, fleet->chain.stages[i].name, now_us);
}

bool lh_fleet_is_loading(const lh_fleet *fleet) {
    for (uint32_t i = 0; fleet->chain.state == LH_CHAIN_FORMING && i < fleet->chain.stage_count; i++) {
        const lh_worker *worker = lh_registry_find(fleet->registry, fleet->chain.stages[i].name);
        lh_worker_stage_state state = worker ? worker->report.assignment.state : LH_WORKER_IDLE;
        if (worker && worker->report.assignment.generation == fleet->chain.epoch &&
            (state == LH_WORKER_FETCHING || state == LH_WORKER_LOADING))
            return true;
    }
    return false;
}

void lh_fleet_forgive_absence(lh_fleet *fleet, int64_t now_us) {
    int64_t absence_us = now_us - fleet->ticked_us;
    if (fleet->due_us == INT64_MAX || now_us - fleet->due_us < LATE_US)
        return;
    lh_log(LH_LOG_WARN, "fleet", "the gateway was stopped itself: leases are longer by ms=%lld",
           (long long)(absence_us / 1000));
    lh_registry_extend(fleet->registry, absence_us);
}
