/* A worker (server and reconciler) between a scripted gateway and a scripted server of
 * weights, on one loop. What does not come within the loop's patience fails the test. */
#pragma once

#include "common/base/digest.h"
#include "tests/worker/support/control_gateway.h"
#include "tests/worker/support/range_server.h"
#include "worker/control/reconciler.h"

#include <uv.h>

/* An assignment of layers of a tiny model, as far as tests vary it. The epoch is the generation. */
typedef struct wanted {
    uint32_t generation, first_layer, last_layer, context;
    const char *wire;
    /* NULL: the worker has it alone; else the address of member 0 of a team of two, epoch 7, whose
     * secret is zeros; the worker is member 1 */
    const char *first_member;
} wanted;

/* All four layers. */
extern const wanted wanted_whole;

/* The gateway, the worker, and the files between them. */
typedef struct reconciler_bench {
    uv_loop_t loop;
    control_gateway gateway;
    range_server *files;
    uint8_t *model;
    char header_sha256[LH_SHA256_HEX_BYTES], *tensors;
    size_t model_bytes, header_bytes;
    char folder[64];
    lh_weight_cache *cache;
    lh_thread_pool *pool;
    lh_server *server;
    lh_reconciler *reconciler;
    bool server_closed, reconciler_closed, told;
} reconciler_bench;

void reconciler_bench_open(reconciler_bench *b);
/* The same with a model whose file names another architecture than llama. */
void reconciler_bench_open_with(reconciler_bench *b, const char *architecture);
/* The same, and waits until the worker is ready to serve wanted_whole. */
void reconciler_bench_open_serving(reconciler_bench *b);
void reconciler_bench_close(reconciler_bench *b);

/* What the gateway answers from now on: nothing is wanted, no plan, or an assignment. */
void want_nothing(reconciler_bench *b);
void want_what_is_there(reconciler_bench *b);
void want(reconciler_bench *b, const wanted *w);
/* The answer's interval, which is short otherwise. */
void renew_after_an_hour(reconciler_bench *b);
/* Adds to the answer: a stage is to be prepared; the hop to worker "attic" at this address is to be
 * tried, NULL: to the gateway; the link to the worker's own port is to be measured; `text` is what
 * is said of leaving. */
void want_prepared(reconciler_bench *b, const wanted *next, bool holds);
void want_tried(reconciler_bench *b, const char *address);
void want_surveyed(reconciler_bench *b, int port);
void say_of_leaving(reconciler_bench *b, const char *text);
bool report_has(reconciler_bench *b, const char *text);
/* The first number of this name in the last report. */
uint64_t report_number(reconciler_bench *b, const char *name);
void expect_report(reconciler_bench *b, const char *text);
/* Runs the loop until `count` more reports have come. */
void await_reports(reconciler_bench *b, int count);
void expect_flag(reconciler_bench *b, const bool *flag);

void open_gateway(reconciler_bench *b);
void close_gateway(reconciler_bench *b);
void start_worker(reconciler_bench *b);
void stop_worker(reconciler_bench *b);

/* Three tokens of a new sequence, as the hop before submits them. */
lh_status run_step(reconciler_bench *b, uint32_t epoch);
