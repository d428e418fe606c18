/* Ready for the loss of a worker: the layers that the others would need then lie on their disks
 * before it happens.
 *
 * For each stage of the chain there is a stand-in plan: the chain that the other workers would form
 * if the stage's worker were lost. A worker's cover is the run of layers from the first to the last
 * that it has in the chain or would have in one of these plans. It fetches its cover while the
 * chain serves, no faster than a share of what its link carries. When a worker is lost, its
 * stand-in plan is formed where less is left to fetch for it than for a plan made then.
 *
 * A stand-in plan stays while its workers may be planned, since what was fetched for it would be
 * useless for another one. Chains whose stages are computed by teams are not covered.
 *
 * Sans-I/O. Thread: one at a time. */
#pragma once

#include "gateway/fleet/chain_draft.h"

typedef struct lh_cover_part {
    char worker[LH_WORKER_NAME_BYTES];
    uint32_t first_layer, last_layer; /* [first, last) */
} lh_cover_part;

/* The chain after one loss. */
typedef struct lh_cover_plan {
    char lost[LH_WORKER_NAME_BYTES];
    uint32_t part_count; /* 0: the others have no room for the model */
    lh_cover_part parts[LH_LAYOUT_STAGES_MAX];
} lh_cover_plan;

/* All zero: nothing is covered. */
typedef struct lh_cover {
    uint32_t planned_epoch; /* of the chain that the plans are for; 0: there are none */
    uint32_t stage_count;   /* of that chain */
    uint32_t plan_count;    /* the losses of its first stages are planned */
    lh_cover_plan plans[LH_LAYOUT_STAGES_MAX]; /* by the chain's stages */
    uint32_t next;                             /* the plan that is looked at next */
    int64_t due_us;                            /* when */
} lh_cover;

/* Plans for one loss, every few seconds, while the chain has served for some time; forgets the
 * plans of another chain. */
void lh_cover_review(lh_cover *cover, const lh_fleet_options *options, const lh_draft_view *view,
                     const lh_chain *chain, int64_t now_us);

/* What the worker is to have on its disk, into *task. False: nothing that it lacks. */
bool lh_cover_task(const lh_cover *cover, const lh_fleet_options *options,
                   const lh_worker_report *report, lh_cover_part *task);
/* How many bytes a second of cover may take to the worker's site. */
uint64_t lh_cover_bytes_per_s(const lh_fleet_options *options, const lh_worker_report *report);

/* The plan after this worker's loss; NULL: there is none yet, or it is no worker of the chain. */
const lh_cover_plan *lh_cover_find(const lh_cover *cover, const char *lost);
/* How many of its layers a part's worker does not have on its disk. */
uint32_t lh_cover_part_missing(const lh_cover_part *part, const lh_registry *registry,
                               const char *model_digest);
/* How many layers the worker that lacks most of them still has to fetch for the plan. */
uint32_t lh_cover_missing(const lh_cover_plan *plan, const lh_registry *registry,
                          const char *model_digest);
/* The same for the stages of a chain. */
uint32_t lh_cover_missing_of_chain(const lh_chain *chain, const lh_registry *registry,
                                   const char *model_digest);
/* Forms the plan's chain under this epoch, as lh_chain_form does. LH_ERR_UNAVAILABLE: one of its
 * workers may not be planned now, or as there; the chain is unchanged then. */
lh_status lh_cover_form(const lh_cover_plan *plan, const lh_fleet_options *options,
                        const lh_draft_view *view, uint32_t epoch, int64_t now_us, lh_chain *chain,
                        lh_error *error);
