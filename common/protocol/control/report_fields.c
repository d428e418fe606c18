/* The table of a report. Most of its objects are not structs of their own but part of the report's,
 * so their fields are offsets into that (WITHIN). */
#include "common/protocol/control/report_fields.h"

#include "common/json/json_text.h"
#include "common/protocol/host_facts_json.h"
#include "common/protocol/measurement_fields.h"

#include <string.h>

#define SLOWDOWN_MAX 1000 /* no measurement is made with more */
#define THREADS_MAX  65536

#define OWNER lh_worker_report

#define FIELD(member, key, kind, flags) LH_JSON_FIELD(OWNER, member, key, kind, flags)
#define MEMBER(name)                    LH_JSON_MEMBER(OWNER, name)
#define MARKED_BY(name)                 .mark = offsetof(lh_worker_report, name)
#define RECORD_OF(table)                LH_JSON_RECORD(lh_worker_report, table)
#define WITHIN(its_record)              .kind = LH_JSON_OBJECT, .inner = &(its_record)

#define COUNT(name, its_key) .key = (its_key), .kind = LH_JSON_U64, .most = INT64_MAX, MEMBER(name)
#define U32(name, its_key)   .key = (its_key), .kind = LH_JSON_U32, .most = UINT32_MAX, MEMBER(name)

/* ---- Where it takes steps ---- */

static const lh_json_field address_fields[] = {
    {FIELD(tls_address, "tls", ADDRESS, LH_JSON_NULL | LH_JSON_AS_NULL),
     .meaning = "where it takes steps from other sites"},
    {FIELD(plain_address, "plain", ADDRESS, LH_JSON_NULL | LH_JSON_AS_NULL),
     .meaning = "where it takes steps from its own site; not null where `tls` is"},
    {FIELD(member_address, "members", ADDRESS, LH_JSON_OPTIONAL | LH_JSON_AS_NULL),
     .meaning = "where others connect that compute a stage with it"},
};

static void check_addresses(const lh_json_reader *reader, void *object) {
    const lh_worker_report *report = object;
    if (!report->tls_address[0] && !report->plain_address[0])
        lh_json_refuse(reader, "plain", "there where tls is null");
}

static const lh_json_record address_record = {RECORD_OF(address_fields), .check = check_addresses};

/* ---- Stages ---- */

static const char *name_of_stage_state(unsigned state) {
    return lh_worker_stage_state_name((lh_worker_stage_state)state);
}

#define STAGE_STATE(name)                                                                          \
    .key = "state", .kind = LH_JSON_CHOICE, .least = LH_WORKER_FETCHING, .most = LH_WORKER_FAILED, \
    .name_of = name_of_stage_state, .wanted = "fetching, loading, ready or failed", MEMBER(name)
#define OPTIONAL_BOOL(name, its_key)                                                               \
    .key = (its_key), .kind = LH_JSON_BOOL, .flags = LH_JSON_OPTIONAL, MEMBER(name)

static const lh_json_field assignment_fields[] = {
    {COUNT(assignment.generation, "generation"), .meaning = "that of the assignment"},
    {STAGE_STATE(assignment.state), .meaning = "what has become of it"},
    {COUNT(assignment.done_bytes, "done_bytes"), .meaning = "fetched or loaded so far"},
    {COUNT(assignment.total_bytes, "total_bytes"), .meaning = "to be fetched or loaded"},
    {OPTIONAL_BOOL(assignment.is_joining, "joining"),
     .meaning = "its part is in memory, and it waits for the others of its team"},
    {OPTIONAL_BOOL(assignment.is_final, "final"),
     .meaning = "what failed is that the worker can compute no stage of this model: it does not "
                "try again, and no chain of the model is planned with it until it has another "
                "`instance`"},
    {FIELD(assignment.error, "error", TEXT, LH_JSON_NULL), .meaning = "why it failed"},
};

static bool has_assignment(const void *report) {
    return ((const lh_worker_report *)report)->assignment.state != LH_WORKER_IDLE;
}

static const lh_json_record assignment_record = {RECORD_OF(assignment_fields),
                                                 .is_there = has_assignment};

static const lh_json_field prepared_fields[] = {
    {U32(prepared.first_layer, "first_layer"), .meaning = "as in `prepare`"},
    {U32(prepared.last_layer, "last_layer"), .meaning = "likewise"},
    {.key = "hold", .kind = LH_JSON_BOOL, MEMBER(prepared.holds), .meaning = "likewise"},
    {STAGE_STATE(prepared.state), .meaning = "`ready` when what was asked for is done"},
    {COUNT(prepared.done_bytes, "done_bytes"), .meaning = "as in `assignment`"},
    {COUNT(prepared.total_bytes, "total_bytes"), .meaning = "likewise"},
    {OPTIONAL_BOOL(prepared.is_joining, "joining"), .meaning = "likewise"},
    {OPTIONAL_BOOL(prepared.is_final, "final"), .meaning = "likewise"},
    {.key = "error", .kind = LH_JSON_TEXT, MEMBER(prepared.error), .meaning = "why it failed"},
    {FIELD(prepared.team_epoch, "team_epoch", U32, LH_JSON_OPTIONAL | LH_JSON_LEFT_OUT),
     LH_JSON_RANGE(0, UINT32_MAX), .meaning = "`epoch` of its `team`; absent where it has none"},
};

static bool has_prepared(const void *report) {
    return ((const lh_worker_report *)report)->prepared.state != LH_WORKER_IDLE;
}

static const lh_json_record prepared_record = {RECORD_OF(prepared_fields),
                                               .is_there = has_prepared};

static const lh_json_field loaded_fields[] = {
    {U32(loaded.first_layer, "first_layer"), .meaning = "its first layer"},
    {U32(loaded.last_layer, "last_layer"), .meaning = "the layer behind its last one"},
    {FIELD(loaded.model, "model", TEXT, 0), .meaning = "`header_sha256` of its model"},
};
static const lh_json_record loaded_record = {RECORD_OF(loaded_fields)};

/* ---- What is on its disk ---- */

static bool has_runs(const void *cached) {
    return ((const lh_cached_layers *)cached)->run_count > 0;
}

static json_t *render_runs(const void *cached) {
    char layers[LH_CACHED_TEXT_BYTES];
    lh_cached_layers_render(cached, layers);
    return lh_json_text(layers, strlen(layers));
}

static void read_runs(const lh_json_reader *reader, const char *key, void *cached) {
    char layers[LH_CACHED_TEXT_BYTES];
    lh_json_read_line(reader, key, layers, sizeof layers);
    if (lh_json_is_good(reader) && !lh_cached_layers_parse(layers, cached))
        lh_json_refuse(reader, key, "up to %u runs of layers like \"0-9,20-31\"",
                       LH_CACHED_RUNS_MAX);
}

static const lh_json_own runs_of_layers = {.is_there = has_runs,
                                           .render = render_runs,
                                           .read = read_runs,
                                           .looks = "text like `\"0-9,20-31\"`"};

static const lh_json_field cached_fields[] = {
    {.key = "model",
     .kind = LH_JSON_DIGITS,
     LH_JSON_MEMBER(lh_cached_layers, model),
     .meaning = "as of `loaded`"},
    {.key = "layers",
     .kind = LH_JSON_OWN,
     .own = &runs_of_layers,
     .meaning = "at most 16 runs of layers, ascending, with others between them: the first one "
                "with the embedding, the last one with the head"},
};
static const lh_json_record cached_record = {LH_JSON_RECORD(lh_cached_layers, cached_fields)};

/* ---- Hops ---- */

static const char *name_of_trial_state(unsigned state) {
    return lh_hop_trial_state_name((lh_hop_trial_state)state);
}

#undef OWNER
#define OWNER lh_hop_trial_report
static const lh_json_field trial_fields[] = {
    {FIELD(next, "next", NAME, LH_JSON_OPTIONAL | LH_JSON_AS_NULL),
     .meaning = "the worker that `next` named; null where it is the gateway"},
    {FIELD(address, "address", ADDRESS, LH_JSON_OPTIONAL | LH_JSON_AS_NULL),
     .meaning = "its address, as it was given; null likewise"},
    {FIELD(state, "state", CHOICE, 0), LH_JSON_RANGE(LH_HOP_TRIAL_RUNNING, LH_HOP_TRIAL_FAILED),
     .name_of = name_of_trial_state, .wanted = "running, proven or failed",
     .meaning = "`proven` when the one at its end has taken a step of the trial; of a survey, when "
                "all has been measured that will be"},
    {FIELD(error, "error", TEXT, 0), .meaning = "why the last attempt failed"},
    {FIELD(hop, "hop", OBJECT, LH_JSON_OPTIONAL | LH_JSON_AS_NULL | LH_JSON_MARKED),
     .mark = offsetof(OWNER, hop.present), .inner = &lh_hop_profile_record,
     .meaning = "what has been measured of it"},
};
#undef OWNER
#define OWNER lh_worker_report

static bool has_trial(const void *trial) {
    return ((const lh_hop_trial_report *)trial)->state != LH_HOP_TRIAL_NONE;
}

static const lh_json_record trial_record = {LH_JSON_RECORD(lh_hop_trial_report, trial_fields),
                                            .is_there = has_trial};

#undef OWNER
#define OWNER lh_relay_reach
static const lh_json_field reach_fields[] = {
    {FIELD(name, "name", NAME, 0), .meaning = "the worker behind it"},
    {FIELD(hop, "hop", OBJECT, LH_JSON_OPTIONAL | LH_JSON_AS_NULL | LH_JSON_MARKED),
     .mark = offsetof(OWNER, hop.present), .inner = &lh_hop_profile_record,
     .meaning = "what has been measured of the way to it"},
    {FIELD(error, "error", TEXT, LH_JSON_OPTIONAL | LH_JSON_AS_NULL),
     .meaning = "why it is not connected"},
};
#undef OWNER
#define OWNER lh_worker_report
static const lh_json_record reach_record = {LH_JSON_RECORD(lh_relay_reach, reach_fields)};

/* ---- The rest ---- */

#define PAGES(name, its_key) .key = (its_key), .kind = LH_JSON_U64, .most = UINT32_MAX, MEMBER(name)

static const lh_json_field kv_fields[] = {
    {PAGES(kv.pages_total, "pages_total"), .meaning = "pages of the KV cache"},
    {PAGES(kv.pages_free, "pages_free"), .meaning = "those that no sequence has"},
    {FIELD(kv.page_positions, "page_positions", U32, 0), LH_JSON_RANGE(1, UINT32_MAX),
     .meaning = "positions of a page"},
    {COUNT(kv.page_bytes, "page_bytes"), .meaning = "bytes of a page"},
    {U32(kv.sequences, "sequences"), .meaning = "sequences that have pages"},
    {FIELD(kv.epoch, "epoch", U32, LH_JSON_ABSENT), LH_JSON_RANGE(0, UINT32_MAX),
     .meaning = "the epoch with which it was last emptied; 0 where the stage has no place in a "
                "chain"},
};
static const lh_json_record kv_record = {RECORD_OF(kv_fields)};

static const lh_json_field step_fields[] = {
    {COUNT(steps.active, "active"), .meaning = "steps under way"},
    {COUNT(steps.done, "done"), .meaning = "steps that were computed"},
    {COUNT(steps.failed, "failed"), .meaning = "steps that failed"},
};
static const lh_json_record step_record = {RECORD_OF(step_fields)};

static bool has_facts(const void *facts) {
    return ((const lh_host_facts *)facts)->known != 0;
}

static json_t *render_facts(const void *facts) {
    return lh_host_facts_render(facts);
}

static void read_facts(const lh_json_reader *reader, const char *key, void *facts) {
    lh_host_facts_take(reader, key, facts);
}

static const lh_json_own host_facts = {
    .is_there = has_facts, .render = render_facts, .read = read_facts, .looks = "object"};

/* A worker of another version is refused before anything else is read. */
static json_t *render_version(const void *report) {
    (void)report;
    return json_integer(LH_CONTROL_PROTOCOL_VERSION);
}

static const lh_json_own protocol_version = {.render = render_version, .looks = "4"};

static const lh_json_field report_fields[] = {
    {.key = "protocol",
     .kind = LH_JSON_OWN,
     .flags = LH_JSON_NOT_READ,
     .own = &protocol_version,
     .meaning = "another number is answered with 400 and a message that names both"},
    {FIELD(instance, "instance", HEX_U64, 0),
     .meaning = "drawn at start: another instance under a name is a restart, or somebody else "
                "(409)"},
    {FIELD(site, "site", NAME, LH_JSON_AS_NULL), .meaning = "as the worker's flags say"},
    {FIELD(version, "version", TEXT, LH_JSON_AS_NULL), .meaning = "the worker's release"},
    {FIELD(isa, "isa", TEXT, LH_JSON_AS_NULL),
     .meaning = "the instruction set of its kernels; `cuda` where a GPU computes stages"},
    {FIELD(threads, "threads", U32, 0), LH_JSON_RANGE(1, THREADS_MAX),
     .meaning = "threads that compute"},
    {.key = "addresses", WITHIN(address_record), .meaning = "where it is reached"},
    {FIELD(memory_bytes, "memory_bytes", U64, 0), LH_JSON_RANGE(1, INT64_MAX),
     .meaning = "what it may use for weights"},
    {COUNT(kv_bytes, "kv_bytes"), .meaning = "what it may use for the KV cache"},
    {FIELD(speed, "speed", OBJECT, LH_JSON_OPTIONAL | LH_JSON_AS_NULL),
     .inner = &lh_machine_speed_record,
     .meaning = "how fast the machine is, by products with quantized weights made up for it, on "
                "all threads; measured once, at start. Stages are divided by it"},
    {.key = "assignment",
     WITHIN(assignment_record),
     .flags = LH_JSON_NULL | LH_JSON_AS_NULL,
     .meaning = "what has become of the latest `assignment`; null where it has none"},
    {.key = "prepared",
     WITHIN(prepared_record),
     .flags = LH_JSON_OPTIONAL | LH_JSON_AS_NULL,
     .meaning = "what has become of the latest `prepare`"},
    {.key = "loaded",
     WITHIN(loaded_record),
     .flags = LH_JSON_OPTIONAL | LH_JSON_AS_NULL | LH_JSON_MARKED,
     MARKED_BY(loaded.present),
     .meaning = "the stage in memory. A gateway that has no plan yet prefers the one that the "
                "workers have loaded"},
    {FIELD(compute, "compute", OBJECT, LH_JSON_OPTIONAL | LH_JSON_AS_NULL),
     .inner = &lh_compute_profile_record, .meaning = "the stage's times"},
    {FIELD(next, "next", OBJECT, LH_JSON_OPTIONAL | LH_JSON_AS_NULL | LH_JSON_MARKED),
     MARKED_BY(next.present), .inner = &lh_hop_profile_record,
     .meaning = "the hop after it, and what is measured of it"},
    {FIELD(next_error, "next_error", TEXT, LH_JSON_OPTIONAL | LH_JSON_AS_NULL),
     .meaning = "why the next hop is not connected, with its address"},
    {FIELD(trial, "trial", OBJECT, LH_JSON_OPTIONAL | LH_JSON_AS_NULL), .inner = &trial_record,
     .meaning = "what has become of the latest `try`"},
    {FIELD(surveyed, "surveyed", OBJECT, LH_JSON_OPTIONAL | LH_JSON_AS_NULL),
     .inner = &trial_record, .meaning = "what has become of the latest `survey`"},
    {.key = "kv",
     WITHIN(kv_record),
     .flags = LH_JSON_NULL | LH_JSON_AS_NULL | LH_JSON_MARKED,
     MARKED_BY(kv.present),
     .meaning = "the KV cache of the stage; null where there is none"},
    {.key = "steps",
     WITHIN(step_record),
     .meaning = "steps since its start; those that their senders wanted no more of (RST_STREAM) "
                "are none of these"},
    {FIELD(leaving, "leaving", BOOL, 0),
     .meaning = "it was asked to stop: the planner gives it nothing new, and looks for others that "
                "take over what it has"},
    {FIELD(slowdown, "slowdown", NUMBER, LH_JSON_ABSENT | LH_JSON_LEFT_OUT),
     LH_JSON_RANGE(1, SLOWDOWN_MAX),
     .meaning = "the factor by which it plays a slower machine, for a measurement; absent: 1"},
    {FIELD(host, "host", OWN, LH_JSON_OPTIONAL | LH_JSON_LEFT_OUT), .own = &host_facts,
     .meaning = "what is known of its machine, for `longhaul-gateway doctor`: whole numbers of at "
                "least 0, any of which may be absent (`common/base/host_facts.h` names them): its "
                "clock when the report left (`clock_ms`, Unix time), memory, the disk of its "
                "cache, the kernel's limits, the sandbox, its certificate's dates. Nothing is "
                "planned by it; the end of its certificate tells which one it uses (JOINING.md)"},
    {FIELD(trust_sha256, "trust", DIGITS, LH_JSON_OPTIONAL | LH_JSON_LEFT_OUT),
     .meaning = "SHA-256 of the bundle of CAs that the worker believes (JOINING.md)"},
    {FIELD(reaches, "reaches", LIST, LH_JSON_OPTIONAL | LH_JSON_LEFT_OUT | LH_JSON_MARKED),
     LH_JSON_RANGE(0, LH_RELAY_REACHES_MAX), .count = offsetof(lh_worker_report, reach_count),
     MARKED_BY(relays), .inner = &reach_record,
     .meaning = "of a worker that relays (`--relay`): whom it reaches. Not with `behind_relay`"},
    {FIELD(is_behind_relay, "behind_relay", BOOL, LH_JSON_OPTIONAL | LH_JSON_LEFT_OUT),
     .meaning = "other sites do not reach this worker (`--behind-relay`)"},
    {FIELD(cached, "cached", LIST, LH_JSON_OPTIONAL | LH_JSON_LEFT_OUT),
     LH_JSON_RANGE(0, LH_CACHED_MODELS_MAX), .count = offsetof(lh_worker_report, cached_count),
     .inner = &cached_record, .meaning = "what of models is on its disk and need not be sent"},
};

static void check_report(const lh_json_reader *reader, void *object) {
    const lh_worker_report *report = object;
    if (report->relays && report->is_behind_relay)
        lh_json_refuse(reader, "behind_relay", "false where it relays to others");
}

const lh_json_record lh_worker_report_record = {RECORD_OF(report_fields), .check = check_report};

char *lh_worker_report_render(const lh_worker_report *report) {
    return lh_json_record_text(&lh_worker_report_record, report);
}

lh_status lh_worker_report_parse(const char *name, const char *bytes, size_t length,
                                 lh_worker_report *report, lh_error *error) {
    lh_json_document document = {.name = "the worker's report", .refusal = LH_ERR_INVALID};
    lh_json_reader r;
    *report = (lh_worker_report){.slowdown = 1};
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
        lh_json_record_read(&lh_worker_report_record, &r, report);
    }
    return lh_json_document_close(&document);
}
