/* A link that no chain uses, measured for the gateway (CONTROL.md, "Surveys"): a connection of its
 * own, which is tried as a hop is (hop_trial.h), so that it is known who is at its end, and whose
 * probes (common/net/link_warmup.h) find out what it carries; then it is closed. With or without a
 * stage, beside whatever goes on. Thread: the loop's. */
#pragma once

#include "common/net/link_warmup.h"
#include "common/protocol/trial/hop_trial.h"

typedef struct lh_survey_target {
    lh_way next;
    uint64_t bytes_max; /* of probes: less than the least of them is none */
} lh_survey_target;

/* What comes before `target` is its owner's to set; the rest begins with zeros. */
typedef struct lh_hop_survey {
    uv_loop_t *loop;
    const lh_tls_options *tls; /* NULL: none. Outlives it */
    lh_h2_limits limits;
    void (*on_change)(void *context); /* its report is another one; may be inside _want */
    void (*on_closed)(void *context); /* a connection or the timer is closed that was */
    void *context;
    lh_survey_target target;
    lh_hop_trial *trial;        /* under way; NULL: none is, or it has ended */
    lh_hop_trial_report report; /* NONE: nothing is to be measured */
    uv_timer_t timer;
    unsigned open_parts; /* the timer and trials that are open or still closing */
    int64_t begun_us;
    uint64_t probed_bytes;
    unsigned still_count; /* looks in a row at which no more had been probed */
} lh_hop_survey;

void lh_hop_survey_open(lh_hop_survey *survey);
/* Ends what is under way; on_closed tells when open_parts is 0. */
void lh_hop_survey_close(lh_hop_survey *survey);
/* What is to be measured now; the same as before: what is under way, or has ended, stays. NULL:
 * nothing is. */
void lh_hop_survey_want(lh_hop_survey *survey, const lh_survey_target *target);
/* PROVEN: it has ended, and what was measured is all there is. */
void lh_hop_survey_read(const lh_hop_survey *survey, lh_hop_trial_report *report);
