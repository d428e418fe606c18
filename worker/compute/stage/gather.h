/* How the machines that compute one stage together, its *members*, give each other what each has
 * computed of an activation. All of them run the same code on the same step, and each holds some
 * outputs of every matrix; wherever the next operation reads what all have computed, there is a
 * gather: every member posts its own bytes, and takes those of each other one.
 *
 * Gathers of a step are numbered from 0 in the order in which the compute thread meets them, which
 * is the same on every member, and so are the lengths: each knows beforehand what all others will
 * post. No number is left out. Number n + 2 is opened when all of n have been taken, so that two
 * may be under way at once; what comes from a member that is ahead of this one is of
 * LH_GATHERS_AHEAD numbers at most. A member that is alone has no gather at all.
 *
 * One lh_gather is of one step: whoever finishes the step on a member (stage.h) binds it to the
 * step's name on all of them. Thread: the compute thread, from the begin of lh_stage_finish to its
 * return. The calls may block, but not for ever: they end with a status when the step cannot go on,
 * since another member is lost, has given the step up, or does not come in time. After an error
 * there are no further calls for the step. A member whose lh_stage_finish does not end with LH_OK
 * has to say so to the others, whose `take` then ends: that is up to whoever called it. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Members of one stage. */
#define LH_MEMBERS_MAX 8u
/* Numbers that a member may have posted and another one not yet taken. */
#define LH_GATHERS_AHEAD 4u

/* How one gather went on a member, by lh_clock_us; 0: it did not happen. */
typedef struct lh_gather_times {
    uint32_t bytes;    /* that the member posted */
    int64_t posted_us; /* by it */
    int64_t there_us;  /* what all others posted, or the own, whichever was later */
    int64_t taken_us;  /* the first of the others' was asked for */
    int64_t waited_us; /* how long all that was asked for took to be there */
} lh_gather_times;

typedef struct lh_gather {
    void *context;
    /* Where the own bytes of gather `number` go, `length` > 0 of them, 64-byte aligned: memory of
     * the exchange, which the stage fills before it calls post. LH_ERR_NO_MEMORY, or why the step
     * cannot go on. */
    lh_status (*open)(void *context, uint32_t number, size_t length, void **bytes, lh_error *error);
    /* The bytes opened for `number` are complete, and no longer the stage's: they go to every other
     * member. Returns before they have gone. */
    lh_status (*post)(void *context, uint32_t number, lh_error *error);
    /* Waits for what `member` posts as `number`, `length` > 0 bytes. *bytes, 64-byte aligned, are
     * the exchange's, and stay until the next `take` or the step's end. Each other member is taken
     * once for a number, in ascending order. LH_ERR_MALFORMED: it posted another length;
     * LH_ERR_CLOSED, LH_ERR_CANCELLED, LH_ERR_TIMEOUT: as above. */
    lh_status (*take)(void *context, uint32_t number, uint32_t member, size_t length,
                      const void **bytes, lh_error *error);
} lh_gather;
