/* A worker (server and assignment keeper) between a scripted gateway and a scripted server of weights, on one loop. What
 * does not come within the loop's patience fails the test. */
#pragma once

#include "common/digest.h"
#include "tests/worker/support/range_server.h"
#include "worker/assignment/assignment.h"

#include <uv.h>

/* An assignment of layers of a tiny model, as far as tests vary it. The epoch is the generation. */
typedef struct wanted {
    uint32_t generation, first_layer, last_layer, context;
    const char *wire;
} wanted;

/* All four layers. */
extern const wanted wanted_whole;

/* The gateway, the worker, and the files between them. */
typedef struct assignment_bench {
    uv_loop_t loop;
    lh_h2_server *gateway;
    int port;
    char answer[4096]; /* to every PUT */
    int answer_status;
    size_t answer_damage; /* the byte of it whose lowest bit is flipped; 0: none */
    char report[4096]; /* of the last PUT */
    int puts;
    uint32_t results;
    range_server *files;
    uint8_t *model;
    char header_sha256[LH_SHA256_HEX_BYTES], *tensors;
    size_t model_bytes, header_bytes;
    char folder[64], url[64];
    lh_weight_cache *cache;
    lh_thread_pool *pool;
    lh_server *server;
    lh_assignment_keeper *keeper;
    bool server_closed, keeper_closed, gateway_closed, told;
} assignment_bench;

void assignment_bench_open(assignment_bench *b);
/* The same, and waits until the worker is ready to serve wanted_whole. */
void assignment_bench_open_serving(assignment_bench *b);
void assignment_bench_close(assignment_bench *b);

/* What the gateway answers from now on: nothing is wanted, no plan, or an assignment. */
void want_nothing(assignment_bench *b);
void want_what_is_there(assignment_bench *b);
void want(assignment_bench *b, const wanted *w);
/* Adds to the answer: a stage is to be prepared, `text` is what is said of leaving. */
void want_prepared(assignment_bench *b, const wanted *next, bool holds);
void say_of_leaving(assignment_bench *b, const char *text);
bool report_has(assignment_bench *b, const char *text);
void expect_report(assignment_bench *b, const char *text);
/* Runs the loop until so many more reports have come. */
void await_reports(assignment_bench *b, int count);
void expect_flag(assignment_bench *b, const bool *flag);

void open_gateway(assignment_bench *b);
void close_gateway(assignment_bench *b);
void start_worker(assignment_bench *b);
void stop_worker(assignment_bench *b);

/* Three tokens of a new sequence, as the hop before submits them. */
lh_status run_step(assignment_bench *b, uint32_t epoch);
