/* Reports to JSON, answers from JSON: each field is checked for type and range before it is
 * believed. */
#include "worker/control/control_json.h"

#include "common/base/digest.h"
#include "common/json/json_text.h"
#include "common/protocol/host_facts_json.h"
#include "common/protocol/measurements_json.h"
#include "common/protocol/wire_type.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Far above any real one, far below where sums overflow. */
#define FILE_BYTES_MAX  ((int64_t)1 << 50)
#define INTERVAL_MS_MAX 3600000
#define LAYERS_MAX      65536
#define CONTEXT_MAX     (1 << 24)
#define STEPS_MAX       1024
#define WEIGHT_MAX      1000000

bool lh_control_is_same_stage(const lh_control_assignment *a, const lh_control_assignment *b) {
    return strcmp(a->model.header_sha256, b->model.header_sha256) == 0 &&
           a->model.file_bytes == b->model.file_bytes && a->first_layer == b->first_layer &&
           a->last_layer == b->last_layer && a->layers == b->layers && a->context == b->context &&
           a->rows_max == b->rows_max && a->steps_max == b->steps_max &&
           a->activations == b->activations && a->is_fast == b->is_fast &&
           a->kv_type == b->kv_type && memcmp(&a->team, &b->team, sizeof a->team) == 0;
}

bool lh_control_is_same_assignment(const lh_control_assignment *a, const lh_control_assignment *b) {
    return a->generation == b->generation && a->epoch == b->epoch && a->kv_epoch == b->kv_epoch &&
           strcmp(a->chain, b->chain) == 0 && lh_control_is_same_stage(a, b) &&
           a->wire == b->wire && a->next_is_gateway == b->next_is_gateway &&
           a->next_tls == b->next_tls && strcmp(a->next_name, b->next_name) == 0 &&
           strcmp(a->next_address, b->next_address) == 0 &&
           strcmp(a->previous_name, b->previous_name) == 0 &&
           strcmp(a->previous_relay, b->previous_relay) == 0 &&
           strcmp(a->next_relay, b->next_relay) == 0;
}

/* ---- The report ---- */

static json_t *render_text(const char *text) {
    json_t *value = json_string(text);
    return value ? value : json_string("(a text that is not UTF-8)");
}

static json_t *text_or_null(const char *text) {
    return text[0] != '\0' ? render_text(text) : json_null();
}

/* JSON's integers are signed here; none of ours comes near the end. */
static json_int_t integer(uint64_t value) {
    return value > INT64_MAX ? INT64_MAX : (json_int_t)value;
}

static json_t *render_assignment(const lh_worker_report *report) {
    if (report->assignment.state == LH_WORKER_IDLE)
        return json_null();
    return json_pack(
        "{s:I,s:s,s:I,s:I,s:b,s:b,s:o}", "generation", integer(report->assignment.generation),
        "state", lh_worker_stage_state_name(report->assignment.state), "done_bytes",
        integer(report->assignment.done_bytes), "total_bytes",
        integer(report->assignment.total_bytes), "joining", (int)report->assignment.is_joining,
        "final", (int)report->assignment.is_final, "error", render_text(report->assignment.error));
}

static json_t *render_prepared(const lh_worker_report *report) {
    if (report->prepared.state == LH_WORKER_IDLE)
        return json_null();
    const uint32_t team = report->prepared.team_epoch;
    return json_pack("{s:I,s:I,s:b,s:s,s:I,s:I,s:b,s:b,s:o,s:o*}", "first_layer",
                     (json_int_t)report->prepared.first_layer, "last_layer",
                     (json_int_t)report->prepared.last_layer, "hold", (int)report->prepared.holds,
                     "state", lh_worker_stage_state_name(report->prepared.state), "done_bytes",
                     integer(report->prepared.done_bytes), "total_bytes",
                     integer(report->prepared.total_bytes), "joining",
                     (int)report->prepared.is_joining, "final", (int)report->prepared.is_final,
                     "error", render_text(report->prepared.error), "team_epoch",
                     team ? json_integer(team) : NULL);
}

static json_t *render_loaded(const lh_worker_report *report) {
    if (!report->loaded.present)
        return json_null();
    return json_pack("{s:I,s:I,s:s}", "first_layer", (json_int_t)report->loaded.first_layer,
                     "last_layer", (json_int_t)report->loaded.last_layer, "model",
                     report->loaded.model);
}

static json_t *render_trial(const lh_hop_trial_report *trial) {
    if (trial->state == LH_HOP_TRIAL_NONE)
        return json_null();
    return json_pack("{s:o,s:o,s:s,s:o,s:o}", "next", text_or_null(trial->next), "address",
                     text_or_null(trial->address), "state", lh_hop_trial_state_name(trial->state),
                     "error", render_text(trial->error), "hop", lh_hop_profile_render(&trial->hop));
}

static json_t *render_kv(const lh_worker_report *report) {
    if (!report->kv.present)
        return json_null();
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I}", "pages_total", integer(report->kv.pages_total),
                     "pages_free", integer(report->kv.pages_free), "page_positions",
                     (json_int_t)report->kv.page_positions, "page_bytes",
                     integer(report->kv.page_bytes), "sequences", (json_int_t)report->kv.sequences,
                     "epoch", (json_int_t)report->kv.epoch);
}

static json_t *render_reaches(const lh_worker_report *report) {
    json_t *reaches = json_array();
    for (uint32_t i = 0; reaches && i < report->reach_count; i++) {
        const lh_relay_reach *reach = &report->reaches[i];
        reaches = lh_json_append(reaches, json_pack("{s:s,s:o,s:o}", "name", reach->name, "hop",
                                                    lh_hop_profile_render(&reach->hop), "error",
                                                    text_or_null(reach->error)));
    }
    return reaches;
}

/* What is there of it is said; false: no memory. */
static bool add_cached(json_t *root, const lh_worker_report *report) {
    json_t *models = json_array();
    for (uint32_t i = 0; models && i < report->cached_count; i++) {
        char layers[LH_CACHED_TEXT_BYTES];
        lh_cached_layers_render(&report->cached[i], layers);
        models = lh_json_append(
            models, json_pack("{s:s,s:s}", "model", report->cached[i].model, "layers", layers));
    }
    return json_object_set_new(root, "cached", models) == 0;
}

/* What is said only where it is so. False: no memory. */
static bool add_relaying(json_t *root, const lh_worker_report *report) {
    bool is_added =
        !report->relays || json_object_set_new(root, "reaches", render_reaches(report)) == 0;
    return is_added && (!report->is_behind_relay ||
                        json_object_set_new(root, "behind_relay", json_true()) == 0);
}

char *lh_control_report_render(const lh_worker_report *report) {
    char instance[17];
    snprintf(instance, sizeof instance, "%016" PRIx64, report->instance);
    json_t *root = json_pack(
        "{s:i,s:s,s:o,s:o,s:o,s:I,s:{s:o,s:o,s:o},s:I,s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,"
        "s:{s:"
        "I,"
        "s:I,s:I},s:b}",
        "protocol", LH_CONTROL_PROTOCOL_VERSION, "instance", instance, "site",
        text_or_null(report->site), "version", text_or_null(report->version), "isa",
        text_or_null(report->isa), "threads", (json_int_t)report->threads, "addresses", "tls",
        text_or_null(report->tls_address), "plain", text_or_null(report->plain_address), "members",
        text_or_null(report->member_address), "memory_bytes", integer(report->memory_bytes),
        "kv_bytes", integer(report->kv_bytes), "speed", lh_machine_speed_render(&report->speed),
        "assignment", render_assignment(report), "prepared", render_prepared(report), "loaded",
        render_loaded(report), "compute", lh_compute_profile_render(&report->compute), "next",
        lh_hop_profile_render(&report->next), "next_error", text_or_null(report->next_error),
        "trial", render_trial(&report->trial), "surveyed", render_trial(&report->surveyed), "kv",
        render_kv(report), "steps", "active", integer(report->steps.active), "done",
        integer(report->steps.done), "failed", integer(report->steps.failed), "leaving",
        (int)report->leaving);
    if (root && report->slowdown > 1 &&
        json_object_set_new(root, "slowdown", json_real(report->slowdown)) != 0) {
        json_decref(root);
        root = NULL;
    }
    if (root && report->host.known != 0 &&
        json_object_set_new(root, "host", lh_host_facts_render(&report->host)) != 0) {
        json_decref(root);
        root = NULL;
    }
    if (root &&
        ((report->trust_sha256[0] != '\0' &&
          json_object_set_new(root, "trust", json_string(report->trust_sha256)) != 0) ||
         !add_relaying(root, report) || (report->cached_count > 0 && !add_cached(root, report)))) {
        json_decref(root);
        root = NULL;
    }
    if (!root)
        return NULL;
    char *text = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(root);
    return text;
}

/* ---- The answer ---- */

static uint32_t read_u32(const lh_json_reader *r, const char *field, uint32_t least,
                         uint32_t most) {
    return (uint32_t)lh_json_read_integer(r, field, least, most);
}

static void read_model(const lh_json_reader *r, lh_control_model *model) {
    lh_json_reader inner;
    if (!lh_json_read_object(r, "model", false, &inner))
        return;
    lh_json_read_line(&inner, "name", model->name, sizeof model->name);
    model->file_bytes = (uint64_t)lh_json_read_integer(&inner, "file_bytes", 1, FILE_BYTES_MAX);
    model->header_bytes = (uint64_t)lh_json_read_integer(&inner, "header_bytes", 1, FILE_BYTES_MAX);
    lh_json_read_hex(&inner, "header_sha256", model->header_sha256,
                     sizeof model->header_sha256 - 1);
    if (model->header_bytes > model->file_bytes)
        lh_json_refuse(&inner, "header_bytes", "at most file_bytes");
    lh_json_read_line(&inner, "weights_url", model->weights_url, sizeof model->weights_url);
    lh_json_read_line(&inner, "tensors_url", model->tensors_url, sizeof model->tensors_url);
}

/* True: the gateway. */
static bool read_next(const lh_json_reader *r, char name[LH_WORKER_NAME_BYTES],
                      char address[LH_ADDRESS_BYTES], char relay[LH_WORKER_NAME_BYTES], bool *tls) {
    lh_json_reader inner;
    if (!lh_json_read_object(r, "next", false, &inner) || lh_json_read_bool(&inner, "gateway"))
        return true;
    lh_json_read_name(&inner, "name", name);
    lh_json_read_line(&inner, "address", address, LH_ADDRESS_BYTES);
    *tls = lh_json_read_bool(&inner, "tls");
    if (lh_json_is_there(&inner, "relay"))
        lh_json_read_name(&inner, "relay", relay);
    return false;
}

static lh_wire_type read_wire(const lh_json_reader *r) {
    lh_wire_type wire = LH_WIRE_F32;
    const char *name = lh_json_peek_string(r, "wire");
    if (!name || !lh_wire_parse(name, &wire))
        lh_json_refuse(r, "wire", "\"f32\", \"f16\" or \"q8\"");
    return wire;
}

/* What an assignment and a stage to be prepared have in common. */
static void read_stage(const lh_json_reader *r, lh_control_assignment *assignment) {
    assignment->layers = read_u32(r, "layers", 1, LAYERS_MAX);
    assignment->last_layer = read_u32(r, "last_layer", 1, LAYERS_MAX);
    assignment->first_layer = read_u32(r, "first_layer", 0, LAYERS_MAX);
    if (assignment->last_layer > assignment->layers ||
        assignment->first_layer >= assignment->last_layer)
        lh_json_refuse(r, "first_layer", "before last_layer, within layers");
    assignment->context = read_u32(r, "context", 1, CONTEXT_MAX);
    assignment->rows_max = read_u32(r, "rows_max", 1, LH_STEP_ROWS_MAX);
    assignment->steps_max = read_u32(r, "steps_max", 1, STEPS_MAX);
    assignment->wire = read_wire(r);
    const char *activations = lh_json_peek_string(r, "activations");
    if (!activations || !lh_activation_kind_parse(activations, &assignment->activations))
        lh_json_refuse(r, "activations", "\"q8\" or \"q16\"");
    const char *math =
        lh_json_is_there(r, "gpu_math") ? lh_json_peek_string(r, "gpu_math") : "exact";
    assignment->is_fast = math && strcmp(math, "fast") == 0;
    if (!math || (!assignment->is_fast && strcmp(math, "exact") != 0))
        lh_json_refuse(r, "gpu_math", "\"exact\" or \"fast\"");
    const char *kv_type =
        lh_json_is_there(r, "kv_type") ? lh_json_peek_string(r, "kv_type") : "f32";
    if (!kv_type || !lh_kv_type_parse(kv_type, &assignment->kv_type))
        lh_json_refuse(r, "kv_type", "\"f32\", \"f16\" or \"q8\"");
    read_model(r, &assignment->model);
}

/* Absent where the stage is this worker's alone. */
static void read_team(const lh_json_reader *root, lh_control_team *team) {
    lh_json_reader r;
    char secret[LH_SHA256_HEX_BYTES];
    if (!lh_json_is_there(root, "team") || !lh_json_read_object(root, "team", true, &r))
        return;
    team->epoch = read_u32(&r, "epoch", 0, UINT32_MAX);
    lh_json_read_hex(&r, "secret", secret, sizeof secret - 1);
    team->members = (uint32_t)lh_json_read_array(&r, "members", LH_MEMBERS_MAX);
    if (team->members < 2)
        lh_json_refuse(&r, "members", "of two workers at least");
    for (uint32_t i = 0; i < team->members; i++) {
        const lh_json_reader member = lh_json_element(&r, "members", i);
        lh_json_read_name(&member, "name", team->names[i]);
        lh_json_read_line(&member, "address", team->addresses[i], LH_ADDRESS_BYTES);
        team->weights[i] = read_u32(&member, "weight", 1, WEIGHT_MAX);
    }
    team->own = read_u32(&r, "own", 0, team->members > 0 ? team->members - 1 : 0);
    if (lh_json_is_good(&r))
        lh_sha256_parse(secret, team->secret);
}

static void read_assignment(const lh_json_reader *root, lh_control_answer *answer) {
    lh_control_assignment *assignment = &answer->assignment;
    lh_json_reader r;
    answer->has_assignment = lh_json_read_object(root, "assignment", true, &r);
    if (!answer->has_assignment)
        return;
    assignment->generation = (uint64_t)lh_json_read_integer(&r, "generation", 0, INT64_MAX);
    lh_json_read_name(&r, "chain", assignment->chain);
    assignment->epoch = read_u32(&r, "epoch", 0, UINT32_MAX);
    if (lh_json_is_there(&r, "kv_epoch"))
        assignment->kv_epoch = read_u32(&r, "kv_epoch", 0, UINT32_MAX);
    read_stage(&r, assignment);
    read_team(&r, &assignment->team);
    if (lh_json_is_there(&r, "previous"))
        lh_json_read_name(&r, "previous", assignment->previous_name);
    if (lh_json_is_there(&r, "previous_relay"))
        lh_json_read_name(&r, "previous_relay", assignment->previous_relay);
    assignment->next_is_gateway = read_next(&r, assignment->next_name, assignment->next_address,
                                            assignment->next_relay, &assignment->next_tls);
}

/* This field, and the next three, are absent where there is nothing to say. */
static void read_prepare(const lh_json_reader *root, lh_control_answer *answer) {
    lh_json_reader r;
    answer->has_prepare =
        lh_json_is_there(root, "prepare") && lh_json_read_object(root, "prepare", true, &r);
    if (!answer->has_prepare)
        return;
    answer->prepare.weights_only = !lh_json_read_bool(&r, "hold");
    if (lh_json_is_there(&r, "bytes_per_s"))
        answer->prepare.bytes_per_s_max =
            (uint64_t)lh_json_read_integer(&r, "bytes_per_s", 1, INT64_MAX);
    read_stage(&r, &answer->prepare);
    read_team(&r, &answer->prepare.team);
    if (answer->prepare.team.members > 0)
        lh_json_read_name(&r, "chain", answer->prepare.chain);
}

static void read_trial(const lh_json_reader *root, lh_control_answer *answer) {
    lh_control_trial *trial = &answer->trial;
    lh_json_reader r;
    answer->has_trial = lh_json_is_there(root, "try") && lh_json_read_object(root, "try", true, &r);
    if (!answer->has_trial)
        return;
    lh_json_read_name(&r, "chain", trial->chain);
    trial->width = read_u32(&r, "width", 1, LH_STEP_WIDTH_MAX);
    trial->wire = read_wire(&r);
    trial->next_is_gateway =
        read_next(&r, trial->next_name, trial->next_address, trial->next_relay, &trial->next_tls);
}

static void read_survey(const lh_json_reader *root, lh_control_answer *answer) {
    lh_control_survey *survey = &answer->survey;
    lh_json_reader r;
    answer->has_survey =
        lh_json_is_there(root, "survey") && lh_json_read_object(root, "survey", true, &r);
    if (!answer->has_survey)
        return;
    survey->bytes_max = (uint64_t)lh_json_read_integer(&r, "bytes_max", 1, FILE_BYTES_MAX);
    char relay[LH_WORKER_NAME_BYTES] = "";
    survey->next_is_gateway =
        read_next(&r, survey->next_name, survey->next_address, relay, &survey->next_tls);
    if (relay[0] != '\0')
        lh_json_refuse(&r, "next", "without a relay: links are measured one by one");
}

/* Absent where this worker relays for nobody. */
static void read_relayed(const lh_json_reader *root, lh_control_answer *answer) {
    size_t count = 0;
    if (lh_json_is_there(root, "relay"))
        count = lh_json_read_array(root, "relay", LH_RELAY_REACHES_MAX);
    for (size_t i = 0; i < count; i++) {
        lh_relayed_worker *one = &answer->relayed[answer->relay_count];
        const lh_json_reader r = lh_json_element(root, "relay", i);
        lh_json_read_name(&r, "name", one->name);
        lh_json_read_line(&r, "address", one->address, sizeof one->address);
        one->tls = lh_json_read_bool(&r, "tls");
        answer->relay_count++;
    }
}

static void read_leave(const lh_json_reader *root, lh_control_answer *answer) {
    lh_json_reader r;
    answer->has_leave =
        lh_json_is_there(root, "leave") && lh_json_read_object(root, "leave", true, &r);
    if (!answer->has_leave)
        return;
    answer->may_go = lh_json_read_bool(&r, "may_go");
    lh_json_read_line(&r, "reason", answer->leave_reason, sizeof answer->leave_reason);
}

lh_status lh_control_answer_parse(const char *text, size_t length, lh_control_answer *answer,
                                  lh_error *error) {
    lh_json_document document = {.name = "the gateway's answer", .refusal = LH_ERR_MALFORMED};
    lh_json_reader root;
    *answer = (lh_control_answer){0};
    lh_status status = lh_json_document_open(&document, text, length, error, &root);
    if (status != LH_OK)
        return status;
    answer->renew_ms = lh_json_read_integer(&root, "renew_ms", 1, INTERVAL_MS_MAX);
    answer->lease_ms = lh_json_read_integer(&root, "lease_ms", 1, INTERVAL_MS_MAX);
    answer->is_planned = lh_json_read_bool(&root, "planned");
    answer->is_urgent = lh_json_is_there(&root, "urgent") && lh_json_read_bool(&root, "urgent");
    if (lh_json_is_there(&root, "trust"))
        lh_json_read_hex(&root, "trust", answer->trust_sha256, sizeof answer->trust_sha256 - 1);
    read_assignment(&root, answer);
    read_prepare(&root, answer);
    read_trial(&root, answer);
    read_survey(&root, answer);
    read_relayed(&root, answer);
    read_leave(&root, answer);
    return lh_json_document_close(&document);
}
