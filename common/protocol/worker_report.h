/* What a worker says of itself every renew_ms: the body of PUT /fleet/workers/{name} (CONTROL.md)
 * as a struct, the same for the worker, which renders it, and for the gateway, which parses and
 * checks it. Plain values. */
#pragma once

#include "common/base/host_facts.h"
#include "common/protocol/cached_layers.h"
#include "common/protocol/measurements.h"
#include "common/protocol/way.h"

#include <stdbool.h>
#include <stdint.h>

#define LH_CONTROL_PROTOCOL_VERSION 4
#define LH_CONTROL_BODY_BYTES_MAX   65536u /* of a report, and of the answer to it */
#define LH_REPORT_ERROR_BYTES       256u

typedef enum lh_worker_stage_state {
    LH_WORKER_IDLE, /* holds no assignment */
    LH_WORKER_FETCHING,
    LH_WORKER_LOADING,
    LH_WORKER_READY,
    LH_WORKER_FAILED
} lh_worker_stage_state;

/* Workers that compute one stage together. */
#define LH_TEAM_MEMBERS_MAX  8u
#define LH_TEAM_SECRET_BYTES 32u

/* Of a hop that the next chain will need (CONTROL.md, "Trying a hop"). */
typedef enum lh_hop_trial_state {
    LH_HOP_TRIAL_NONE,    /* no hop is tried */
    LH_HOP_TRIAL_RUNNING, /* it connects, or its step has not been answered yet */
    LH_HOP_TRIAL_PROVEN,  /* connected, and the one at its end has taken a step of the trial */
    LH_HOP_TRIAL_FAILED   /* the last attempt failed; it goes on trying */
} lh_hop_trial_state;

typedef struct lh_hop_trial_report {
    lh_hop_trial_state state;
    char next[LH_WORKER_NAME_BYTES];   /* where it leads; "": the gateway */
    char address[LH_ADDRESS_BYTES];    /* of that worker, as it was given; "": the gateway's */
    char error[LH_REPORT_ERROR_BYTES]; /* of FAILED */
    lh_hop_profile hop; /* what was measured of it meanwhile; not present: nothing was said */
} lh_hop_trial_report;

/* A worker behind this one, to which it relays (PROTOCOL.md, "Through a relay"). */
#define LH_RELAY_REACHES_MAX 32u
#define LH_RELAY_ERROR_BYTES 128u

typedef struct lh_relay_reach {
    char name[LH_WORKER_NAME_BYTES];
    lh_hop_profile hop;
    char error[LH_RELAY_ERROR_BYTES]; /* why it is not reached; "": it is, or nothing failed yet */
} lh_relay_reach;

typedef struct lh_worker_report {
    char name[LH_WORKER_NAME_BYTES], site[LH_WORKER_NAME_BYTES];
    char version[32], isa[32];
    char trust_sha256
        [LH_MODEL_DIGEST_BYTES]; /* of the bundle of CAs that it believes, in hex digits;
                                               * "": the gateway has given it none */
    uint64_t instance;
    uint32_t threads;
    char tls_address[LH_ADDRESS_BYTES], plain_address[LH_ADDRESS_BYTES]; /* "": none */
    /* where others connect that compute a stage with it; "": it computes with nobody */
    char member_address[LH_ADDRESS_BYTES];
    uint64_t memory_bytes, kv_bytes;
    double slowdown; /* more than 1: it plays a slower machine, for a measurement */
    struct {
        lh_worker_stage_state state;
        uint64_t generation, done_bytes, total_bytes; /* where it is not idle */
        bool is_joining; /* LOADING: its part is loaded, and it waits for those of its team */
        bool is_final;   /* FAILED: it can compute no stage of the model, now or later */
        char error[LH_REPORT_ERROR_BYTES];
    } assignment;
    struct {
        lh_worker_stage_state state;      /* LH_WORKER_IDLE: nothing was to be prepared */
        uint32_t first_layer, last_layer; /* the rest where it is not idle */
        uint32_t team_epoch;              /* of those who would compute it together; 0: it alone */
        bool holds;                       /* loaded, too; else its weights are fetched, no more */
        uint64_t done_bytes, total_bytes;
        bool is_joining, is_final; /* as above */
        char error[LH_REPORT_ERROR_BYTES];
    } prepared; /* a stage that may be its next */
    struct {
        bool present;
        uint32_t first_layer, last_layer;
        char model[LH_MODEL_DIGEST_BYTES]; /* of its header: SHA-256 in hex digits */
    } loaded;                              /* the stage in memory, whatever becomes of it */
    /* on its disk, which need not be sent: of several models those that it knew last */
    uint32_t cached_count;
    lh_cached_layers cached[LH_CACHED_MODELS_MAX];
    lh_machine_speed speed;
    lh_compute_profile compute;
    lh_hop_profile next;
    char next_error[LH_REPORT_ERROR_BYTES]; /* why the next hop is not connected; "": it is, or
                                             * nothing has failed yet */
    lh_hop_trial_report trial;
    lh_hop_trial_report surveyed; /* of a link that is measured for the gateway (CONTROL.md,
                                   * "Surveys"); PROVEN: all has been measured that will be */
    bool relays;          /* it speaks for workers of its site that nobody reaches from outside */
    bool is_behind_relay; /* it is one of those */
    uint32_t reach_count;
    lh_relay_reach reaches[LH_RELAY_REACHES_MAX]; /* where it relays: to whom */
    struct {
        bool present;
        uint64_t pages_total, pages_free, page_bytes;
        uint32_t page_positions, sequences;
        uint32_t epoch; /* with which it was last emptied; 0: it has no place in a chain */
    } kv;
    struct {
        uint64_t active, done, failed;
    } steps;
    bool leaving;
    lh_host_facts host; /* of its machine; what is not known is left out */
    /* Of the worker's clock against the gateway's, with the report's way: the gateway sets it when
     * a report with a clock comes. More than 0: the worker's is ahead. */
    int64_t clock_offset_ms;
} lh_worker_report;

/* Into one of the errors, cut to what fits, in whole characters. */
void lh_worker_report_copy_error(char error[LH_REPORT_ERROR_BYTES], const char *message);
/* "idle", "fetching", "loading", "ready", "failed". */
const char *lh_worker_stage_state_name(lh_worker_stage_state state);
/* "none", "running", "proven", "failed". */
const char *lh_hop_trial_state_name(lh_hop_trial_state state);
