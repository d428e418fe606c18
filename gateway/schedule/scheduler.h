/* The scheduler: which rows go through the chain, and when. Sans-I/O: tokens' results and the
 * steps' answers go in, steps and cancellations are pulled out, events of the sequences come
 * through a callback. It never asks for the time.
 *
 * Thread: one at a time. on_event must not call back into the scheduler. */
#pragma once

#include "common/metrics/histogram.h"
#include "common/protocol/step.h"
#include "gateway/cost/overlap_plan.h"
#include "gateway/cost/request_mix.h"
#include "gateway/kv/ledger.h"
#include "gateway/schedule/recomputation.h"
#include "gateway/schedule/result_fault.h"
#include "gateway/schedule/sequence.h"
#include "gateway/trace/trace_step.h"

typedef struct lh_scheduler lh_scheduler;

typedef struct lh_scheduler_options {
    const char *chain_name;  /* told with each event; outlives all of them */
    uint32_t sequences_max;  /* with pages on the chain at once */
    uint32_t queue_max;      /* that may wait besides */
    lh_overlap_spec overlap; /* of sequences that have none of their own */
    uint32_t rows_max;       /* of any step */
    /* of a prompt's step at the slowest stage while others decode; 0: none */
    int64_t step_budget_us;
    uint32_t width;      /* columns of an activation */
    uint32_t vocabulary; /* a sampled token must lie in it */
    /* the last number that a sequence was given, which several schedulers share; NULL: its own */
    uint64_t *numbers;
    bool prefix_cache; /* pages of what has been computed are kept and shared */
    /* no progress on the chain for so long: a fault, and much sooner where it is known what steps
     * take (inflight.h) */
    int64_t step_timeout_us;
    /* of the schedulers whose tenants are the same (fair_share.h); NULL: it is alone */
    struct lh_fairness_group *group;
    /* without a chain, and without any progress, for so long: the sequences fail */
    int64_t replay_timeout_us;
    /* while a chain is expected (lh_scheduler_expect_chain): so long without a further byte */
    int64_t takeover_timeout_us;
} lh_scheduler_options;

typedef struct lh_scheduler_sink {
    void *context;
    void (*on_event)(void *context, uint64_t handle, const lh_sequence_event *event);
} lh_scheduler_sink;

typedef struct lh_scheduler_figures {
    uint32_t running, waiting; /* sequences */
    /* of the truncations of pages, those on their way */
    uint32_t truncating;
    uint32_t stalled;                                       /* of those that run: wait for a page */
    uint32_t prefixes;                                      /* cached now */
    uint32_t decode_steps, prefill_steps, truncation_steps; /* in flight now */
    /* into which the sequences that decode were last dealt; 0: the costs were not known */
    uint32_t decode_groups;
    /* predicted then: between two tokens of each of them */
    double decode_period_us;
    uint64_t steps, rows, tokens; /* since start */
    uint64_t forced_tokens;       /* of them, that the grammar left no choice for */
    uint64_t preemptions, prefix_hits, cached_tokens; /* tokens: that did not have to be computed */
    /* tokens of prompts that were looked for among what is cached */
    uint64_t looked_up_tokens;
    uint64_t evicted_blocks; /* cached ones that were given up */
    uint64_t replays, cancelled, failed, finished;
    uint64_t replayed_rows;   /* that had been sent before: after a break, or a preemption */
    uint64_t expired;         /* of those that failed: their deadline passed */
    uint64_t results_ignored; /* duplicate, unexpected or of an old epoch */
} lh_scheduler_figures;

/* LH_ERR_NO_MEMORY. */
lh_status lh_scheduler_create(const lh_scheduler_options *options, const lh_scheduler_sink *sink,
                              lh_scheduler **scheduler, lh_error *error);
/* Sequences that are left are dropped without an event. */
void lh_scheduler_destroy(lh_scheduler *scheduler);

/* ---- Sequences ---- */

/* Takes the sequence over, whatever it returns. LH_ERR_BUSY: sequences_max + queue_max are there;
 * LH_ERR_TIMEOUT: its deadline has passed; LH_ERR_LIMIT: it can never fit the chain's KV cache;
 * LH_ERR_UNAVAILABLE: no chain, for longer than the replay timeout. No event comes then. */
lh_status lh_scheduler_submit(lh_scheduler *scheduler, lh_sequence *sequence, int64_t now_us,
                              lh_error *error);
/* No further event comes for the handle. Unknown ones are ignored. */
void lh_scheduler_cancel(lh_scheduler *scheduler, uint64_t handle);

/* When a sequence would be through here, were it submitted now (finish_estimate.h): microseconds
 * from now. Where the chain's costs are not known: how many sequences are here, and false. */
bool lh_scheduler_expect_finish(const lh_scheduler *scheduler, const lh_sequence *sequence,
                                double *us);
/* Whether one more would be let onto the chain soon: it is up, has a place, and nobody waits. */
bool lh_scheduler_has_room(const lh_scheduler *scheduler);
/* A waiting sequence of at most positions_max leaves for another scheduler: the next one that
 * would be let in. The caller owns it now. NULL: there is none. */
lh_sequence *lh_scheduler_migrate_out(lh_scheduler *scheduler, uint64_t positions_max,
                                      int64_t now_us);
/* Takes over one that has left another scheduler: it keeps its number, which says how old it is. */
void lh_scheduler_migrate_in(lh_scheduler *scheduler, lh_sequence *sequence, int64_t now_us);

/* ---- Answers that are computed again (recomputation.h) ---- */

/* Of a sequence that has ended, by itself or cancelled, and of whose draws a record was kept: the
 * caller owns it now. NULL: there is none. */
lh_answer_record *lh_scheduler_take_record(lh_scheduler *scheduler);
/* Whether the chain works, and no sequence is here nor anything under way. */
bool lh_scheduler_is_idle(const lh_scheduler *scheduler);
/* Computes the answer again, as long as no sequence comes: record and draws[record->draw_count] are
 * used until it no longer RUNS. The chain is idle. LH_ERR_BUSY: too few pages are free;
 * LH_ERR_NO_MEMORY. */
lh_status lh_scheduler_recompute(lh_scheduler *scheduler, const lh_answer_record *record,
                                 uint64_t *draws, lh_error *error);
/* What has become of the last one. */
lh_recomputation_state lh_scheduler_recomputation(const lh_scheduler *scheduler);
/* What the chain holds is not to be relied upon: it is to be formed again, for this reason. Of
 * effect while it works. */
void lh_scheduler_doubt(lh_scheduler *scheduler, const char *reason);

/* ---- The chain ---- */

/* The chain takes steps of this epoch. chain: its KV caches, which are empty. */
void lh_scheduler_chain_up(lh_scheduler *scheduler, uint32_t epoch, const lh_kv_ledger *chain,
                           int64_t now_us);
/* The same, where workers have been told to keep their KV caches. lost_stages: the number of first
 * stages whose caches are empty, while the others hold what they held when this scheduler's last
 * chain went down; or all stages: no cache is relied upon. Steps begin with a KV resync. */
void lh_scheduler_chain_back(lh_scheduler *scheduler, uint32_t epoch, const lh_kv_ledger *chain,
                             uint32_t lost_stages, int64_t now_us);
/* All steps in flight are lost; sequences wait for the next chain_up or chain_back and are
 * replayed, as far as must be. */
void lh_scheduler_chain_down(lh_scheduler *scheduler, int64_t now_us);
bool lh_scheduler_chain_is_up(const lh_scheduler *scheduler);
/* Of its options. */
const char *lh_scheduler_chain_name(const lh_scheduler *scheduler);
/* While it is down: the next one is being loaded, so that sequences wait until then at least, as
 * long as bytes come. grown_us: when the last ones came; 0: none have. */
void lh_scheduler_expect_chain(lh_scheduler *scheduler, int64_t until_us, int64_t grown_us);
/* When a step last moved, while some are under way; INT64_MAX: none is. */
int64_t lh_scheduler_progress_us(const lh_scheduler *scheduler);
/* What is known now of the chain's costs: prompts are cut by it from now on, also what is left of
 * those that are under way where it has changed much. */
void lh_scheduler_set_costs(lh_scheduler *scheduler, const lh_cost_chain *costs);
const lh_overlap_planner *lh_scheduler_planner(const lh_scheduler *scheduler);

/* Until when submissions are taken: INT64_MAX while the chain is up, INT64_MIN when there was never
 * one. */
int64_t lh_scheduler_open_until_us(const lh_scheduler *scheduler);

/* Results from the ring's last hop. LH_ERR_STALE: another epoch; LH_ERR_MALFORMED: an impossible
 * token, which is a fault of the chain. Results that nothing waits for are ignored and counted. */
lh_status lh_scheduler_results(lh_scheduler *scheduler, uint32_t epoch, uint64_t step,
                               const lh_step_result *results, uint32_t count, int64_t now_us,
                               lh_error *error);
/* What came as the results of the step cannot be read, which is a fault of the chain. epoch: 0
 * where not even that could be read. Ignored where the step is not in flight. */
void lh_scheduler_refuse_results(lh_scheduler *scheduler, uint32_t epoch, uint64_t step,
                                 const char *message);
/* The first hop's answer to a step: LH_OK when the whole chain has taken it. */
void lh_scheduler_step_done(lh_scheduler *scheduler, uint32_t epoch, uint64_t step,
                            lh_status status, const char *message, int64_t now_us);

/* ---- What is to be done ---- */

/* Forms the next step, which then counts as in flight. Pointers live until the next call. False:
 * nothing to send now. Pull until false after every call above. */
bool lh_scheduler_next_step(lh_scheduler *scheduler, int64_t now_us, lh_step_manifest *manifest);
/* What traced requests have in a step in flight, each once: parts[max] at most; returns how many.
 */
uint32_t lh_scheduler_traced_parts(const lh_scheduler *scheduler, uint64_t step,
                                   lh_trace_part *parts, uint32_t max);
/* lh_inflight_step_believed_us of a step in flight. */
uint32_t lh_scheduler_believed_us(const lh_scheduler *scheduler, uint64_t step, double *us);
/* How many times as long as predicted the last step took that had the chain for itself; 0: none has
 * come around since this was last asked. */
double lh_scheduler_take_lone_step(lh_scheduler *scheduler);
/* The next step whose request is to be reset, because all its sequences were cancelled. Its
 * step_done must still come. */
bool lh_scheduler_next_cancel(lh_scheduler *scheduler, uint64_t *step);
/* Why the chain is to be formed again; NULL: it works. No step is formed from then on until
 * lh_scheduler_chain_down. */
const char *lh_scheduler_fault(const lh_scheduler *scheduler);
/* What is wrong with the last worker's results, where that is the fault. */
lh_result_fault lh_scheduler_result_fault(const lh_scheduler *scheduler);
/* Timeouts. Call at lh_scheduler_deadline_us. */
void lh_scheduler_tick(lh_scheduler *scheduler, int64_t now_us);
int64_t lh_scheduler_deadline_us(const lh_scheduler *scheduler); /* INT64_MAX: none */

/* Of the requests that have finished. */
const lh_request_mix *lh_scheduler_mix(const lh_scheduler *scheduler);
lh_scheduler_figures lh_scheduler_current_figures(const lh_scheduler *scheduler);
/* For how long sequences waited until they first got a place, in seconds. */
const lh_histogram *lh_scheduler_queue_times(const lh_scheduler *scheduler);
/* Who has the chain's pages. */
const lh_kv_ledger *lh_scheduler_ledger(const lh_scheduler *scheduler);
