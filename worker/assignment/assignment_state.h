/* The keeper's own struct. Private to assignment.c, which brings about what is wanted, and assignment_report.c, which says
 * what is there. */
#pragma once

#include "worker/assignment/assignment.h"
#include "worker/assignment/assignment_reserve.h"
#include "worker/assignment/control_renewal.h"

typedef enum lh_keeper_state {
    LH_KEEPER_EMPTY,
    LH_KEEPER_BUILDING,
    LH_KEEPER_HELD,
    LH_KEEPER_TAKING_AWAY
} lh_keeper_state;

struct lh_assignment_keeper {
    lh_assignment_options options;
    uint64_t instance;
    lh_control_renewal *renewal;
    bool leaving, closing;
    char leave_reason[LH_REPORT_ERROR_BYTES]; /* what the gateway last said of it; "": nothing */
    uint32_t failures;                        /* reports in a row that were not delivered */
    void (*on_released)(void *);
    void *released_context;

    bool has_wanted, is_urgent;   /* urgent: sequences wait for what is wanted */
    lh_control_assignment wanted; /* of the latest answer */
    lh_keeper_state state;
    lh_control_assignment held; /* which stage is being built or held */
    lh_stage *stage;            /* the server's; for its counters. NULL: none */
    uint32_t width;
    bool routed;      /* held.generation is what the server serves */
    lh_error failure; /* why what is wanted could not be done; status is LH_OK while it is not so */
    lh_control_assignment failed; /* what that was about */
    uint64_t retry_at_ms, retry_pause_ms;

    lh_reserve *reserve; /* NULL: closed */
    lh_assignment_job *job;
    uv_work_t work;
    lh_status job_status;
    lh_error job_error;

    void (*on_closed)(void *);
    void *closed_context;
};

/* What the worker says of itself; for the renewal. */
void lh_assignment_fill_report(void *keeper, lh_worker_report *report);
