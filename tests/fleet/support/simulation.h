/* A fleet in memory: the gateway's real chain controller (scheduler, chain, planner, registry),
 * simulated workers and links, one clock. */
#pragma once

#include "gateway/engine/router.h"
#include "tests/fleet/support/network.h"
#include "tests/fleet/support/toy_worker.h"

#define SIMULATION_STREAMS_MAX 4000

typedef struct simulation simulation;

typedef struct simulation_options {
    uint32_t replicas;              /* 0: 1 */
    lh_scheduler_options scheduler; /* zero fields get defaults */
    lh_fleet_options fleet;         /* the same */
    link_options link;              /* of every pair of nodes */
    uint64_t seed;
    double spot_check_rate;
} simulation_options;

/* One sequence, as its client sees it. */
typedef struct simulation_stream {
    uint32_t *prompt, *tokens;
    float *scores;   /* of the prompt's tokens but the first, where they were asked for, */
    uint32_t scored; /* as far as they have come */
    int64_t *pooled; /* what the prompt has come to; NULL: nothing yet */
    uint32_t pooled_count;
    uint32_t prompt_tokens, max_tokens, count, cached_tokens;
    uint64_t seed, handle;
    int64_t submitted_us, first_token_us, last_token_us, longest_gap_us, ended_us;
    bool is_finished, is_failed, is_cancelled;
    lh_finish_reason reason;
    lh_status status;
    char message[160];
} simulation_stream;

simulation *simulation_create(const simulation_options *options);
void simulation_destroy(simulation *sim);

/* Adds a worker and starts it. Returns its node: 1, 2, ... */
int simulation_add_worker(simulation *sim, const toy_worker_options *options);
toy_worker *simulation_worker(simulation *sim, int node);
network *simulation_network(simulation *sim);
/* Of the first chain. */
const lh_chain_controller *simulation_controller(simulation *sim);
const lh_router *simulation_router(simulation *sim);
int64_t simulation_now_us(const simulation *sim);

/* Lets time pass up to then; all that happens until then has happened. */
void simulation_step_until(simulation *sim, int64_t time_us);
/* Lets time pass until the chain is ready; fails the test when it is not by then. */
void simulation_wait_ready(simulation *sim, int64_t limit_us);
/* Until every stream has ended; false: not by then. */
bool simulation_run_streams(simulation *sim, int64_t limit_us);

/* Submits a prompt of tokens that `seed` determines. The stream's index, or -1 with the status. */
int simulation_submit(simulation *sim, uint32_t prompt_tokens, uint32_t max_tokens, uint64_t seed,
                      lh_status *status);
/* As above, with a request of the caller's. */
int simulation_submit_request(simulation *sim, const lh_sequence_request *request,
                              lh_status *status);
simulation_stream *simulation_stream_at(simulation *sim, int index);
void simulation_cancel(simulation *sim, int index);
/* Whether the tokens so far are those that the toy model gives. */
bool simulation_stream_is_true(const simulation_stream *stream);

/* Kills the gateway's process and starts another one, which knows nothing. Streams that were in it
 * have failed. */
void simulation_restart_gateway(simulation *sim, int64_t down_us);

/* The gateway's process does nothing until then, as if stopped: what comes waits. */
void simulation_pause_gateway(simulation *sim, int64_t until_us);
bool simulation_has_gateway(const simulation *sim);

uint64_t simulation_breaches(const simulation *sim);
