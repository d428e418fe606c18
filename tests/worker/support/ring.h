/* A whole ring in one process: workers' servers with real stages of a tiny model, and a scripted
 * gateway that submits steps and takes the results; all on one loop over loopback. */
#pragma once

#include "common/protocol/client/worker_client.h"
#include "worker/compute/stage/stage.h"
#include "worker/serve/server.h"

#define RING_WORKERS_MAX 4
#define RING_RESULTS_MAX 64
#define RING_PROMPT_MAX  64u
#define RING_CHAIN       "ring"

typedef struct ring_options {
    uint32_t workers, column_shards, threads;
    lh_wire_type wire;
    lh_h2_limits limits;
    size_t inbox_bytes, outbox_bytes; /* 0: 64 MiB */
    uint32_t steps_max;               /* 0: 8 */
    uint32_t hop_connections;         /* 0: 1 */
} ring_options;

typedef struct ring_worker {
    lh_server *server;
    lh_stage *stage; /* the server's; NULL once it is taken away */
    lh_thread_pool *pool;
    char name[16], address[32];
} ring_worker;

/* One submission, as the gateway sees it. */
typedef struct ring_step {
    struct ring *ring;
    lh_step_submission *submission; /* NULL when done */
    bool done;
    lh_status status;
    char worker[64], message[320];
} ring_step;

typedef struct ring {
    uv_loop_t loop;
    ring_options options;
    uint32_t prompt[RING_PROMPT_MAX]; /* tokens to begin with */
    uint8_t *model;
    lh_gguf *gguf;
    lh_model_config config;
    /* of each hop, as options.column_shards says: put into steps without any */
    lh_step_cut cuts[RING_WORKERS_MAX];
    uint32_t epoch;
    uint32_t kv_epoch, kv_from; /* in the routes that are set, from this worker on */
    ring_worker workers[RING_WORKERS_MAX];
    lh_h2_server *gateway;
    char gateway_address[32];
    lh_worker_client *client;
    bool connected;
    int refuse_results; /* the gateway answers results with this code; 0: takes them */
    uint32_t result_count;
    lh_step_result results[RING_RESULTS_MAX]; /* draws: their tops are in `tops` */
    lh_token_logprob tops[RING_RESULTS_MAX][LH_TOP_LOGPROBS_MAX];
    size_t times_length; /* of the answer that came last with times */
    uint8_t times[1 << 16];
    int closed;
} ring;

ring_options ring_default_options(uint32_t workers);
/* Stages installed, routes set to epoch 1, everyone connected. Fails the test where that cannot be.
 */
void ring_open(ring *r, const ring_options *options);
void ring_open_workers(ring *r, uint32_t workers); /* the other options at their defaults */
void ring_close(ring *r);

/* Sets every worker's route to this epoch. */
void ring_set_epoch(ring *r, uint32_t epoch);
void ring_close_worker(ring *r, uint32_t worker);
void ring_close_gateway(ring *r);

/* Rows from position `first` on, with greedy sampling after the last one. */
lh_step_segment ring_segment(uint64_t sequence, uint32_t first, uint32_t rows);
/* A step of that segment alone; tokens NULL: the ring's prompt, from its begin. All is borrowed. */
lh_step_manifest ring_manifest(const ring *r, uint64_t number, const lh_step_segment *segment,
                               const uint32_t *tokens);
/* Opens a step whose body is its manifest. The step must stay until it is done. */
void ring_submit(ring *r, const lh_step_manifest *manifest, ring_step *step);
/* Runs the loop until *flag, or fails the test after 20 seconds. */
void ring_run_until(ring *r, const bool *flag);
void ring_run_for(ring *r, int duration_ms);
lh_status ring_run(ring *r, const lh_step_manifest *manifest, ring_step *step);

/* Free KV pages of a worker's stage. */
size_t ring_pages_free(const ring *r, uint32_t worker);
