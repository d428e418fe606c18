/* Inside the fleet: its state, and what its two files share. fleet.c has what happens to it and what workers are told,
 * fleet_forming.c how a chain is formed. */
#pragma once

#include "gateway/fleet/chain_wires.h"
#include "gateway/fleet/fleet.h"

/* So long after a chain was formed it may be formed again with the same workers: the back-off of one that keeps failing. */
#define LH_FORM_INTERVAL_US 1000000

typedef enum lh_fleet_change {
    LH_FLEET_NOTHING,
    LH_FLEET_RENEW,  /* the same stages, the next epoch */
    LH_FLEET_REPLAN, /* what is left */
} lh_fleet_change;

struct lh_fleet {
    lh_fleet_options options;
    const lh_model_profile *model;
    lh_registry *registry;
    lh_chain chain;
    lh_chain_wires wires;
    lh_fleet_change pending;
    bool has_served; /* a chain has been formed before */
    bool first_hop;  /* the gateway is connected to the first worker */
    bool first_hop_refused;
    int64_t broken_us;      /* when the chain last stopped serving */
    uint32_t planned_epoch; /* the first one with the present stages */
    int64_t ticked_us,
        due_us; /* the last tick; when the next one should come at the latest, INT64_MAX: for no time's sake */
    uint32_t epoch; /* the last one given out */
    int64_t created_us, changed_us /* who is there */, form_not_before_us;
    const char *hold; /* why no chain may be planned yet; NULL: it may */
    char reason[LH_ERROR_MESSAGE_BYTES];
};

/* An epoch that a worker has from an earlier gateway is not given out again: perhaps it is of this very second, or of
 * a clock that has been set back since. */
void lh_fleet_skip_epochs(lh_fleet *fleet, uint64_t generation, int64_t now_us);
/* Those that may be planned: workers[LH_WORKERS_MAX]. */
uint32_t lh_fleet_eligible(const lh_fleet *fleet, int64_t now_us, const lh_worker **workers);
/* Plans with the workers that are there. False: the chain is as it was, and `reason` says why. */
bool lh_fleet_plan(lh_fleet *fleet, int64_t now_us);
/* The same, but a chain that cannot be planned is dropped. */
void lh_fleet_replan(lh_fleet *fleet, int64_t now_us);
/* The same stages under the next epoch; where a worker is gone, what is left is planned. */
void lh_fleet_renew(lh_fleet *fleet, int64_t now_us);
/* The chain is to change when its back-off is over; it takes no steps meanwhile. */
void lh_fleet_demand(lh_fleet *fleet, lh_fleet_change change);
/* Takes workers for gone whose process has ended, as their neighbours say (fleet_suspicion.c). */
void lh_fleet_weigh_evidence(lh_fleet *fleet, int64_t now_us);
/* Where this tick comes far too late, the gateway was stopped: nobody could be heard meanwhile. */
void lh_fleet_forgive_absence(lh_fleet *fleet, int64_t now_us);
