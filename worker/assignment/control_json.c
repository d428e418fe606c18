/* Reports to JSON, answers from JSON: each field is checked for type and range before it is believed. */
#include "worker/assignment/control_json.h"

#include "worker/api/measurements_json.h"
#include "worker/api/wire_type.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Far above any real one, far below where sums overflow. */
#define FILE_BYTES_MAX  ((int64_t)1 << 50)
#define INTERVAL_MS_MAX 3600000
#define LAYERS_MAX      65536
#define CONTEXT_MAX     (1 << 24)
#define STEPS_MAX       1024

bool lh_control_name_is_valid(const char *name) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = strlen(name);
    return length > 0 && length < LH_WORKER_NAME_BYTES && strspn(name, allowed) == length;
}

bool lh_control_is_same_stage(const lh_control_assignment *a, const lh_control_assignment *b) {
    return strcmp(a->model.header_sha256, b->model.header_sha256) == 0 &&
           a->model.file_bytes == b->model.file_bytes && a->first_layer == b->first_layer &&
           a->last_layer == b->last_layer && a->layers == b->layers && a->context == b->context &&
           a->rows_max == b->rows_max && a->steps_max == b->steps_max && a->activations == b->activations;
}

/* ---- The report --------------------------------------------------------------------------------- */

static json_t *render_text(const char *text) {
    json_t *value = json_string(text);
    return value != NULL ? value : json_string("(a text that is not UTF-8)");
}

static json_t *text_or_null(const char *text) {
    return text[0] != '\0' ? render_text(text) : json_null();
}

/* JSON's integers are signed here; none of ours comes near the end. */
static json_int_t integer(uint64_t value) {
    return value > INT64_MAX ? INT64_MAX : (json_int_t)value;
}

static json_t *render_assignment(const lh_worker_report *report) {
    if (report->assignment.state == LH_WORKER_IDLE) {
        return json_null();
    }
    return json_pack("{s:I,s:s,s:I,s:I,s:o}", "generation", integer(report->assignment.generation), "state",
                     lh_worker_stage_state_name(report->assignment.state), "done_bytes",
                     integer(report->assignment.done_bytes), "total_bytes",
                     integer(report->assignment.total_bytes), "error", render_text(report->assignment.error));
}

static json_t *render_prepared(const lh_worker_report *report) {
    if (report->prepared.state == LH_WORKER_IDLE) {
        return json_null();
    }
    return json_pack("{s:I,s:I,s:b,s:s,s:I,s:I,s:o}", "first_layer", (json_int_t)report->prepared.first_layer,
                     "last_layer", (json_int_t)report->prepared.last_layer, "hold",
                     (int)report->prepared.holds, "state", lh_worker_stage_state_name(report->prepared.state),
                     "done_bytes", integer(report->prepared.done_bytes), "total_bytes",
                     integer(report->prepared.total_bytes), "error", render_text(report->prepared.error));
}

static json_t *render_loaded(const lh_worker_report *report) {
    if (!report->loaded.present) {
        return json_null();
    }
    return json_pack("{s:I,s:I,s:s}", "first_layer", (json_int_t)report->loaded.first_layer, "last_layer",
                     (json_int_t)report->loaded.last_layer, "model", report->loaded.model);
}

static json_t *render_kv(const lh_worker_report *report) {
    if (!report->kv.present) {
        return json_null();
    }
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I}", "pages_total", integer(report->kv.pages_total),
                     "pages_free", integer(report->kv.pages_free), "page_positions",
                     (json_int_t)report->kv.page_positions, "page_bytes", integer(report->kv.page_bytes),
                     "sequences", (json_int_t)report->kv.sequences, "epoch", (json_int_t)report->kv.epoch);
}

char *lh_control_report_render(const lh_worker_report *report) {
    char instance[17];
    for (int i = 0; i < 16; i++) {
        instance[i] = "0123456789abcdef"[report->instance >> (60 - 4 * i) & 15u];
    }
    instance[16] = '\0';
    json_t *root = json_pack(
        "{s:i,s:s,s:o,s:o,s:o,s:I,s:{s:o,s:o},s:I,s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:{s:I,s:I,s:I},s:b}",
        "protocol", LH_CONTROL_PROTOCOL_VERSION, "instance", instance, "site", text_or_null(report->site),
        "version", text_or_null(report->version), "isa", text_or_null(report->isa), "threads",
        (json_int_t)report->threads, "addresses", "tls", text_or_null(report->tls_address), "plain",
        text_or_null(report->plain_address), "memory_bytes", integer(report->memory_bytes), "kv_bytes",
        integer(report->kv_bytes), "speed", lh_machine_speed_render(&report->speed), "assignment",
        render_assignment(report), "prepared", render_prepared(report), "loaded", render_loaded(report),
        "compute", lh_compute_profile_render(&report->compute), "next", lh_hop_profile_render(&report->next),
        "kv", render_kv(report), "steps", "active", integer(report->steps.active), "done",
        integer(report->steps.done), "failed", integer(report->steps.failed), "leaving",
        (int)report->leaving);
    if (root != NULL && report->slowdown > 1 &&
        json_object_set_new(root, "slowdown", json_real(report->slowdown)) != 0) {
        json_decref(root);
        root = NULL;
    }
    if (root == NULL) {
        return NULL;
    }
    char *text = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(root);
    return text;
}

/* ---- The answer --------------------------------------------------------------------------------- */

/* A walk over one object's fields; the first failure stays. */
typedef struct fields {
    const json_t *object;
    const char *path; /* "assignment.model" */
    lh_status status;
    lh_error *error;
} fields;

static void refuse(fields *f, const char *name, const char *wanted) {
    if (f->status == LH_OK) {
        f->status = lh_fail(f->error, LH_ERR_MALFORMED, "the gateway's answer: %s%s%s is not %s", f->path,
                            f->path[0] != '\0' ? "." : "", name, wanted);
    }
}

static int64_t get_integer(fields *f, const char *name, int64_t minimum, int64_t maximum) {
    const json_t *value = json_object_get(f->object, name);
    if (!json_is_integer(value) || json_integer_value(value) < minimum ||
        json_integer_value(value) > maximum) {
        refuse(f, name, "a whole number in its range");
        return minimum;
    }
    return json_integer_value(value);
}

static uint32_t get_u32(fields *f, const char *name, uint32_t minimum, uint32_t maximum) {
    return (uint32_t)get_integer(f, name, minimum, maximum);
}

static bool get_bool(fields *f, const char *name) {
    const json_t *value = json_object_get(f->object, name);
    if (!json_is_boolean(value)) {
        refuse(f, name, "true or false");
    }
    return json_is_true(value);
}

/* A text of 1 to capacity - 1 bytes without control characters. */
static void get_text(fields *f, const char *name, char *text, size_t capacity) {
    const char *value = json_string_value(json_object_get(f->object, name));
    size_t length = value != NULL ? strlen(value) : 0;
    bool good = length > 0 && length < capacity;
    for (size_t i = 0; i < length && good; i++) {
        good = (unsigned char)value[i] >= 0x20 && value[i] != 0x7f;
    }
    if (!good) {
        refuse(f, name, "a text of fitting length");
        return;
    }
    memcpy(text, value, length + 1);
}

static void get_name(fields *f, const char *name, char text[LH_WORKER_NAME_BYTES]) {
    get_text(f, name, text, LH_WORKER_NAME_BYTES);
    if (f->status == LH_OK && !lh_control_name_is_valid(text)) {
        refuse(f, name, "a name of A-Z a-z 0-9 . _ -");
    }
}

static fields get_object(const fields *parent, const char *name, const char *path) {
    fields child = {.object = json_object_get(parent->object, name),
                    .path = path,
                    .status = parent->status,
                    .error = parent->error};
    if (!json_is_object(child.object)) {
        child.path = parent->path;
        refuse(&child, name, "an object");
    }
    return child;
}

static lh_status parse_model(const fields *parent, const char *path, lh_control_model *model) {
    fields f = get_object(parent, "model", path);
    get_text(&f, "name", model->name, sizeof(model->name));
    model->file_bytes = (uint64_t)get_integer(&f, "file_bytes", 1, FILE_BYTES_MAX);
    model->header_bytes = (uint64_t)get_integer(&f, "header_bytes", 1, FILE_BYTES_MAX);
    get_text(&f, "header_sha256", model->header_sha256, sizeof(model->header_sha256));
    if (f.status == LH_OK &&
        (strlen(model->header_sha256) != 64 || strspn(model->header_sha256, "0123456789abcdef") != 64)) {
        refuse(&f, "header_sha256", "64 hex digits");
    }
    if (f.status == LH_OK && model->header_bytes > model->file_bytes) {
        refuse(&f, "header_bytes", "at most file_bytes");
    }
    get_text(&f, "weights_url", model->weights_url, sizeof(model->weights_url));
    get_text(&f, "tensors_url", model->tensors_url, sizeof(model->tensors_url));
    return f.status;
}

static lh_status parse_next(const fields *parent, lh_control_assignment *assignment) {
    fields f = get_object(parent, "next", "assignment.next");
    assignment->next_is_gateway = get_bool(&f, "gateway");
    if (f.status == LH_OK && !assignment->next_is_gateway) {
        get_name(&f, "name", assignment->next_name);
        get_text(&f, "address", assignment->next_address, sizeof(assignment->next_address));
        assignment->next_tls = get_bool(&f, "tls");
    }
    return f.status;
}

static void parse_wire(fields *f, lh_control_assignment *assignment) {
    const char *wire = json_string_value(json_object_get(f->object, "wire"));
    if (wire == NULL || !lh_wire_parse(wire, &assignment->wire)) {
        refuse(f, "wire", "\"f32\", \"f16\" or \"q8\"");
    }
}

static void parse_activations(fields *f, lh_control_assignment *assignment) {
    const char *activations = json_string_value(json_object_get(f->object, "activations"));
    if (activations == NULL || !lh_activation_kind_parse(activations, &assignment->activations)) {
        refuse(f, "activations", "\"q8\" or \"q16\"");
    }
}

/* What an assignment and a stage to be prepared have in common. */
static void parse_stage(fields *f, const char *model_path, lh_control_assignment *assignment) {
    assignment->layers = get_u32(f, "layers", 1, LAYERS_MAX);
    assignment->last_layer = get_u32(f, "last_layer", 1, LAYERS_MAX);
    assignment->first_layer = get_u32(f, "first_layer", 0, LAYERS_MAX);
    if (f->status == LH_OK &&
        (assignment->last_layer > assignment->layers || assignment->first_layer >= assignment->last_layer)) {
        refuse(f, "first_layer", "before last_layer, within layers");
    }
    assignment->context = get_u32(f, "context", 1, CONTEXT_MAX);
    assignment->rows_max = get_u32(f, "rows_max", 1, LH_STEP_ROWS_MAX);
    assignment->steps_max = get_u32(f, "steps_max", 1, STEPS_MAX);
    parse_wire(f, assignment);
    parse_activations(f, assignment);
    if (f->status == LH_OK) {
        f->status = parse_model(f, model_path, &assignment->model);
    }
}

/* Some fields may be null, and are not there in the answers of a gateway that does not know them. */
static bool is_there(const fields *parent, const char *name) {
    const json_t *value = json_object_get(parent->object, name);
    return value != NULL && !json_is_null(value);
}

static lh_status parse_assignment(const fields *parent, lh_control_assignment *assignment) {
    fields f = get_object(parent, "assignment", "assignment");
    assignment->generation = (uint64_t)get_integer(&f, "generation", 0, INT64_MAX);
    get_name(&f, "chain", assignment->chain);
    assignment->epoch = get_u32(&f, "epoch", 0, UINT32_MAX);
    assignment->kv_epoch = is_there(&f, "kv_epoch") ? get_u32(&f, "kv_epoch", 0, UINT32_MAX) : 0;
    parse_stage(&f, "assignment.model", assignment);
    return f.status == LH_OK ? parse_next(&f, assignment) : f.status;
}

static void parse_prepare(fields *parent, lh_control_answer *answer) {
    answer->has_prepare = is_there(parent, "prepare");
    if (parent->status != LH_OK || !answer->has_prepare) {
        return;
    }
    fields f = get_object(parent, "prepare", "prepare");
    answer->prepare_holds = get_bool(&f, "hold");
    parse_stage(&f, "prepare.model", &answer->prepare);
    parent->status = f.status;
}

static void parse_leave(fields *parent, lh_control_answer *answer) {
    answer->has_leave = is_there(parent, "leave");
    if (parent->status != LH_OK || !answer->has_leave) {
        return;
    }
    fields f = get_object(parent, "leave", "leave");
    answer->may_go = get_bool(&f, "may_go");
    get_text(&f, "reason", answer->leave_reason, sizeof(answer->leave_reason));
    parent->status = f.status;
}

static lh_status parse_root(const json_t *root, lh_control_answer *answer, lh_error *error) {
    fields f = {.object = root, .path = "", .status = LH_OK, .error = error};
    if (!json_is_object(root)) {
        return lh_fail(error, LH_ERR_MALFORMED, "the gateway's answer is not an object");
    }
    answer->renew_ms = get_integer(&f, "renew_ms", 1, INTERVAL_MS_MAX);
    answer->lease_ms = get_integer(&f, "lease_ms", 1, INTERVAL_MS_MAX);
    answer->is_planned = get_bool(&f, "planned");
    answer->is_urgent = is_there(&f, "urgent") && get_bool(&f, "urgent");
    const json_t *assignment = json_object_get(root, "assignment");
    if (assignment == NULL) {
        refuse(&f, "assignment", "there");
    }
    answer->has_assignment = !json_is_null(assignment);
    parse_prepare(&f, answer);
    parse_leave(&f, answer);
    if (f.status != LH_OK || !answer->has_assignment) {
        return f.status;
    }
    return parse_assignment(&f, &answer->assignment);
}

lh_status lh_control_answer_parse(const char *text, size_t length, lh_control_answer *answer,
                                  lh_error *error) {
    *answer = (lh_control_answer){0};
    json_error_t failure;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &failure);
    if (root == NULL) {
        return lh_fail(error, LH_ERR_MALFORMED, "the gateway's answer is not JSON: %.120s at byte %d",
                       failure.text, failure.position);
    }
    lh_status status = parse_root(root, answer, error);
    json_decref(root);
    return status;
}
