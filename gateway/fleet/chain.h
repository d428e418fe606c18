/* One chain: its stages, its epoch, and whether it can take steps. Sans-I/O; it reads the workers'
 * reports, it decides nothing about who should be in it (fleet.h does).
 *
 *   NONE    --_form--> FORMING
 *   FORMING --all workers hold their stage and every hop is connected: _note_ready--> READY
 *   READY   --a worker or a hop went, a step failed: _break--> FORMING, until _renew or _form gives
 *             it the next epoch
 *   FORMING, READY --those that are left cannot hold the model: _drop--> NONE
 *
 * The generation of an assignment (CONTROL.md) is the chain's epoch: whatever changes, changes the
 * epoch. Thread: one at a time. */
#pragma once

#include "common/protocol/step.h"
#include "common/protocol/wire_type.h"
#include "gateway/fleet/registry.h"
#include "gateway/fleet/relays.h"
#include "gateway/plan/layout.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum lh_chain_state {
    LH_CHAIN_NONE,    /* no plan */
    LH_CHAIN_FORMING, /* planned; the workers fetch, load and connect */
    LH_CHAIN_READY    /* takes steps */
} lh_chain_state;

/* Workers of one site that compute the stage together with its own, which takes the steps and leads
 * them (tensor parallelism). */
typedef struct lh_chain_team {
    uint32_t follower_count; /* 0: the stage's worker computes it alone */
    struct {
        char name[LH_WORKER_NAME_BYTES];
        uint64_t instance;
    } followers[LH_TEAM_MEMBERS_MAX - 1];
    uint32_t weights[LH_TEAM_MEMBERS_MAX]; /* how the work is divided, the stage's worker first */
    /* that no chain had when these workers, with these parts, were made a team: other members know
     * by it who still means another one. 0: they have not been yet */
    uint32_t epoch;
    uint8_t secret[LH_TEAM_SECRET_BYTES]; /* of the members, and of nobody else */
} lh_chain_team;

typedef struct lh_chain_stage {
    char name[LH_WORKER_NAME_BYTES];
    uint64_t instance;
    uint32_t first_layer, last_layer;
    lh_way way; /* by which the hop before it reaches the worker; filled when the chain is formed */
    lh_wire_type wire; /* of its result, on the way to the stage after it; set by the fleet */
    /* with which its KV cache is to have been emptied: this epoch's, or an earlier one's, so that
     * it stays */
    uint32_t kv_epoch;
    /* set by lh_teams_enlist; epoch and secret by lh_chain_found_team, at the latest as the chain
     * begins to form (lh_chain_inherit) */
    lh_chain_team team;
} lh_chain_stage;

typedef struct lh_chain {
    char name[LH_WORKER_NAME_BYTES];
    lh_chain_state state;
    uint32_t epoch;
    uint32_t planned_epoch;      /* the first one with these stages; 0: it has had none */
    int64_t formed_us, ready_us; /* when it last began to form, became ready */
    uint32_t stage_count;
    lh_chain_stage stages[LH_LAYOUT_STAGES_MAX];
} lh_chain;

/* Where a hop begins: the first one, at the gateway. */
typedef struct lh_chain_origin {
    const char *site;
    bool has_tls;      /* TLS connections can be opened there */
    lh_relays *relays; /* between all sites; NULL: there are none. Outlives the chain */
} lh_chain_origin;

/* The way by which one sends to a worker: plain inside a site; between sites TLS where both have
 * it, and to one behind a relay via that. LH_ERR_UNAVAILABLE: it has no address that the sender can
 * use; both are named. */
lh_status lh_chain_find_way(const char *sender, const lh_chain_origin *from,
                            const lh_worker_report *to, lh_way *way, lh_error *error);
/* Takes over a plan, whose stages follow each other and are all somebody's, with a greater epoch;
 * 0: a draft, which gets its epoch when it is renewed. workers[] are those that the plan's indices
 * mean. Wire types stay as they are at their places. LH_ERR_UNAVAILABLE: a worker has no address
 * that its predecessor can use (named); the chain is unchanged then. */
lh_status lh_chain_form(lh_chain *chain, const lh_layout *plan, const lh_worker *const *workers,
                        const lh_chain_origin *origin, uint32_t epoch, int64_t now_us,
                        lh_error *error);
/* The same stages with a greater epoch. Instances and addresses are taken anew. LH_ERR_NOT_FOUND: a
 * worker is gone; LH_ERR_UNAVAILABLE as above. */
lh_status lh_chain_renew(lh_chain *chain, const lh_registry *registry,
                         const lh_chain_origin *origin, uint32_t epoch, int64_t now_us,
                         lh_error *error);
/* It takes steps from now on. */
void lh_chain_note_ready(lh_chain *chain, int64_t now_us);
/* It takes none until it has another epoch. */
void lh_chain_break(lh_chain *chain);
void lh_chain_drop(lh_chain *chain);
/* What stays as it was under the chain before, which may have no stages. KV caches: those of the
 * last stages that are the same, as far as nothing before them has to be computed in another way.
 * Teams: those of the same workers and parts; others that have no epoch and secret yet get them.
 */
void lh_chain_inherit(lh_chain *chain, const lh_chain *before);
/* They are a team from now on, another than every one before: epoch has been no chain's, nor
 * another team's of these workers. */
void lh_chain_found_team(lh_chain_team *team, uint32_t epoch);
/* Whether the same workers have the same parts of the same layers, whatever has become of them. */
bool lh_chain_has_same_parts(const lh_chain_stage *a, const lh_chain_stage *b);

/* Whether both give the same bits: the layers are divided alike and numbers rounded alike between
 * them, or no number is rounded between any. Which numbers the machines compute with is the same
 * for all chains of a gateway. */
bool lh_chain_gives_same_bits(const lh_chain *a, const lh_chain *b);
/* Whether what was begun under this epoch, of the same chain, was computed by its present workers
 * alone, with their present parts. used_cache: also from what had been cached before. */
bool lh_chain_has_computed(const lh_chain *chain, uint32_t epoch, bool used_cache);

/* Its plan, in indices of workers[count]; LH_LAYOUT_NOBODY where one is not among them. */
lh_layout lh_chain_layout(const lh_chain *chain, const lh_worker *const *workers, uint32_t count);
/* The stage of a worker, or -1. */
int lh_chain_find(const lh_chain *chain, const char *worker);
/* The stage of a worker, or that which it computes together with that one's own, or -1; *member
 * (may be NULL): which of its team it is, 0 for the stage's own worker. */
int lh_chain_find_member(const lh_chain *chain, const char *worker, uint32_t *member);
/* Whether one of its teams was founded with this epoch. */
bool lh_chain_has_team_of(const lh_chain *chain, uint32_t epoch);
/* All workers of a chain: _stage, and the members of its team (0: the stage's own worker, which may
 * be NULL when it is gone, as may others). False: the stage has no such member. */
bool lh_chain_member(const lh_chain *chain, const lh_registry *registry, uint32_t stage,
                     uint32_t member, const lh_worker **worker);
/* The worker that has this stage; NULL: it is gone. */
const lh_worker *lh_chain_worker(const lh_chain *chain, const lh_registry *registry,
                                 uint32_t stage);
/* What the workers of this stage say of it, under the chain's epoch: that of the one which is
 * furthest from READY, FAILED before all. IDLE: one is gone, or says nothing of it yet. */
lh_worker_stage_state lh_chain_stage_state(const lh_chain *chain, const lh_registry *registry,
                                           uint32_t stage);
/* Whose word that is. NULL: it is gone. */
const lh_worker *lh_chain_awaited(const lh_chain *chain, const lh_registry *registry,
                                  uint32_t stage);
/* The first stage that was reached through a relay which does not reach it any more; -1: none. */
int lh_chain_unrelayed(const lh_chain *chain, const lh_relays *relays);
/* The stage whose worker is missing, or one of those that compute it together (gone, or restarted
 * since it was formed); -1: none. *who (may be NULL): its name. */
int lh_chain_missing(const lh_chain *chain, const lh_registry *registry, bool *restarted,
                     const char **who);
/* Whether one of its workers, or of their teams, is to leave. */
bool lh_chain_has_leaver(const lh_chain *chain, const lh_registry *registry);
/* Whether one of those has not loaded what it was given. */
bool lh_chain_has_unready_leaver(const lh_chain *chain, const lh_registry *registry);
/* Whether a worker of a forming chain fetches or loads what it lacks for it. */
bool lh_chain_is_loading(const lh_chain *chain, const lh_registry *registry);
/* Whether all that a stage of several members lacks is that they meet: each has its part in memory,
 * and one at least says that it waits for the others. */
bool lh_chain_awaits_team(const lh_chain *chain, const lh_registry *registry, uint32_t stage);
/* Where all workers hold their stage and nothing is missing but hops: the stage to which the first
 * of those leads (stage_count: the gateway), else -1. */
int lh_chain_awaited_hop(const lh_chain *chain, const lh_registry *registry, bool first_hop);
/* Whether all workers hold their stage and every hop is connected. Where not, says in `reason` what
 * it waits for ("worker b loads its layers: 35 %"). first_hop_problem: why the gateway's own
 * connection is not up, perhaps ""; NULL: it is. */
bool lh_chain_is_complete(const lh_chain *chain, const lh_registry *registry,
                          const char *first_hop_problem, char *reason, size_t reason_bytes);
