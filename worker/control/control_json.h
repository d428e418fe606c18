/* What a worker and its gateway say to each other (common/protocol/CONTROL.md), as structs and as
 * JSON. A pure codec. Thread: any. */
#pragma once

#include "common/base/status.h"
#include "common/protocol/step.h"
#include "common/protocol/worker_report.h"
#include "kernels/kernels.h"
#include "worker/compute/stage/gather.h"
#include "worker/mesh/handshake.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_CONTROL_URL_BYTES 1024u

typedef struct lh_control_model {
    char name[256], header_sha256[LH_MODEL_DIGEST_BYTES];
    uint64_t file_bytes, header_bytes;
    char weights_url[LH_CONTROL_URL_BYTES], tensors_url[LH_CONTROL_URL_BYTES];
} lh_control_model;

_Static_assert(LH_MEMBERS_MAX == LH_TEAM_MEMBERS_MAX &&
                   LH_MESH_SECRET_BYTES == LH_TEAM_SECRET_BYTES,
               "the protocol has what a mesh takes");

/* Those who compute the stage together. Unused bytes are 0. */
typedef struct lh_control_team {
    uint32_t members; /* 0: it is this worker's alone */
    uint32_t own;     /* which of them it is: 0 takes the steps */
    uint32_t epoch;   /* another one: the team forms anew */
    uint32_t weights[LH_MEMBERS_MAX];
    uint8_t secret[LH_MESH_SECRET_BYTES];
    char names[LH_MEMBERS_MAX][LH_WORKER_NAME_BYTES];
    char addresses[LH_MEMBERS_MAX][LH_ADDRESS_BYTES];
} lh_control_team;

typedef struct lh_control_assignment {
    uint64_t generation;
    char chain[LH_WORKER_NAME_BYTES];
    uint32_t epoch, kv_epoch; /* kv_epoch: as in lh_chain_route */
    lh_control_model model;
    uint32_t first_layer, last_layer, layers;
    uint32_t context, rows_max, steps_max;
    lh_activation_kind activations; /* Q8, Q16 */
    bool is_fast;                   /* GPUs' products may round */
    lh_kv_type kv_type;
    lh_control_team team;
    lh_wire_type wire;
    char previous_name[LH_WORKER_NAME_BYTES]; /* "" where it is the gateway */
    char previous_relay[LH_WORKER_NAME_BYTES], next_relay[LH_WORKER_NAME_BYTES]; /* "": none */
    bool weights_only;        /* to be prepared: fetched, not loaded */
    uint64_t bytes_per_s_max; /* of what is to be prepared; 0: as fast as it comes */
    bool next_is_gateway, next_tls;
    /* "" where it is the gateway */
    char next_name[LH_WORKER_NAME_BYTES], next_address[LH_ADDRESS_BYTES];
} lh_control_assignment;

/* A hop that is to be tried: this worker's in the next chain. */
typedef struct lh_control_trial {
    char chain[LH_WORKER_NAME_BYTES];
    uint32_t width; /* columns of an activation */
    lh_wire_type wire;
    bool next_is_gateway, next_tls;
    /* "" where it is the gateway */
    char next_name[LH_WORKER_NAME_BYTES], next_address[LH_ADDRESS_BYTES];
    char next_relay[LH_WORKER_NAME_BYTES]; /* "": none */
} lh_control_trial;

/* A link that is to be measured. */
typedef struct lh_control_survey {
    bool next_is_gateway; /* the next three mean nothing then */
    char next_name[LH_WORKER_NAME_BYTES], next_address[LH_ADDRESS_BYTES];
    bool next_tls;
    uint64_t bytes_max; /* of probes */
} lh_control_survey;

typedef struct lh_control_answer {
    int64_t renew_ms, lease_ms;
    bool is_planned; /* false: what is there stays as it is */
    bool has_assignment;
    bool is_urgent; /* sequences wait for it */
    lh_control_assignment assignment;
    bool has_prepare;
    /* a stage: generation, epoch and next are not set, and the chain where it has a team alone */
    lh_control_assignment prepare;
    bool has_trial;
    lh_control_trial trial;
    bool has_survey;
    lh_control_survey survey;
    char trust_sha256
        [LH_MODEL_DIGEST_BYTES]; /* of the bundle of the fleet's CAs; "": it does not say */
    uint32_t relay_count;        /* whom this worker is to relay to */
    lh_relayed_worker relayed[LH_RELAY_REACHES_MAX];
    bool has_leave, may_go;
    char leave_reason[LH_REPORT_ERROR_BYTES];
} lh_control_answer;

/* Whether one loaded stage serves both. */
bool lh_control_is_same_stage(const lh_control_assignment *a, const lh_control_assignment *b);
/* The same stage at the same place of the same chain. */
bool lh_control_is_same_assignment(const lh_control_assignment *a, const lh_control_assignment *b);

/* The JSON text of the worker's PUT, without the name, which is in the path: malloc'd, the caller
 * frees; NULL: out of memory. */
char *lh_control_report_render(const lh_worker_report *report);

/* The 200 answer. LH_ERR_MALFORMED names the field that is missing, of another type or out of
 * range; fields that this version does not know are ignored. */
lh_status lh_control_answer_parse(const char *text, size_t length, lh_control_answer *answer,
                                  lh_error *error);
