/* Which workers have done what no sound worker does, and for how long plans do without them.
 *
 * A worker with bad memory, or one that means ill, sends results that cannot be. The gateway
 * refuses them and forms the chain again, and the requests are replayed; but the same workers would
 * fail in the same way, again and again. So the sender is held responsible. After
 * LH_MISCONDUCT_FAULTS_MAX faults within ten minutes it is suspended: plans do without it, for half
 * a minute at first. Then it is on trial: it may be planned again, and must compute
 * LH_MISCONDUCT_TRIAL_STEPS steps without a fault. One fault on trial suspends it again, for twice
 * as long each time, an hour at most.
 *
 *   fault, fault             time passes               steps without a fault
 *   --------------> suspended ----------> on trial ---------------------------> trusted
 *                       ^                    |  one fault
 *                       +--------------------+
 *
 * Where no chain is possible without a suspended worker, it is used all the same: it may have
 * failed by chance, and nobody else would serve. Whoever keeps the registry decides that.
 *
 * Who has sent no result at all is not certain: a worker before the last one can say that a step
 * has been taken without passing it on. The last worker is held responsible then, too. If it is
 * innocent the chain without it fails in the same way, and the guilty one is the last one of some
 * chain in the end.
 *
 * A step that is refused on the way is another matter. Who says so may lie; but what it was sent
 * may be wrong, and who sent it may lie about that; and the answer passes through all workers
 * before the two, any of whom may have made it up. Nobody can tell, since the gateway sees none of
 * the bytes between workers, and nobody signs what it sends. Only where the first worker refuses
 * the gateway's own step is it clear who is wrong. So after LH_MISCONDUCT_REFUSALS_MAX refusals in
 * a row at one hop both its ends are suspended, by the same rules. Who frames others in this way
 * has no others left to name in the end, and is one of the two. A request that sound workers refuse
 * suspends nobody where others are served meanwhile: their steps lie between the refusals.
 *
 * Workers are known by their names, so that a restart clears nobody. One record of all chains of a
 * gateway: a worker that moves to another chain takes its standing along. Pure; time is an
 * argument. Thread: one at a time. */
#pragma once

#include "common/base/name.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* The second fault tells bad memory from a bit that flipped once. */
#define LH_MISCONDUCT_FAULTS_MAX 2u
/* Each costs a second or so, and a request that two steps of its own are refused for. */
#define LH_MISCONDUCT_REFUSALS_MAX 3u
/* With as many steps between them that came around refusals are no longer in a row. */
#define LH_MISCONDUCT_REFUSALS_APART 8u
/* A few seconds of one stream, and less than one of many. */
#define LH_MISCONDUCT_TRIAL_STEPS 256u
/* Of more workers than that, the ones whose last fault is oldest are forgotten. */
#define LH_MISCONDUCT_RECORDS_MAX 256u

typedef enum lh_worker_fault {
    LH_WORKER_FAULT_BAD_RESULT, /* it sent a result that cannot be, or cannot be read */
    LH_WORKER_FAULT_NO_RESULT,  /* a step was taken, and what it awaits was not sent */
    LH_WORKER_FAULT_REFUSAL,    /* at a hop that it is an end of, a step was refused */
    LH_WORKER_FAULT_KINDS
} lh_worker_fault;

typedef enum lh_worker_standing {
    LH_STANDING_TRUSTED, /* nothing of it counts any more, or nothing ever did */
    LH_STANDING_WATCHED, /* one more fault suspends it */
    LH_STANDING_SUSPENDED,
    LH_STANDING_ON_TRIAL
} lh_worker_standing;

typedef struct lh_misconduct_record {
    char worker[LH_NAME_BYTES];
    uint64_t faults[LH_WORKER_FAULT_KINDS]; /* since the gateway began */
    char reason[LH_ERROR_MESSAGE_BYTES];    /* of the last one */
    int64_t last_us;
    uint32_t recent; /* faults that count for the next suspension, */
    int64_t recent_since_us;
    int64_t until_us, pause_us; /* of the last suspension; 0: there was none */
    uint32_t steps;             /* without a fault since then */
    bool is_for_refusals;       /* the last suspension */
    uint32_t refusals;          /* in a row, */
    uint32_t apart;             /* and steps that came around since the last of them */
} lh_misconduct_record;

/* All zero: nobody has done anything. */
typedef struct lh_misconduct {
    uint32_t count;
    lh_misconduct_record records[LH_MISCONDUCT_RECORDS_MAX];
} lh_misconduct;

/* "bad_result", "no_result", "refusal". */
const char *lh_worker_fault_name(lh_worker_fault fault);
/* "trusted", "watched", "suspended", "on_trial". */
const char *lh_worker_standing_name(lh_worker_standing standing);

/* misconduct may be NULL in all functions: nobody is held responsible then. */

/* The worker has done this; REFUSAL: at both ends of the hop. Returns until when it is suspended;
 * 0: it is not. */
int64_t lh_misconduct_note_fault(lh_misconduct *misconduct, const char *worker,
                                 lh_worker_fault fault, const char *reason, int64_t now_us);
/* A step that went through the worker has come around the ring; sent_results: they were its own to
 * send, and fine. */
void lh_misconduct_note_step(lh_misconduct *misconduct, const char *worker, bool sent_results,
                             int64_t now_us);

/* NULL: it has done nothing. Valid until the next _note_fault. */
const lh_misconduct_record *lh_misconduct_find(const lh_misconduct *misconduct, const char *worker);
/* Until when it is suspended; 0: it is not. */
int64_t lh_misconduct_suspended_until_us(const lh_misconduct *misconduct, const char *worker,
                                         int64_t now_us);
/* record may be NULL: TRUSTED. */
lh_worker_standing lh_misconduct_standing(const lh_misconduct_record *record, int64_t now_us);
