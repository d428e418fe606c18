/* One chain follows another without a gap: the successor, what it still waits for, and when there
 * should be one.
 *
 * A worker that loads other layers cannot serve meanwhile, so a chain that is simply formed anew is
 * away for as long as its slowest worker loads. Therefore the next chain is prepared while this one
 * serves, but not before every hop that it would bring has carried a step of the trial
 * (new_hops.h): nobody loads anything, and nobody leaves, for a worker that cannot be reached.
 *
 *   present chain   ====== serves ====================================|        (its epoch ends)
 *   successor          planned .. hops tried .. workers fetch, load ..|- forms -|== serves ==
 *                                                                     ^ prepared: it takes over
 *
 * The pause is what it takes to tell the workers, whose connections are up by then, and to replay
 * the sequences from their histories. Where workers compute a stage together, each prepares its
 * part of it, beside the one that it has; where the successor has other members, another one of
 * them first, or other shares, that is another part for all of them. They are a team before it
 * takes over: connected, and timed together. It happens
 *
 * - when a worker of the chain is to leave: the others, or a spare, take over what it holds, and
 *   only then may it go;
 * - when workers are there with which the slowest stage would be clearly faster: one that has come
 *   back after a stall or a restart, a new one, or one that has turned out to be faster than it was
 *   taken for; or, where the fleet has an aim, when the live planner knows a chain that is worth
 *   the move (live_planner.h). Only when all of them have been there for a while, and at most once
 *   in a while, which grows where the change did not last: nothing flaps.
 *
 * Failure modes:
 * - a hop of the successor fails, at once or because nothing is heard of its trial, or a worker
 *   of it goes, leaves, or cannot load: another successor is planned, without the one at fault.
 * - the chain breaks: a successor that is prepared takes over at once; another one is given up, and
 *   what is left is planned. Often that comes to the same stages, and what was being loaded is
 *   used.
 * - memory holds one stage, not two: the weights are only fetched beforehand. A worker that leaves
 *   is worth the pause in which they are then loaded; being faster is worth it while nobody asks
 *   anything.
 * - nobody can take over: the worker that is to leave is told so, and stays until it is not needed
 *   or gives up waiting.
 *
 * It forms no chain and changes no worker: its owner asks, and does what it decides. Sans-I/O.
 * Thread: one at a time. */
#pragma once

#include "gateway/fleet/live_planner.h"
#include "gateway/fleet/new_hops.h"

/* How many times as fast the slowest stage must become for a change, where the fleet has no aim. */
#define LH_HANDOVER_WORTHWHILE 1.25

typedef enum lh_handover_cause {
    LH_HANDOVER_NONE,  /* there is no successor */
    LH_HANDOVER_LEAVE, /* a worker leaves */
    LH_HANDOVER_BETTER /* it will be faster */
} lh_handover_cause;

/* All zero but for the options: there is no successor. */
typedef struct lh_handover {
    const lh_fleet_options *options;

    lh_handover_cause cause; /* NONE: the next three are of an older one */
    lh_chain chain;          /* its epoch comes when it takes over */
    /* the memory of each of its workers holds a part of this stage beside what that one has */
    bool holds[LH_LAYOUT_STAGES_MAX];
    int64_t planned_us;
    bool is_tried;             /* all its new hops have been proven: its workers prepare */
    int64_t unproven_since_us; /* one of them is not proven since then; 0: all are */

    int64_t attempt_not_before_us; /* to replace a worker that is to leave */
    /* why the last attempt to do so found no successor; "": it did */
    char problem[LH_ERROR_MESSAGE_BYTES];

    int64_t better_not_before_us; /* to look for a faster chain */
    int64_t pause_us;       /* between two changes for the better; grows while they are often */
    int64_t often_until_us; /* another one before then is often */
} lh_handover;

/* What a decision is made from. */
typedef struct lh_handover_view {
    const lh_chain *chain; /* the present one, not NONE */
    const lh_registry *registry;
    const lh_link_avoidance *avoidance;
    const lh_hop_trial_report *first_trial; /* of the gateway's own hop */
    uint32_t sequences;                     /* that need the chain now */
    const lh_live_planner *planner;         /* asked where the fleet has an aim */
} lh_handover_view;

typedef enum lh_handover_decision {
    LH_HANDOVER_WAIT,
    LH_HANDOVER_TAKE_OVER, /* the successor is prepared: form it, then call _complete or _fail */
    /* A worker is to leave, nobody can take over, and no sequence needs the chain: it may as well
     * go, and the chain with it. */
    LH_HANDOVER_LET_GO,
} lh_handover_decision;

/* Gives up a successor that is no longer possible or worth it, plans one where one is wanted, and
 * says what is to be done. To be called at each tick, after the owner has passed over whoever is at
 * fault where a hop fails, and excluded those that have _failed. epoch: the next one, which is used
 * up where a team of a new successor is founded with it (lh_chain_has_team_of). */
lh_handover_decision lh_handover_review(lh_handover *handover, const lh_handover_view *view,
                                        uint32_t epoch, int64_t now_us);
/* Whether the successor could take over this moment; false where there is none. */
bool lh_handover_is_prepared(const lh_handover *handover, const lh_handover_view *view,
                             int64_t now_us);
/* What the successor, which there is, would have of new hops. Valid until the next call that is not
 * const. */
lh_new_hops lh_handover_hops(const lh_handover *handover, const lh_handover_view *view);
/* The new hop for whose sake the successor cannot take over: one that has failed in its trial, or
 * of which nothing good is heard for too long; -1: none. */
int lh_handover_failed_hop(const lh_handover *handover, const lh_handover_view *view,
                           int64_t now_us);
/* The first of those that are to prepare this stage of the successor who says that it cannot; NULL:
 * none does. */
const lh_worker *lh_handover_failed(const lh_handover *handover, const lh_handover_view *view,
                                    uint32_t stage);
/* Whether all that a stage of the successor, which there is, lacks is that the members that prepare
 * it meet, as lh_chain_awaits_team. */
bool lh_handover_awaits_team(const lh_handover *handover, const lh_handover_view *view,
                             uint32_t stage);

/* The successor has taken over under this epoch. by_choice: _review said so; else the chain before
 * had broken. */
void lh_handover_complete(lh_handover *handover, uint32_t epoch, bool by_choice, int64_t now_us);
/* The successor could not be formed: it is given up, and another one planned a little later. */
void lh_handover_fail(lh_handover *handover, const char *why, int64_t now_us);
/* The successor is given up; nothing where there is none. */
void lh_handover_drop(lh_handover *handover, const char *why);

/* The chain that is being prepared, of epoch 0; NULL: none. Valid until the next call that is not
 * const. */
const lh_chain *lh_handover_successor(const lh_handover *handover);
/* Why there is one: static text; "" where there is none. */
const char *lh_handover_cause_text(const lh_handover *handover);
/* The successor's stage of this worker, where the hop after it is to be tried; -1: none is. */
int lh_handover_trial(const lh_handover *handover, const lh_handover_view *view,
                      const char *worker);
/* Whether the gateway's own hop to the successor's first stage is to be tried. */
bool lh_handover_tries_first(const lh_handover *handover, const lh_handover_view *view);
/* The successor's stage of which this worker has to prepare its part beside what it has in the
 * present chain, or -1: none. *member: which of its team it is. *holds: it is to be loaded; else
 * its weights are fetched, no more. */
int lh_handover_task(const lh_handover *handover, const lh_chain *present, const char *worker,
                     uint32_t *member, bool *holds);
