/* GET /fleet as plain values, for commands that show it or look for faults in it. What the gateway
 * does not say, or says in another type, is "", 0 or not known: it may be of another version. Texts
 * are printable ASCII, since names and errors come from peers and control characters would drive
 * the terminal. Thread: one at a time. */
#pragma once

#include "common/base/host_facts.h"
#include "common/base/name.h"
#include "common/base/status.h"
#include "common/protocol/worker_report.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_DOCUMENT_TEXT_BYTES 320u

typedef struct lh_document_worker {
    char name[LH_NAME_BYTES], site[LH_NAME_BYTES], version[32], isa[32];
    char role[16]; /* "stage", "next", "spare", "waiting" */
    char reason[LH_DOCUMENT_TEXT_BYTES];
    uint32_t threads;
    double slowdown;
    int64_t memory_bytes, kv_bytes, report_age_ms;
    bool is_leaving;
    bool has_assignment;
    char state[16]; /* of the assignment: "fetching", "loading", "ready", "failed"; "": none */
    char error[LH_DOCUMENT_TEXT_BYTES];
    int64_t done_bytes, total_bytes;
    /* The hop of the next chain that it tries out; state "": none. */
    struct {
        char to[LH_NAME_BYTES], address[LH_DOCUMENT_TEXT_BYTES], state[16];
        char error[LH_DOCUMENT_TEXT_BYTES];
    } trial;
    bool is_suspended;                       /* its results were refused */
    bool is_needed;                          /* all the same, since nothing serves without it */
    bool gave_wrong_answer;                  /* that is of its chain; else: */
    char misconduct[LH_DOCUMENT_TEXT_BYTES]; /* the last thing that was refused; "": nothing */
    /* How many times as slow as it says it is held to be, in what it exaggerates most; 0: it is
     * believed. */
    double overclaims;
    bool has_clock;
    int64_t clock_offset_ms;
    lh_host_facts host;
} lh_document_worker;

/* A stage that takes so many times as long as it could is named. */
#define LH_DOCUMENT_SLOWED_TIMES 2.0

typedef struct lh_document_stage {
    char worker[LH_NAME_BYTES], site[LH_NAME_BYTES], state[16];
    char via[LH_NAME_BYTES];          /* the relay through which it is reached; "": directly */
    uint32_t first_layer, last_layer; /* [first, last) */
    uint32_t member_count;            /* who compute it together with the worker */
    char members[LH_TEAM_MEMBERS_MAX - 1][LH_NAME_BYTES];
    /* By the cost model, in milliseconds: a step of one row and of 64, and what drawing a token
     * adds. 0: not measured. */
    double row_ms, rows_64_ms, draw_ms;
    /* As many times as long as when it was calibrated; 0: not known. */
    double calibrated_times;
    int64_t pages_total, pages_used;
} lh_document_stage;

typedef struct lh_document_link {
    char from[LH_NAME_BYTES], to[LH_NAME_BYTES];
    char wire[8]; /* "": it carries tokens */
    bool is_connected, rate_is_bound;
    char error[LH_DOCUMENT_TEXT_BYTES];
    double bytes_per_us; /* 0: not known */
    int64_t round_trip_us, age_us, bytes_sent;
    /* By the cost model; 0: not measured. */
    double row_bytes, delay_ms, rate; /* rate: bytes_per_us that it reckons with */
} lh_document_link;

/* From one site to another, or between the machines of one. */
typedef struct lh_document_way {
    char from[LH_NAME_BYTES], to[LH_NAME_BYTES];
    bool rate_is_bound;
    double bytes_per_us;   /* 0: not known */
    int64_t round_trip_us; /* 0: not known */
    int64_t age_us;
    char source[16]; /* "hop", "trial", "survey" */
} lh_document_way;

typedef struct lh_document_chain {
    char name[LH_NAME_BYTES], state[16];
    char reason[LH_DOCUMENT_TEXT_BYTES];
    int64_t epoch;
    bool is_measured; /* the cost model lacks nothing */
    char lacks[LH_DOCUMENT_TEXT_BYTES];
    double token_ms; /* of a single sequence, around the ring */
    lh_document_stage *stages;
    lh_document_link *links;
    size_t stage_count, link_count;
    char next_cause[LH_DOCUMENT_TEXT_BYTES]; /* "": no other chain is being prepared */
    /* What a loss of a worker would cost: the worst of those that have been looked at. */
    struct {
        char worker[LH_NAME_BYTES]; /* that would be lost; "": all are covered, or none is known */
        bool is_possible;           /* the others have room for the model */
        int64_t layers_to_fetch;    /* by the one that lacks most */
    } worst_loss;
    int64_t losses; /* that have been looked at */
    struct {
        char objective[16], unit[16];        /* "": nothing has been looked for */
        double present, best;                /* 0: not known, or beyond the bound */
        char stages[LH_DOCUMENT_TEXT_BYTES]; /* "desk 0-9 > rack 10-29"; cut to what fits */
    } better;
    int64_t running, waiting;
} lh_document_chain;

typedef struct lh_fleet_document {
    char state[16]; /* "loading", "ready", "no_chain", "draining" */
    char reason[LH_DOCUMENT_TEXT_BYTES];
    char model[256];
    int64_t model_bytes;
    int64_t context, context_served; /* positions that requests may have, and do; 0: not known */
    char kv_type[8];
    struct {
        char version[32]; /* "": the gateway does not say what is in here */
        int64_t connections_max;
        lh_host_facts host;
        char state_dir[LH_DOCUMENT_TEXT_BYTES], api_key_file[LH_DOCUMENT_TEXT_BYTES],
            tls_key[LH_DOCUMENT_TEXT_BYTES];
    } gateway;
    lh_document_worker *workers;
    lh_document_chain *chains;
    lh_document_way *matrix;
    size_t worker_count, chain_count, way_count;
    int64_t running, waiting, stalled, tokens, finished, failed;
} lh_fleet_document;

/* Frees what the document holds, and empties it. */
void lh_fleet_document_reset(lh_fleet_document *document);
