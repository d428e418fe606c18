/* Inside the fleet: its state, and what its files share. fleet.c has what happens to it, fleet_answer.c what workers are told,
 * fleet_forming.c how a chain is formed, fleet_succession.c how the next one is prepared. */
#pragma once

#include "gateway/fleet/chain_wires.h"
#include "gateway/fleet/fleet.h"

/* So long after a chain was formed it may be formed again with the same workers: the back-off of one that keeps failing. */
#define LH_FORM_INTERVAL_US 1000000
/* How long a worker that failed to load its stage is left out: long enough that the others form without it. */
#define LH_EXCLUSION_US 30000000

/* So many times the delay lie between two changes for the better. */
#define LH_REBALANCE_PAUSE 6

typedef enum lh_fleet_change {
    LH_FLEET_NOTHING,
    LH_FLEET_RENEW,  /* the same stages, the next epoch */
    LH_FLEET_REPLAN, /* what is left */
} lh_fleet_change;

typedef enum lh_succession_cause {
    LH_SUCCESSION_NONE, /* nothing is to follow */
    LH_SUCCESSION_LEAVE,
    LH_SUCCESSION_BETTER
} lh_succession_cause;

/* The chain that is to follow. */
typedef struct lh_succession {
    lh_succession_cause cause;
    lh_chain chain;                       /* its epoch comes when it takes over */
    bool holds[LH_PLAN_STAGES_MAX];       /* the worker's memory holds this stage beside the one it has */
    int64_t planned_us, not_before_us;    /* when it was planned; no attempt to plan one before then */
    char problem[LH_ERROR_MESSAGE_BYTES]; /* why the last attempt found none; "": it did not fail */
} lh_succession;

/* When the chain may change for the better. */
typedef struct lh_rebalance {
    int64_t not_before_us;
    int64_t last_us;  /* when it last did; INT64_MIN: never */
    int64_t pause_us; /* from one to the next; grows while that does not last */
} lh_rebalance;

struct lh_fleet {
    lh_fleet_options options;
    const lh_model_profile *model;
    lh_registry *registry;
    lh_chain chain;
    lh_chain formed; /* as it was last formed */
    lh_chain_wires wires;
    lh_succession succession;
    lh_rebalance rebalance;
    uint32_t sequences; /* that need the chain now */
    bool is_changing_over;
    lh_fleet_change pending;
    bool has_served; /* a chain has been formed before */
    bool first_hop;  /* the gateway is connected to the first worker */
    bool first_hop_refused;
    int64_t broken_us;      /* when the chain last stopped serving */
    uint32_t planned_epoch; /* the first one with the present stages */
    struct {
        char worker
            [LH_WORKER_NAME_BYTES]; /* is passed over until then, since a hop to or from it does not come up */
        int64_t until_us, not_before_us;
        int awaited; /* the one hop that all of this epoch's chain waits for, -1: none; and since when */
        uint32_t epoch;
        int64_t since_us;
    } detour;
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
bool lh_fleet_is_eligible(const lh_worker *worker, int64_t now_us);
uint32_t lh_fleet_eligible(const lh_fleet *fleet, int64_t now_us, const lh_worker **workers);
void lh_fleet_offers(const lh_worker *const *workers, uint32_t count, lh_plan_worker *offers);
/* The chain's plan, in indices of workers[count]; LH_PLAN_NOBODY where one is not among them. */
lh_plan lh_fleet_present_plan(const lh_chain *chain, const lh_worker *const *workers, uint32_t count);
/* A chain of the workers that are there, which disturbs the present one as little as may be; into `chain`, with this epoch.
 * LH_ERR_UNAVAILABLE. */
lh_status lh_fleet_draft(const lh_fleet *fleet, uint32_t epoch, int64_t now_us, lh_chain *chain,
                         lh_error *error);
/* Plans with the workers that are there. False: the chain is as it was, and `reason` says why. */
bool lh_fleet_plan(lh_fleet *fleet, int64_t now_us);
/* The same, but a chain that cannot be planned is dropped. */
void lh_fleet_replan(lh_fleet *fleet, int64_t now_us);
/* This chain, with its stages, under the next epoch. LH_ERR_NOT_FOUND, LH_ERR_UNAVAILABLE: the chain is as it was. */
lh_status lh_fleet_take_over(lh_fleet *fleet, const lh_chain *next, int64_t now_us, lh_error *error);
/* The same stages under the next epoch; where a worker is gone, what is left is planned. */
void lh_fleet_renew(lh_fleet *fleet, int64_t now_us);
/* The chain is to change when its back-off is over; it takes no steps meanwhile. */
void lh_fleet_demand(lh_fleet *fleet, lh_fleet_change change);
/* Takes workers for gone whose process has ended, as their neighbours say (fleet_suspicion.c). */
void lh_fleet_weigh_evidence(lh_fleet *fleet, int64_t now_us);
/* Plans around a hop that does not come up (fleet_detour.c), and whether it has done so with this worker. */
void lh_fleet_take_detour(lh_fleet *fleet, int64_t now_us);
bool lh_fleet_passes_over(const lh_fleet *fleet, const char *worker, int64_t now_us);
/* Where this tick comes far too late, the gateway was stopped: nobody could be heard meanwhile. */
void lh_fleet_forgive_absence(lh_fleet *fleet, int64_t now_us);
const char *lh_succession_cause_name(lh_succession_cause cause);
/* Plans a successor where one is wanted, gives up one that cannot be any more, and lets it take over when it is prepared. */
void lh_fleet_succeed(lh_fleet *fleet, int64_t now_us);
/* At once, if it is prepared: the present chain has broken. */
bool lh_fleet_succeed_now(lh_fleet *fleet, int64_t now_us);
void lh_fleet_drop_successor(lh_fleet *fleet, const char *why);
/* What the worker at this stage of the successor still has to do; false: nothing. */
bool lh_fleet_must_prepare(const lh_fleet *fleet, uint32_t stage);
void lh_fleet_fill_answer(const lh_fleet *fleet, const lh_worker_report *report, lh_fleet_answer *answer);
