/* JSON in and out of the control plane. */
#include "gateway/fleet/fleet_json.h"

#include "gateway/http/json_body.h"
#include "worker/api/measurements_json.h"
#include "worker/api/wire_type.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Above that nobody measures anything. */
#define SLOWDOWN_MAX 1000

bool lh_fleet_json_is_name(const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = strlen(text);
    return length > 0 && length < LH_WORKER_NAME_BYTES && strspn(text, letters) == length;
}

/* ---- A report in
 * ------------------------------------------------------------------------------------------------- */

/* Where a field is looked for; `status` stays LH_OK until the first one that is wrong. */
typedef struct reader {
    const json_t *object;
    const char *path; /* "kv." */
    lh_status status;
    lh_error *error;
} reader;

static void refuse(reader *r, const char *field, const char *wanted) {
    if (r->status == LH_OK)
        r->status =
            lh_fail(r->error, LH_ERR_INVALID, "the worker's report: %s%s must be %s", r->path, field, wanted);
}

static uint64_t read_number(reader *r, const char *field, uint64_t minimum, uint64_t maximum) {
    const json_t *value = json_object_get(r->object, field);
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    if (number < 0 || (uint64_t)number < minimum || (uint64_t)number > maximum) {
        char wanted[80];
        snprintf(wanted, sizeof wanted, "an integer in %llu..%llu", (unsigned long long)minimum,
                 (unsigned long long)maximum);
        refuse(r, field, wanted);
        return minimum;
    }
    return (uint64_t)number;
}

static bool read_bool(reader *r, const char *field) {
    const json_t *value = json_object_get(r->object, field);
    if (!json_is_boolean(value))
        refuse(r, field, "true or false");
    return json_is_true(value);
}

/* Printable text of less than `capacity` bytes. */
static void read_text(reader *r, const char *field, char *text, size_t capacity) {
    const json_t *value = json_object_get(r->object, field);
    const char *string = json_string_value(value);
    size_t length = string ? json_string_length(value) : capacity;
    if (length >= capacity || strlen(string) != length) {
        char wanted[40];
        snprintf(wanted, sizeof wanted, "a text of at most %zu bytes", capacity - 1);
        refuse(r, field, wanted);
        return;
    }
    for (size_t i = 0; i < length; i++)
        text[i] = (unsigned char)string[i] < 0x20 || string[i] == 0x7f ? '?' : string[i];
    text[length] = 0;
}

static void read_name(reader *r, const char *field, char name[LH_WORKER_NAME_BYTES]) {
    read_text(r, field, name, LH_WORKER_NAME_BYTES);
    if (r->status == LH_OK && !lh_fleet_json_is_name(name))
        refuse(r, field, "1 to 63 of [A-Za-z0-9._-]");
}

/* "host:port", or null: "". */
static void read_address(reader *r, const char *field, char *address) {
    if (json_is_null(json_object_get(r->object, field)))
        return;
    read_text(r, field, address, LH_ADDRESS_BYTES);
    const char *colon = strrchr(address, ':');
    char *end = NULL;
    unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
    if (r->status == LH_OK &&
        (port == 0 || port > 65535 || *end || colon == address || strpbrk(address, " /@?#")))
        refuse(r, field, "\"host:port\" or null");
}

/* 1 where it is not there. */
static double read_slowdown(reader *r) {
    const json_t *value = json_object_get(r->object, "slowdown");
    double factor = value ? json_number_value(value) : 1;
    if (factor >= 1 && factor <= SLOWDOWN_MAX)
        return factor;
    refuse(r, "slowdown", "a number from 1 to 1000");
    return 1;
}

static uint64_t read_hex(reader *r, const char *field) {
    const char *text = json_string_value(json_object_get(r->object, field));
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) {
        refuse(r, field, "16 lower-case hex digits");
        return 0;
    }
    return strtoull(text, NULL, 16);
}

/* The object of this name; an optional one may be null. */
static bool enter(const reader *outer, const char *field, const char *path, bool is_optional, reader *inner) {
    const json_t *value = json_object_get(outer->object, field);
    *inner = (reader){value, path, outer->status, outer->error};
    if (json_is_object(value))
        return true;
    if (!is_optional || !json_is_null(value))
        refuse(inner, field, is_optional ? "an object or null" : "an object");
    return false;
}

static void leave(reader *outer, const reader *inner) {
    outer->status = inner->status;
}

static void read_addresses(reader *r, lh_worker_report *report) {
    reader inner;
    if (enter(r, "addresses", "addresses.", false, &inner)) {
        read_address(&inner, "tls", report->tls_address);
        read_address(&inner, "plain", report->plain_address);
        if (inner.status == LH_OK && !report->tls_address[0] && !report->plain_address[0])
            refuse(&inner, "plain", "there where tls is null");
    } else {
        inner.path = "";
    }
    leave(r, &inner);
}

static lh_worker_stage_state read_stage_state(reader *r) {
    const char *text = json_string_value(json_object_get(r->object, "state"));
    for (lh_worker_stage_state state = LH_WORKER_FETCHING; text && state <= LH_WORKER_FAILED; state++)
        if (strcmp(text, lh_worker_stage_state_name(state)) == 0)
            return state;
    refuse(r, "state", "fetching, loading, ready or failed");
    return LH_WORKER_IDLE;
}

static void read_assignment(reader *r, lh_worker_report *report) {
    reader inner;
    if (enter(r, "assignment", "assignment.", true, &inner)) {
        report->assignment.state = read_stage_state(&inner);
        report->assignment.generation = read_number(&inner, "generation", 0, INT64_MAX);
        report->assignment.done_bytes = read_number(&inner, "done_bytes", 0, INT64_MAX);
        report->assignment.total_bytes = read_number(&inner, "total_bytes", 0, INT64_MAX);
        if (!json_is_null(json_object_get(inner.object, "error")))
            read_text(&inner, "error", report->assignment.error, sizeof report->assignment.error);
    }
    leave(r, &inner);
}

/* Absent where the worker does not know of it. */
static void read_prepared(reader *r, lh_worker_report *report) {
    reader inner;
    if (!json_object_get(r->object, "prepared"))
        return;
    if (enter(r, "prepared", "prepared.", true, &inner)) {
        report->prepared.state = read_stage_state(&inner);
        report->prepared.first_layer = (uint32_t)read_number(&inner, "first_layer", 0, UINT32_MAX);
        report->prepared.last_layer = (uint32_t)read_number(&inner, "last_layer", 0, UINT32_MAX);
        report->prepared.holds = read_bool(&inner, "hold");
        report->prepared.done_bytes = read_number(&inner, "done_bytes", 0, INT64_MAX);
        report->prepared.total_bytes = read_number(&inner, "total_bytes", 0, INT64_MAX);
        read_text(&inner, "error", report->prepared.error, sizeof report->prepared.error);
    }
    leave(r, &inner);
}

/* Absent where the worker does not know of it. */
static void read_loaded(reader *r, lh_worker_report *report) {
    reader inner;
    if (!json_object_get(r->object, "loaded"))
        return;
    report->loaded.present = enter(r, "loaded", "loaded.", true, &inner);
    if (report->loaded.present) {
        report->loaded.first_layer = (uint32_t)read_number(&inner, "first_layer", 0, UINT32_MAX);
        report->loaded.last_layer = (uint32_t)read_number(&inner, "last_layer", 0, UINT32_MAX);
        read_text(&inner, "model", report->loaded.model, sizeof report->loaded.model);
    }
    leave(r, &inner);
}

static void read_measurements(reader *r, lh_worker_report *report) {
    if (r->status == LH_OK)
        r->status =
            lh_machine_speed_parse(json_object_get(r->object, "speed"), "speed.", &report->speed, r->error);
    if (r->status == LH_OK)
        r->status = lh_compute_profile_parse(json_object_get(r->object, "compute"), "compute.",
                                             &report->compute, r->error);
    if (r->status == LH_OK)
        r->status =
            lh_hop_profile_parse(json_object_get(r->object, "next"), "next.", &report->next, r->error);
}

static void read_kv(reader *r, lh_worker_report *report) {
    reader inner;
    report->kv.present = enter(r, "kv", "kv.", true, &inner);
    if (report->kv.present) {
        report->kv.pages_total = read_number(&inner, "pages_total", 0, UINT32_MAX);
        report->kv.pages_free = read_number(&inner, "pages_free", 0, UINT32_MAX);
        report->kv.page_positions = (uint32_t)read_number(&inner, "page_positions", 1, UINT32_MAX);
        report->kv.page_bytes = read_number(&inner, "page_bytes", 0, INT64_MAX);
        report->kv.sequences = (uint32_t)read_number(&inner, "sequences", 0, UINT32_MAX);
        if (json_object_get(inner.object, "epoch")) /* absent where the worker does not know of it */
            report->kv.epoch = (uint32_t)read_number(&inner, "epoch", 0, UINT32_MAX);
    }
    leave(r, &inner);
}

static void read_steps(reader *r, lh_worker_report *report) {
    reader inner;
    if (enter(r, "steps", "steps.", false, &inner)) {
        report->steps.active = read_number(&inner, "active", 0, INT64_MAX);
        report->steps.done = read_number(&inner, "done", 0, INT64_MAX);
        report->steps.failed = read_number(&inner, "failed", 0, INT64_MAX);
    }
    leave(r, &inner);
}

static lh_status check_protocol(const json_t *body, lh_error *error) {
    const json_t *value = json_object_get(body, "protocol");
    if (!json_is_integer(value))
        return lh_fail(error, LH_ERR_INVALID, "the worker's report: protocol must be an integer");
    if (json_integer_value(value) != LH_CONTROL_PROTOCOL_VERSION)
        return lh_fail(
            error, LH_ERR_UNSUPPORTED,
            "the worker speaks version %lld of the control protocol, this gateway (" LONGHAUL_VERSION
            ") version %d: use the same release on both",
            (long long)json_integer_value(value), LH_CONTROL_PROTOCOL_VERSION);
    return LH_OK;
}

lh_status lh_fleet_json_parse_report(const char *name, const char *bytes, size_t length,
                                     lh_worker_report *report, lh_error *error) {
    lh_openai_error refusal;
    json_t *body = lh_json_body_parse(bytes, length, &refusal);
    if (!body)
        return lh_fail(error, refusal.status == 400 ? LH_ERR_MALFORMED : LH_ERR_NO_MEMORY,
                       "the worker's report: %s", refusal.message);
    reader r = {body, "", check_protocol(body, error), error};
    *report = (lh_worker_report){0};
    if (!lh_fleet_json_is_name(name))
        r.status = lh_fail(error, LH_ERR_INVALID, "a worker's name is 1 to 63 of [A-Za-z0-9._-]");
    if (r.status == LH_OK) {
        memcpy(report->name, name, strlen(name) + 1);
        report->instance = read_hex(&r, "instance");
        read_name(&r, "site", report->site);
        read_text(&r, "version", report->version, sizeof report->version);
        read_text(&r, "isa", report->isa, sizeof report->isa);
        report->threads = (uint32_t)read_number(&r, "threads", 1, 65536);
        report->memory_bytes = read_number(&r, "memory_bytes", 1, INT64_MAX);
        report->kv_bytes = read_number(&r, "kv_bytes", 0, INT64_MAX);
        report->slowdown = read_slowdown(&r);
        report->leaving = read_bool(&r, "leaving");
        read_addresses(&r, report);
        read_assignment(&r, report);
        read_prepared(&r, report);
        read_loaded(&r, report);
        read_measurements(&r, report);
        read_kv(&r, report);
        read_steps(&r, report);
    }
    json_decref(body);
    return r.status;
}

/* ---- Answers out
 * ------------------------------------------------------------------------------------------------- */

/* Every builder below gives NULL when out of memory and takes NULL for that, so that only the end needs a
 * look. */
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

static json_t *render_next(const lh_chain_stage *next) {
    if (!next)
        return json_pack("{s:b}", "gateway", 1);
    return json_pack("{s:b, s:s, s:s, s:b}", "gateway", 0, "name", next->name, "address", next->address,
                     "tls", (int)next->tls);
}

static const char *activations_name(const lh_assignment *a) {
    return a->has_q16 ? "q16" : "q8";
}

static json_t *render_assignment(const lh_assignment *a, const lh_fleet_model *model) {
    return json_pack("{s:I, s:s, s:I, s:I, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:o}", "generation",
                     (json_int_t)a->epoch, "chain", a->chain, "epoch", (json_int_t)a->epoch, "kv_epoch",
                     (json_int_t)a->kv_epoch, "model", render_model(model), "first_layer",
                     (int)a->first_layer, "last_layer", (int)a->last_layer, "layers", (int)a->layers,
                     "context", (int)a->context, "rows_max", (int)a->rows_max, "steps_max", (int)a->steps_max,
                     "activations", activations_name(a), "wire", lh_wire_name(a->wire), "next",
                     render_next(a->next));
}

static json_t *render_prepare(const lh_fleet_answer *answer, const lh_fleet_model *model) {
    const lh_assignment *a = &answer->prepare;
    if (!answer->has_prepare)
        return json_null();
    return json_pack("{s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:b}", "model", render_model(model),
                     "first_layer", (int)a->first_layer, "last_layer", (int)a->last_layer, "layers",
                     (int)a->layers, "context", (int)a->context, "rows_max", (int)a->rows_max, "steps_max",
                     (int)a->steps_max, "activations", activations_name(a), "wire", lh_wire_name(a->wire),
                     "hold", (int)answer->prepare_holds);
}

static json_t *render_leave(const lh_fleet_answer *answer) {
    if (!answer->is_leaving)
        return json_null();
    return json_pack("{s:b, s:s}", "may_go", (int)answer->may_go, "reason", answer->leave_reason);
}

char *lh_fleet_json_render_answer(const lh_fleet_answer *answer, const lh_fleet_model *model) {
    json_t *assignment = answer->has_assignment ? render_assignment(&answer->assignment, model) : json_null();
    return render(json_pack("{s:I, s:I, s:b, s:b, s:o, s:o, s:o}", "renew_ms",
                            (json_int_t)(answer->renew_us / 1000), "lease_ms",
                            (json_int_t)(answer->lease_us / 1000), "planned", (int)answer->is_planned,
                            "urgent", (int)answer->is_urgent, "assignment", assignment, "prepare",
                            render_prepare(answer, model), "leave", render_leave(answer)));
}

char *lh_fleet_json_render_tensors(const lh_model_file *file) {
    const lh_gguf *gguf = lh_model_file_gguf(file);
    json_t *tensors = json_object();
    for (size_t i = 0; tensors && i < lh_gguf_tensor_count(gguf); i++) {
        const lh_gguf_tensor *tensor = lh_gguf_tensor_at(gguf, i);
        char hex[LH_SHA256_HEX_BYTES];
        char *name = strndup(tensor->name.bytes, tensor->name.length);
        lh_sha256_render(lh_model_file_tensor_digest(file, i), hex);
        if (!name || json_object_set_new(tensors, name, json_string(hex)) != 0) {
            json_decref(tensors);
            tensors = NULL;
        }
        free(name);
    }
    return render(json_pack("{s:o}", "tensors", tensors));
}
