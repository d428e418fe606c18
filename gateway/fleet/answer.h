/* What a worker is told when it has reported: the assignment that it should have, the stage that it
 * is to prepare, and whether it may leave (CONTROL.md). Pure. */
#pragma once

#include "gateway/fleet/handover.h"
#include "gateway/fleet/link_survey.h"

/* What a worker should have. */
typedef struct lh_assignment {
    const char *chain;
    uint32_t epoch; /* and generation */
    lh_chain_stage stage;
    lh_way next;     /* where its result goes */
    uint32_t member; /* of the stage's team: 0 is the one that takes the steps */
    /* [team.follower_count + 1]: where each of the team is reached by the others; "": it is gone */
    const char *member_addresses[LH_TEAM_MEMBERS_MAX];
    const char *previous; /* the worker before; NULL: the gateway is */
} lh_assignment;

typedef struct lh_fleet_answer {
    const lh_fleet_options *options; /* of the stages; may be NULL where there is none */
    int64_t renew_us, lease_us;
    bool is_planned; /* false: the worker keeps what it has, and has_assignment is false */
    bool has_assignment;
    bool is_urgent; /* sequences wait for it */
    lh_assignment assignment;
    bool has_prepare, prepare_holds;
    lh_assignment prepare;        /* its part of the next chain, of epoch 0; or its cover */
    uint64_t prepare_bytes_per_s; /* that it is to be fetched with at most; 0: any */
    bool has_trial;
    lh_assignment trial; /* its place in the next chain, of epoch 0: the hop after it is tried */
    bool has_survey;
    lh_survey_task survey; /* a link that it is to measure */
    const lh_way *relayed; /* [relayed_count]: for whom it is to relay */
    uint32_t relayed_count;
    bool is_leaving, may_go;
    const char *leave_reason; /* where it is leaving */
    const char *trust_sha256; /* of the bundle of CAs; NULL: it is not the gateway's to say */
} lh_fleet_answer;

/* The answer to this report by the present chain and the one that is being prepared. Its texts live
 * until these change. */
void lh_answer_make(const lh_fleet_options *options, const lh_handover *handover,
                    const lh_handover_view *view, const lh_worker_report *report,
                    lh_fleet_answer *answer);
/* Asks the worker, who is to prepare nothing else, to fetch these layers of the chain's model into
 * its cache (cover.h), with so many bytes a second at most. */
void lh_answer_add_cover(lh_fleet_answer *answer, const lh_chain *chain, uint32_t first_layer,
                         uint32_t last_layer, uint64_t bytes_per_s);
