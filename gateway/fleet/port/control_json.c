/* JSON in and out of the control plane. */
#include "gateway/fleet/port/control_json.h"

#include "common/base/digest.h"
#include "common/gguf/tensor_blocks.h"
#include "common/json/json_text.h"
#include "common/protocol/host_facts_json.h"
#include "common/protocol/measurements_json.h"
#include "common/protocol/wire_type.h"
#include "gateway/cost/pipeline_depth.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Above that nobody measures anything. */
#define SLOWDOWN_MAX 1000

/* ---- A report in ---- */

static uint32_t read_u32(const lh_json_reader *r, const char *field, uint32_t least) {
    return (uint32_t)lh_json_read_integer(r, field, least, UINT32_MAX);
}

static uint64_t read_count(const lh_json_reader *r, const char *field) {
    return (uint64_t)lh_json_read_integer(r, field, 0, INT64_MAX);
}

/* "host:port", or null: "". */
static void read_address(const lh_json_reader *r, const char *field,
                         char address[LH_ADDRESS_BYTES]) {
    if (lh_json_is_present(r, field) && !lh_json_is_there(r, field))
        return;
    lh_json_read_text(r, field, address, LH_ADDRESS_BYTES);
    const char *colon = strrchr(address, ':');
    char *end = NULL;
    unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
    if (port == 0 || port > 65535 || *end || colon == address || strpbrk(address, " /@?#"))
        lh_json_refuse(r, field, "\"host:port\" or null");
}

static void read_addresses(const lh_json_reader *r, lh_worker_report *report) {
    lh_json_reader inner;
    if (!lh_json_read_object(r, "addresses", false, &inner))
        return;
    read_address(&inner, "tls", report->tls_address);
    read_address(&inner, "plain", report->plain_address);
    if (lh_json_is_there(&inner, "members"))
        read_address(&inner, "members", report->member_address);
    if (!report->tls_address[0] && !report->plain_address[0])
        lh_json_refuse(&inner, "plain", "there where tls is null");
}

static lh_worker_stage_state read_stage_state(const lh_json_reader *r) {
    const char *text = lh_json_peek_string(r, "state");
    for (lh_worker_stage_state state = LH_WORKER_FETCHING; text && state <= LH_WORKER_FAILED;
         state++)
        if (strcmp(text, lh_worker_stage_state_name(state)) == 0)
            return state;
    lh_json_refuse(r, "state", "fetching, loading, ready or failed");
    return LH_WORKER_IDLE;
}

static void read_assignment(const lh_json_reader *r, lh_worker_report *report) {
    lh_json_reader inner;
    if (!lh_json_read_object(r, "assignment", true, &inner))
        return;
    report->assignment.state = read_stage_state(&inner);
    report->assignment.generation = read_count(&inner, "generation");
    report->assignment.done_bytes = read_count(&inner, "done_bytes");
    report->assignment.total_bytes = read_count(&inner, "total_bytes");
    report->assignment.is_joining =
        lh_json_is_there(&inner, "joining") && lh_json_read_bool(&inner, "joining");
    if (lh_json_is_there(&inner, "final"))
        report->assignment.is_final = lh_json_read_bool(&inner, "final");
    if (!lh_json_is_present(&inner, "error") || lh_json_is_there(&inner, "error"))
        lh_json_read_text(&inner, "error", report->assignment.error,
                          sizeof report->assignment.error);
}

/* Absent where the worker does not know of it. */
static void read_prepared(const lh_json_reader *r, lh_worker_report *report) {
    lh_json_reader inner;
    if (!lh_json_is_present(r, "prepared") || !lh_json_read_object(r, "prepared", true, &inner))
        return;
    report->prepared.state = read_stage_state(&inner);
    report->prepared.first_layer = read_u32(&inner, "first_layer", 0);
    report->prepared.last_layer = read_u32(&inner, "last_layer", 0);
    report->prepared.holds = lh_json_read_bool(&inner, "hold");
    if (lh_json_is_there(&inner, "team_epoch"))
        report->prepared.team_epoch = read_u32(&inner, "team_epoch", 0);
    report->prepared.done_bytes = read_count(&inner, "done_bytes");
    report->prepared.total_bytes = read_count(&inner, "total_bytes");
    report->prepared.is_joining =
        lh_json_is_there(&inner, "joining") && lh_json_read_bool(&inner, "joining");
    if (lh_json_is_there(&inner, "final"))
        report->prepared.is_final = lh_json_read_bool(&inner, "final");
    lh_json_read_text(&inner, "error", report->prepared.error, sizeof report->prepared.error);
}

static lh_hop_trial_state read_trial_state(const lh_json_reader *r) {
    const char *text = lh_json_peek_string(r, "state");
    for (lh_hop_trial_state state = LH_HOP_TRIAL_RUNNING; text && state <= LH_HOP_TRIAL_FAILED;
         state++)
        if (strcmp(text, lh_hop_trial_state_name(state)) == 0)
            return state;
    lh_json_refuse(r, "state", "running, proven or failed");
    return LH_HOP_TRIAL_NONE;
}

/* Absent where no hop is tried, or no link is measured. */
static void read_trial(const lh_json_reader *r, const char *field, lh_hop_trial_report *trial) {
    lh_json_reader inner;
    if (!lh_json_is_present(r, field) || !lh_json_read_object(r, field, true, &inner))
        return;
    trial->state = read_trial_state(&inner);
    if (lh_json_is_there(&inner, "next"))
        lh_json_read_name(&inner, "next", trial->next);
    if (lh_json_is_there(&inner, "address"))
        read_address(&inner, "address", trial->address);
    lh_json_read_text(&inner, "error", trial->error, sizeof trial->error);
    lh_hop_profile_read(&inner, "hop", &trial->hop);
}

/* Absent where the worker does not know of it. */
static void read_loaded(const lh_json_reader *r, lh_worker_report *report) {
    lh_json_reader inner;
    if (!lh_json_is_present(r, "loaded") || !lh_json_read_object(r, "loaded", true, &inner))
        return;
    report->loaded.present = true;
    report->loaded.first_layer = read_u32(&inner, "first_layer", 0);
    report->loaded.last_layer = read_u32(&inner, "last_layer", 0);
    lh_json_read_text(&inner, "model", report->loaded.model, sizeof report->loaded.model);
}

/* Absent where it has nothing, or does not know of it. */
static void read_cached(const lh_json_reader *r, lh_worker_report *report) {
    size_t count =
        lh_json_is_there(r, "cached") ? lh_json_read_array(r, "cached", LH_CACHED_MODELS_MAX) : 0;
    for (size_t i = 0; i < count && lh_json_is_good(r); i++) {
        lh_json_reader inner = lh_json_element(r, "cached", i);
        lh_cached_layers *cached = &report->cached[report->cached_count++];
        char layers[LH_CACHED_TEXT_BYTES];
        lh_json_read_hex(&inner, "model", cached->model, sizeof cached->model - 1);
        lh_json_read_line(&inner, "layers", layers, sizeof layers);
        if (lh_json_is_good(&inner) && !lh_cached_layers_parse(layers, cached))
            lh_json_refuse(&inner, "layers", "up to %u runs of layers like \"0-9,20-31\"",
                           LH_CACHED_RUNS_MAX);
    }
}

static void read_kv(const lh_json_reader *r, lh_worker_report *report) {
    lh_json_reader inner;
    if (!lh_json_read_object(r, "kv", true, &inner))
        return;
    report->kv.present = true;
    report->kv.pages_total = read_u32(&inner, "pages_total", 0);
    report->kv.pages_free = read_u32(&inner, "pages_free", 0);
    report->kv.page_positions = read_u32(&inner, "page_positions", 1);
    report->kv.page_bytes = read_count(&inner, "page_bytes");
    report->kv.sequences = read_u32(&inner, "sequences", 0);
    /* absent where the worker does not know of it */
    if (lh_json_is_present(&inner, "epoch"))
        report->kv.epoch = read_u32(&inner, "epoch", 0);
}

static void read_steps(const lh_json_reader *r, lh_worker_report *report) {
    lh_json_reader inner;
    if (!lh_json_read_object(r, "steps", false, &inner))
        return;
    report->steps.active = read_count(&inner, "active");
    report->steps.done = read_count(&inner, "done");
    report->steps.failed = read_count(&inner, "failed");
}

/* Whom it relays to; absent where it does not relay. */
static void read_reaches(const lh_json_reader *r, lh_worker_report *report) {
    report->is_behind_relay =
        lh_json_is_there(r, "behind_relay") && lh_json_read_bool(r, "behind_relay");
    report->relays = lh_json_is_there(r, "reaches");
    if (report->relays && report->is_behind_relay)
        lh_json_refuse(r, "behind_relay", "false where it relays to others");
    size_t count = report->relays ? lh_json_read_array(r, "reaches", LH_RELAY_REACHES_MAX) : 0;
    for (size_t i = 0; i < count; i++) {
        const lh_json_reader inner = lh_json_element(r, "reaches", i);
        lh_relay_reach *reach = &report->reaches[i];
        lh_json_read_name(&inner, "name", reach->name);
        lh_hop_profile_read(&inner, "hop", &reach->hop);
        if (lh_json_is_there(&inner, "error"))
            lh_json_read_text(&inner, "error", reach->error, sizeof reach->error);
    }
    report->reach_count = (uint32_t)count;
}

static void read_report(const lh_json_reader *r, lh_worker_report *report) {
    char instance[17];
    lh_json_read_hex(r, "instance", instance, sizeof instance - 1);
    report->instance = strtoull(instance, NULL, 16);
    lh_json_read_name(r, "site", report->site);
    if (lh_json_is_there(r, "trust"))
        lh_json_read_hex(r, "trust", report->trust_sha256, sizeof report->trust_sha256 - 1);
    lh_json_read_text(r, "version", report->version, sizeof report->version);
    lh_json_read_text(r, "isa", report->isa, sizeof report->isa);
    report->threads = (uint32_t)lh_json_read_integer(r, "threads", 1, 65536);
    report->memory_bytes = (uint64_t)lh_json_read_integer(r, "memory_bytes", 1, INT64_MAX);
    report->kv_bytes = read_count(r, "kv_bytes");
    report->slowdown =
        lh_json_is_present(r, "slowdown") ? lh_json_read_number(r, "slowdown", 1, SLOWDOWN_MAX) : 1;
    report->leaving = lh_json_read_bool(r, "leaving");
    read_addresses(r, report);
    read_assignment(r, report);
    read_prepared(r, report);
    read_loaded(r, report);
    read_cached(r, report);
    lh_machine_speed_read(r, "speed", &report->speed);
    lh_compute_profile_read(r, "compute", &report->compute);
    lh_hop_profile_read(r, "next", &report->next);
    if (lh_json_is_there(r, "next_error"))
        lh_json_read_text(r, "next_error", report->next_error, sizeof report->next_error);
    read_trial(r, "trial", &report->trial);
    read_trial(r, "surveyed", &report->surveyed);
    read_reaches(r, report);
    read_kv(r, report);
    read_steps(r, report);
    lh_host_facts_take(r, "host", &report->host);
}

lh_status lh_control_json_parse_report(const char *name, const char *bytes, size_t length,
                                       lh_worker_report *report, lh_error *error) {
    lh_json_document document = {.name = "the worker's report", .refusal = LH_ERR_INVALID};
    lh_json_reader r;
    *report = (lh_worker_report){0};
    lh_status status = lh_json_document_open(&document, bytes, length, error, &r);
    if (status != LH_OK)
        return status;
    int64_t protocol = lh_json_read_integer(&r, "protocol", INT64_MIN, INT64_MAX);
    if (!lh_name_is_valid(name)) {
        document.status =
            lh_fail(error, LH_ERR_INVALID, "a worker's name is 1 to 63 of [A-Za-z0-9._-]");
    } else if (lh_json_is_good(&r) && protocol != LH_CONTROL_PROTOCOL_VERSION) {
        document.status =
            lh_fail(error, LH_ERR_UNSUPPORTED,
                    "the worker speaks version %lld of the control protocol, this gateway "
                    "(" LONGHAUL_VERSION ") version %d: use the same release on both",
                    (long long)protocol, LH_CONTROL_PROTOCOL_VERSION);
    } else if (lh_json_is_good(&r)) {
        memcpy(report->name, name, strlen(name) + 1);
        read_report(&r, report);
    }
    return lh_json_document_close(&document);
}

/* ---- Answers out ---- */

/* Every builder below gives NULL when out of memory and takes NULL for that, so that only the end
 * needs a look. */
static char *render(json_t *value) {
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    return text;
}

static json_t *render_model(const lh_fleet_model *model) {
    return json_pack("{s:s, s:I, s:I, s:s, s:s, s:s}", "name", model->name, "file_bytes",
                     (json_int_t)lh_model_file_size(model->file), "header_bytes",
                     (json_int_t)lh_model_file_header_bytes(model->file), "header_sha256",
                     lh_model_file_header_sha256(model->file), "weights_url", model->weights_path,
                     "tensors_url", model->tensors_path);
}

static json_t *render_stage(const lh_chain_stage *stage, const lh_fleet_options *options,
                            const lh_fleet_model *model) {
    return json_pack("{s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:s, s:s}", "model",
                     render_model(model), "first_layer", (int)stage->first_layer, "last_layer",
                     (int)stage->last_layer, "layers", (int)options->model->layers, "context",
                     (int)options->context, "rows_max", (int)options->rows_max, "steps_max",
                     (int)LH_WORKER_BUFFERS, "activations", options->has_q16 ? "q16" : "q8",
                     "gpu_math", options->has_fast_math ? "fast" : "exact", "kv_type",
                     options->kv_type, "wire", lh_wire_name(stage->wire));
}

/* Takes both over. */
static json_t *merge(json_t *object, json_t *more) {
    if (json_object_update_new(object, more) == 0)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *render_next(const lh_assignment *a) {
    if (!a->has_next)
        return json_pack("{s:b}", "gateway", 1);
    return json_pack("{s:b, s:s, s:s, s:b, s:s*}", "gateway", 0, "name", a->next.name, "address",
                     a->next.address, "tls", (int)a->next.tls, "relay",
                     a->next.relay[0] ? a->next.relay : NULL);
}

/* NULL: the stage is one worker's, or there is no memory. */
static json_t *render_team(const lh_assignment *a) {
    const lh_chain_team *team = &a->stage.team;
    char secret[LH_SHA256_HEX_BYTES];
    json_t *members = team->follower_count > 0 ? json_array() : NULL;
    for (uint32_t i = 0; i <= team->follower_count && members; i++)
        members = lh_json_append(
            members, json_pack("{s:s, s:s, s:i}", "name",
                               i == 0 ? a->stage.name : team->followers[i - 1].name, "address",
                               a->member_addresses[i], "weight", (int)team->weights[i]));
    if (!members)
        return NULL;
    lh_sha256_render(team->secret, secret);
    return json_pack("{s:i, s:I, s:s, s:o}", "own", (int)a->member, "epoch",
                     (json_int_t)team->epoch, "secret", secret, "members", members);
}

static json_t *render_assignment(const lh_fleet_answer *answer, const lh_fleet_model *model) {
    const lh_assignment *a = &answer->assignment;
    if (!answer->has_assignment)
        return json_null();
    const char *relay = a->stage.relay[0] ? a->stage.relay : NULL;
    return merge(json_pack("{s:I, s:s, s:I, s:I, s:s?, s:s*, s:o, s:o*}", "generation",
                           (json_int_t)a->epoch, "chain", a->chain, "epoch", (json_int_t)a->epoch,
                           "kv_epoch", (json_int_t)a->stage.kv_epoch, "previous", a->previous,
                           "previous_relay", relay, "next", render_next(a), "team", render_team(a)),
                 render_stage(&a->stage, answer->options, model));
}

static json_t *render_prepare(const lh_fleet_answer *answer, const lh_fleet_model *model) {
    const lh_assignment *a = &answer->prepare;
    if (!answer->has_prepare)
        return json_null();
    json_t *rate = answer->prepare_bytes_per_s > 0
                       ? json_integer((json_int_t)answer->prepare_bytes_per_s)
                       : NULL;
    return merge(render_stage(&a->stage, answer->options, model),
                 json_pack("{s:s, s:b, s:o*, s:o*}", "chain", a->chain, "hold",
                           (int)answer->prepare_holds, "team", render_team(a), "bytes_per_s",
                           rate));
}

static json_t *render_trial(const lh_fleet_answer *answer) {
    const lh_assignment *trial = &answer->trial;
    if (!answer->has_trial)
        return json_null();
    return json_pack("{s:s, s:i, s:s, s:o}", "chain", trial->chain, "width",
                     (int)answer->options->model->width, "wire", lh_wire_name(trial->stage.wire),
                     "next", render_next(trial));
}

static json_t *render_survey(const lh_fleet_answer *answer) {
    const lh_survey_task *survey = &answer->survey;
    if (!answer->has_survey)
        return json_null();
    if (survey->to[0] == '\0')
        return json_pack("{s:I, s:{s:b}}", "bytes_max", (json_int_t)survey->bytes_max, "next",
                         "gateway", 1);
    return json_pack("{s:I, s:{s:b, s:s, s:s, s:b}}", "bytes_max", (json_int_t)survey->bytes_max,
                     "next", "gateway", 0, "name", survey->to, "address", survey->address, "tls",
                     (int)survey->tls);
}

static json_t *render_relayed(const lh_fleet_answer *answer) {
    json_t *workers = answer->relayed_count > 0 ? json_array() : json_null();
    for (uint32_t i = 0; i < answer->relayed_count; i++) {
        const lh_relayed_worker *worker = &answer->relayed[i];
        workers =
            lh_json_append(workers, json_pack("{s:s, s:s, s:b}", "name", worker->name, "address",
                                              worker->address, "tls", (int)worker->tls));
    }
    return workers;
}

static json_t *render_leave(const lh_fleet_answer *answer) {
    if (!answer->is_leaving)
        return json_null();
    return json_pack("{s:b, s:s}", "may_go", (int)answer->may_go, "reason", answer->leave_reason);
}

char *lh_control_json_render_answer(const lh_fleet_answer *answer, const lh_fleet_model *model) {
    return render(json_pack(
        "{s:I, s:I, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:s?}", "renew_ms",
        (json_int_t)(answer->renew_us / 1000), "lease_ms", (json_int_t)(answer->lease_us / 1000),
        "planned", (int)answer->is_planned, "urgent", (int)answer->is_urgent, "assignment",
        render_assignment(answer, model), "prepare", render_prepare(answer, model), "try",
        render_trial(answer), "survey", render_survey(answer), "relay", render_relayed(answer),
        "leave", render_leave(answer), "trust", answer->trust_sha256));
}

/* "NAME": what `digest_of` gives, for each tensor. */
static json_t *render_digests(const lh_model_file *file,
                              const uint8_t *(*digest_of)(const lh_model_file *, size_t)) {
    const lh_gguf *gguf = lh_model_file_gguf(file);
    json_t *tensors = json_object();
    for (size_t i = 0; tensors && i < lh_gguf_tensor_count(gguf); i++) {
        const lh_gguf_tensor *tensor = lh_gguf_tensor_at(gguf, i);
        char hex[LH_SHA256_HEX_BYTES];
        char *name = strndup(tensor->name.bytes, tensor->name.length);
        lh_sha256_render(digest_of(file, i), hex);
        if (!name || json_object_set_new(tensors, name, json_string(hex)) != 0) {
            json_decref(tensors);
            tensors = NULL;
        }
        free(name);
    }
    return tensors;
}

char *lh_control_json_render_tensors(const lh_fleet_model *model) {
    json_t *blocks = json_pack("{s:i, s:s, s:s, s:o}", "rows", (int)LH_TENSOR_BLOCK_ROWS, "url",
                               model->blocks_path, "pieces_url", model->pieces_path, "sha256",
                               render_digests(model->file, lh_model_file_blocks_digest));
    return render(json_pack("{s:o, s:o}", "tensors",
                            render_digests(model->file, lh_model_file_tensor_digest), "blocks",
                            blocks));
}
