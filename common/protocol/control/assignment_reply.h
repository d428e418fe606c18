/* The gateway's reply to a worker's report (CONTROL.md): the assignment that the worker should
 * have, and what else it is to do, as a struct and as JSON. The gateway renders it, the worker
 * parses and checks it. Plain values, a pure codec. Thread: any. */
#pragma once

#include "common/json/json_fields.h"
#include "common/protocol/step.h"
#include "common/protocol/way.h"
#include "common/protocol/worker_report.h"

#define LH_CONTROL_URL_BYTES 1024u

typedef struct lh_control_model {
    char name[256], header_sha256[LH_MODEL_DIGEST_BYTES];
    uint64_t file_bytes, header_bytes;
    char weights_url[LH_CONTROL_URL_BYTES], tensors_url[LH_CONTROL_URL_BYTES];
} lh_control_model;

typedef struct lh_control_member {
    char name[LH_WORKER_NAME_BYTES], address[LH_ADDRESS_BYTES];
    uint32_t weight;
} lh_control_member;

/* The workers that compute the stage together. Unused bytes are 0. */
typedef struct lh_control_team {
    uint32_t count; /* 0: it is this worker's alone */
    uint32_t own;   /* which of them it is: 0 takes the steps */
    uint32_t epoch; /* another one: the team forms anew */
    uint8_t secret[LH_TEAM_SECRET_BYTES];
    lh_control_member members[LH_TEAM_MEMBERS_MAX];
} lh_control_team;

typedef struct lh_control_assignment {
    uint64_t generation;
    char chain[LH_WORKER_NAME_BYTES];
    uint32_t epoch, kv_epoch; /* kv_epoch: as in lh_chain_route */
    lh_control_model model;
    uint32_t first_layer, last_layer, layers;
    uint32_t context, rows_max, steps_max;
    char activations[8]; /* "q8", "q16" */
    char gpu_math[8];    /* "exact"; "fast": GPUs' products may round */
    char kv_type[8];     /* "f32", "f16", "q8" */
    lh_control_team team;
    lh_wire_type wire;
    /* The worker before this one, and the relay through which its steps come; "": the gateway, none
     */
    char previous_name[LH_WORKER_NAME_BYTES], previous_relay[LH_WORKER_NAME_BYTES];
    bool weights_only;        /* to be prepared: fetched, not loaded */
    uint64_t bytes_per_s_max; /* of what is to be prepared; 0: as fast as it comes */
    lh_way next;
} lh_control_assignment;

/* A hop that is to be tried: this worker's in the next chain. */
typedef struct lh_control_trial {
    char chain[LH_WORKER_NAME_BYTES];
    uint32_t width; /* columns of an activation */
    lh_wire_type wire;
    lh_way next;
} lh_control_trial;

/* A link that is to be measured. */
typedef struct lh_control_survey {
    lh_way next;
    uint64_t bytes_max; /* of probes */
} lh_control_survey;

typedef struct lh_assignment_reply {
    int64_t renew_ms, lease_ms;
    bool is_planned; /* false: what is there stays as it is */
    bool has_assignment;
    bool is_urgent; /* sequences wait for it */
    lh_control_assignment assignment;
    bool has_prepare;
    lh_control_assignment prepare; /* a stage: generation, epoch and next are not set */
    bool has_trial;
    lh_control_trial trial;
    bool has_survey;
    lh_control_survey survey;
    uint32_t relayed_count; /* whom this worker is to relay to */
    lh_way relayed[LH_RELAY_REACHES_MAX];
    bool has_leave, may_go;
    char leave_reason[LH_REPORT_ERROR_BYTES];
    /* of the bundle of the fleet's CAs; "": the gateway does not say */
    char trust_sha256[LH_MODEL_DIGEST_BYTES];
} lh_assignment_reply;

/* The table, for documents. */
extern const lh_json_record lh_assignment_reply_record;

/* A malloc'd text, which the caller frees; NULL: out of memory. */
char *lh_assignment_reply_render(const lh_assignment_reply *reply);

/* LH_ERR_MALFORMED names the field that is missing, of another type or out of range; fields that
 * this version does not know are ignored. */
lh_status lh_assignment_reply_parse(const char *text, size_t length, lh_assignment_reply *reply,
                                    lh_error *error);

/* Whether one loaded stage serves both. */
bool lh_control_is_same_stage(const lh_control_assignment *a, const lh_control_assignment *b);
/* The same stage at the same place of the same chain. */
bool lh_control_is_same_assignment(const lh_control_assignment *a, const lh_control_assignment *b);
