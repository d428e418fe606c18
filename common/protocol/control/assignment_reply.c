/* The table of a reply. What `leave` says lies in the reply's own struct. */
#include "common/protocol/control/assignment_reply.h"

#include "common/protocol/wire_type.h"

#include <string.h>

/* Far above any real one, far below where sums overflow. */
#define FILE_BYTES_MAX  ((int64_t)1 << 50)
#define INTERVAL_MS_MAX 3600000
#define LAYERS_MAX      65536
#define CONTEXT_MAX     (1 << 24)
#define STEPS_MAX       1024
#define WEIGHT_MAX      1000000

#define FIELD(member, key, kind, flags) LH_JSON_FIELD(OWNER, member, key, kind, flags)
#define MEMBER(name)                    LH_JSON_MEMBER(OWNER, name)
#define U32(name, low, high)                                                                       \
    .key = #name, .kind = LH_JSON_U32, .least = (low), .most = (high), MEMBER(name)

bool lh_control_is_same_stage(const lh_control_assignment *a, const lh_control_assignment *b) {
    return strcmp(a->model.header_sha256, b->model.header_sha256) == 0 &&
           a->model.file_bytes == b->model.file_bytes && a->first_layer == b->first_layer &&
           a->last_layer == b->last_layer && a->layers == b->layers && a->context == b->context &&
           a->rows_max == b->rows_max && a->steps_max == b->steps_max &&
           strcmp(a->activations, b->activations) == 0 && strcmp(a->gpu_math, b->gpu_math) == 0 &&
           strcmp(a->kv_type, b->kv_type) == 0 && memcmp(&a->team, &b->team, sizeof a->team) == 0;
}

bool lh_control_is_same_assignment(const lh_control_assignment *a, const lh_control_assignment *b) {
    return a->generation == b->generation && a->epoch == b->epoch && a->kv_epoch == b->kv_epoch &&
           strcmp(a->chain, b->chain) == 0 && lh_control_is_same_stage(a, b) &&
           a->wire == b->wire && lh_way_is_same(&a->next, &b->next) &&
           strcmp(a->previous_name, b->previous_name) == 0 &&
           strcmp(a->previous_relay, b->previous_relay) == 0;
}

/* ---- Ways ---- */

#define OWNER       lh_way
#define WAY_NAME    .key = "name", .kind = LH_JSON_NAME, MEMBER(worker)
#define WAY_ADDRESS .key = "address", .kind = LH_JSON_LINE, MEMBER(address)
#define WAY_TLS     .key = "tls", .kind = LH_JSON_BOOL, MEMBER(tls)

static const lh_json_field next_fields[] = {
    {FIELD(is_gateway, "gateway", BOOL, LH_JSON_ENDS),
     .meaning =
         "true: it is the gateway with which this worker registers, and nothing else follows"},
    {WAY_NAME, .meaning = "the next worker"},
    {WAY_ADDRESS, .meaning = "where it is reached, as `host:port`"},
    {WAY_TLS, .meaning = "whether by TLS"},
    {FIELD(via, "relay", NAME, LH_JSON_OPTIONAL | LH_JSON_LEFT_OUT),
     .meaning = "the relay whose address it is (PROTOCOL.md, \"Through a relay\")"},
};
static const lh_json_record next_record = {LH_JSON_RECORD(lh_way, next_fields)};

static const lh_json_field relayed_fields[] = {
    {WAY_NAME, .meaning = "a worker behind this one"},
    {WAY_ADDRESS, .meaning = "where this one reaches it"},
    {WAY_TLS, .meaning = "whether by TLS"},
};
static const lh_json_record relayed_record = {LH_JSON_RECORD(lh_way, relayed_fields)};
#undef OWNER

/* ---- Stages ---- */

#define OWNER lh_control_model
static const lh_json_field model_fields[] = {
    {.key = "name", .kind = LH_JSON_LINE, MEMBER(name), .meaning = "what clients call it"},
    {FIELD(file_bytes, "file_bytes", U64, 0), LH_JSON_RANGE(1, FILE_BYTES_MAX),
     .meaning = "bytes of the model file"},
    {FIELD(header_bytes, "header_bytes", U64, 0), LH_JSON_RANGE(1, FILE_BYTES_MAX),
     .meaning = "those of its header"},
    {FIELD(header_sha256, "header_sha256", DIGITS, 0), .meaning = "the model's identity"},
    {FIELD(weights_url, "weights_url", LINE, 0),
     .meaning = "see below; a URL that begins with `/` is on the gateway's fleet port"},
    {.key = "tensors_url", .kind = LH_JSON_LINE, MEMBER(tensors_url), .meaning = "likewise"},
};
#undef OWNER

static void check_model(const lh_json_reader *reader, void *object) {
    const lh_control_model *model = object;
    if (model->header_bytes > model->file_bytes)
        lh_json_refuse(reader, "header_bytes", "at most file_bytes");
}

static const lh_json_record model_record = {LH_JSON_RECORD(lh_control_model, model_fields),
                                            .check = check_model};

static const char *name_of_wire(unsigned wire) {
    return lh_wire_name((lh_wire_type)wire);
}

#define WIRE                                                                                       \
    .key = "wire", .kind = LH_JSON_CHOICE, .least = LH_WIRE_F32, .most = LH_WIRE_Q8,               \
    .name_of = name_of_wire, .wanted = "\"f32\", \"f16\" or \"q8\"", MEMBER(wire)

static const char *const activations[] = {"q8", "q16", NULL};
static const char *const maths[] = {"exact", "fast", NULL};
static const char *const kv_types[] = {"f32", "f16", "q8", NULL};

#define OWNER lh_control_assignment
static const lh_json_field stage_fields[] = {
    {FIELD(model, "model", OBJECT, 0), .inner = &model_record, .meaning = "whose layers they are"},
    {U32(first_layer, 0, LAYERS_MAX), .meaning = "the stage's first layer"},
    {U32(last_layer, 1, LAYERS_MAX), .meaning = "the layer behind its last one"},
    {U32(layers, 1, LAYERS_MAX), .meaning = "those of the model"},
    {U32(context, 1, CONTEXT_MAX), .meaning = "positions of a sequence"},
    {U32(rows_max, 1, LH_STEP_ROWS_MAX), .meaning = "rows of a step"},
    {U32(steps_max, 1, STEPS_MAX),
     .meaning = "steps that have an activation buffer at once: memory to keep ready; further ones "
                "wait for one"},
    {FIELD(activations, "activations", WORD, 0), .words = activations,
     .wanted = "\"q8\" or \"q16\"",
     .meaning = "how activations meet quantized weights (`kernels/kernels.h`); the same on all "
                "stages of a chain"},
    {FIELD(gpu_math, "gpu_math", WORD, LH_JSON_OPTIONAL), .words = maths,
     .wanted = "\"exact\" or \"fast\"",
     .meaning = "`fast`: products on GPUs may be cuBLAS's (`kernels/cuda/cuda_fast.h`); the same "
                "on all stages of a chain"},
    {FIELD(kv_type, "kv_type", WORD, LH_JSON_OPTIONAL), .words = kv_types,
     .wanted = "\"f32\", \"f16\" or \"q8\"",
     .meaning = "the numbers that the KV cache holds (`kernels/kernels.h`), the same on all stages "
                "of all chains. A stage with other numbers is another stage: it is loaded, and its "
                "cache begins empty"},
    {WIRE, .meaning = "the numbers of the stage's result on the way to the next hop"},
};

static void check_stage(const lh_json_reader *reader, void *object) {
    const lh_control_assignment *stage = object;
    if (stage->last_layer > stage->layers || stage->first_layer >= stage->last_layer)
        lh_json_refuse(reader, "first_layer", "before last_layer, within layers");
}

static const lh_json_record stage_record = {LH_JSON_RECORD(OWNER, stage_fields),
                                            .check = check_stage};
#undef OWNER

/* ---- Teams ---- */

#define OWNER lh_control_member
static const lh_json_field member_fields[] = {
    {.key = "name", .kind = LH_JSON_NAME, MEMBER(name), .meaning = "a worker of the team"},
    {FIELD(address, "address", LINE, 0),
     .meaning = "where those behind it in the list connect to it"},
    {U32(weight, 1, WEIGHT_MAX), .meaning = "its share of the work, beside those of the others"},
};
static const lh_json_record member_record = {LH_JSON_RECORD(OWNER, member_fields)};
#undef OWNER

#define OWNER lh_control_team
static const lh_json_field team_fields[] = {
    {FIELD(own, "own", U32, LH_JSON_NOT_READ), LH_JSON_RANGE(0, LH_TEAM_MEMBERS_MAX - 1),
     .meaning = "the index of this worker in `members`; 0 takes the stage's steps"},
    {U32(epoch, 0, UINT32_MAX), .meaning = "another one: the team forms anew"},
    {FIELD(secret, "secret", HEX, 0), .meaning = "by which the members know each other"},
    {FIELD(members, "members", LIST, 0), LH_JSON_RANGE(0, LH_TEAM_MEMBERS_MAX),
     .count = offsetof(OWNER, count), .inner = &member_record, .meaning = "two workers at least"},
};
#undef OWNER

static bool has_members(const void *team) {
    return ((const lh_control_team *)team)->count > 0;
}

static void check_team(const lh_json_reader *reader, void *object) {
    lh_control_team *team = object;
    if (team->count < 2)
        lh_json_refuse(reader, "members", "of two workers at least");
    team->own =
        (uint32_t)lh_json_read_integer(reader, "own", 0, team->count > 0 ? team->count - 1 : 0);
}

static const lh_json_record team_record = {LH_JSON_RECORD(lh_control_team, team_fields),
                                           .is_there = has_members, .check = check_team};

#define TEAM                                                                                       \
    .key = "team", .kind = LH_JSON_OBJECT, .flags = LH_JSON_OPTIONAL | LH_JSON_LEFT_OUT,           \
    .inner = &team_record, MEMBER(team)
#define CHAIN .key = "chain", .kind = LH_JSON_NAME, MEMBER(chain)
#define NEXT  .key = "next", .kind = LH_JSON_OBJECT, .inner = &next_record, MEMBER(next)

/* ---- Assignments, and what may become one ---- */

#define OWNER lh_control_assignment
static const lh_json_field assignment_fields[] = {
    {FIELD(generation, "generation", U64, 0), LH_JSON_RANGE(0, INT64_MAX),
     .meaning = "changes when any other field of the assignment changes; report it back in "
                "`assignment.generation`. A gateway gives out none that a worker has reported "
                "before, unless that was more than a day ahead of its clock: so it never meets "
                "what an earlier gateway gave out"},
    {CHAIN, .meaning = "the chain's name"},
    {U32(epoch, 0, UINT32_MAX),
     .meaning = "the chain's epoch: steps of an older one are refused (409). A new one empties the "
                "KV cache, but for:"},
    {FIELD(kv_epoch, "kv_epoch", U32, LH_JSON_OPTIONAL), LH_JSON_RANGE(0, UINT32_MAX),
     .meaning = "where the KV cache was last emptied with this epoch, it stays (PROTOCOL.md, "
                "\"Epochs\"); 0: it does not"},
    {FIELD(previous_name, "previous", NAME, LH_JSON_OPTIONAL | LH_JSON_AS_NULL),
     .meaning = "the worker before this one, from which alone it takes steps; null: the gateway"},
    {FIELD(previous_relay, "previous_relay", NAME, LH_JSON_OPTIONAL | LH_JSON_LEFT_OUT),
     .meaning = "the worker through which alone these steps come (PROTOCOL.md, \"Through a "
                "relay\")"},
    {NEXT, .meaning = "where the stage's result goes"},
    {TEAM, .meaning = "who computes the stage together (\"Teams\" below); absent where it is this "
                      "worker's alone"},
    {.kind = LH_JSON_INLINE, .inner = &stage_record},
};
static const lh_json_record assignment_record = {LH_JSON_RECORD(OWNER, assignment_fields)};

/* `hold` is the contrary of weights_only, so that what is no stage to be prepared is held. */
static json_t *render_hold(const void *weights_only) {
    return json_boolean(!*(const bool *)weights_only);
}

static void read_hold(const lh_json_reader *reader, const char *key, void *weights_only) {
    *(bool *)weights_only = !lh_json_read_bool(reader, key);
}

static const lh_json_own hold = {
    .render = render_hold, .read = read_hold, .looks = "true or false"};

static const lh_json_field prepare_fields[] = {
    {.kind = LH_JSON_INLINE, .inner = &stage_record},
    {CHAIN, .flags = LH_JSON_NOT_READ,
     .meaning = "the name of the next chain; read beside a `team`"},
    {FIELD(weights_only, "hold", OWN, 0), .own = &hold,
     .meaning = "true: fetch and load it beside the stage that serves, ready to take its place; "
                "false: memory holds one of them (of a team: that of one member at least), so "
                "fetch its weights into the cache, no more"},
    {TEAM, .meaning = "as in `assignment`"},
    {.key = "bytes_per_s",
     .kind = LH_JSON_U64,
     .flags = LH_JSON_OPTIONAL | LH_JSON_LEFT_OUT,
     .least = 1,
     .most = INT64_MAX,
     MEMBER(bytes_per_s_max),
     .meaning = "with how many bytes a second it is to be fetched at most; absent: any. What would "
                "be needed after a loss comes behind the steps"},
};
#undef OWNER

static void check_prepare(const lh_json_reader *reader, void *object) {
    lh_control_assignment *prepare = object;
    if (prepare->team.count > 0)
        lh_json_read_name(reader, "chain", prepare->chain);
}

static const lh_json_record prepare_record = {LH_JSON_RECORD(lh_control_assignment, prepare_fields),
                                              .check = check_prepare};

/* ---- Trials and surveys ---- */

#define OWNER lh_control_trial
static const lh_json_field trial_fields[] = {
    {CHAIN, .meaning = "the name of the next chain"},
    {U32(width, 1, LH_STEP_WIDTH_MAX), .meaning = "columns of an activation"},
    {WIRE, .meaning = "as in `assignment`"},
    {NEXT, .meaning = "as in `assignment`"},
};
static const lh_json_record trial_record = {LH_JSON_RECORD(OWNER, trial_fields)};
#undef OWNER

#define OWNER lh_control_survey
static const lh_json_field survey_fields[] = {
    {FIELD(bytes_max, "bytes_max", U64, 0), LH_JSON_RANGE(1, FILE_BYTES_MAX),
     .meaning = "of probes"},
    {NEXT, .meaning = "as in `assignment`, never through a relay"},
};

static void check_survey(const lh_json_reader *reader, void *object) {
    const lh_control_survey *survey = object;
    if (survey->next.via[0] != '\0')
        lh_json_refuse(reader, "next", "without a relay: links are measured one by one");
}

static const lh_json_record survey_record = {LH_JSON_RECORD(OWNER, survey_fields),
                                             .check = check_survey};
#undef OWNER

/* ---- The reply ---- */

#define OWNER lh_assignment_reply
#define PART(its_key, flag, its_record)                                                            \
    .key = (its_key), .kind = LH_JSON_OBJECT, .mark = offsetof(OWNER, flag), .inner = &(its_record)
#define MAY_BE_NULL LH_JSON_NULL | LH_JSON_AS_NULL | LH_JSON_MARKED
#define MAY_LACK    LH_JSON_OPTIONAL | LH_JSON_AS_NULL | LH_JSON_MARKED

static const lh_json_field leave_fields[] = {
    {FIELD(may_go, "may_go", BOOL, 0),
     .meaning = "it has no place in a chain any more, or nobody can take its place and no request "
                "needs it"},
    {.key = "reason", .kind = LH_JSON_LINE, MEMBER(leave_reason), .meaning = "what it waits for"},
};
static const lh_json_record leave_record = {LH_JSON_RECORD(OWNER, leave_fields)};

#define INTERVAL(name)                                                                             \
    .key = #name, .kind = LH_JSON_I64, .least = 1, .most = INTERVAL_MS_MAX, MEMBER(name)

static const lh_json_field reply_fields[] = {
    {INTERVAL(renew_ms), .meaning = "report again after so long"},
    {INTERVAL(lease_ms), .meaning = "without a report for so long the worker counts as gone"},
    {FIELD(is_planned, "planned", BOOL, 0),
     .meaning = "false while the gateway has no plan (it has just started, or waits for workers): "
                "a worker keeps what it has, and `assignment` is null"},
    {FIELD(is_urgent, "urgent", BOOL, LH_JSON_OPTIONAL),
     .meaning = "sequences wait for the chain: a stage that is loaded now is timed only as much as "
                "it needs to be"},
    {PART("assignment", has_assignment, assignment_record), .flags = MAY_BE_NULL,
     MEMBER(assignment),
     .meaning = "what the worker should have; null, where `planned` is true: drop what you have"},
    {PART("prepare", has_prepare, prepare_record), .flags = MAY_LACK, MEMBER(prepare),
     .meaning = "a stage that may be this worker's next"},
    {PART("try", has_trial, trial_record), .flags = MAY_LACK, MEMBER(trial),
     .meaning = "a hop that this worker would have in the next chain, to be tried now"},
    {PART("survey", has_survey, survey_record), .flags = MAY_LACK, MEMBER(survey),
     .meaning = "a link that this worker is to measure, whatever else it does"},
    {FIELD(relayed, "relay", LIST, LH_JSON_OPTIONAL | LH_JSON_AS_NULL),
     LH_JSON_RANGE(0, LH_RELAY_REACHES_MAX), .count = offsetof(OWNER, relayed_count),
     .inner = &relayed_record, .meaning = "the workers behind this one to which it is to relay"},
    {PART("leave", has_leave, leave_record), .flags = MAY_LACK,
     .meaning = "the reply to `leaving`"},
    {FIELD(trust_sha256, "trust", DIGITS, LH_JSON_OPTIONAL | LH_JSON_AS_NULL),
     .meaning = "SHA-256 of the bundle of CAs that the fleet believes (JOINING.md): a worker that "
                "has another one fetches it"},
};

const lh_json_record lh_assignment_reply_record = {LH_JSON_RECORD(OWNER, reply_fields)};

char *lh_assignment_reply_render(const lh_assignment_reply *reply) {
    return lh_json_record_text(&lh_assignment_reply_record, reply);
}

lh_status lh_assignment_reply_parse(const char *text, size_t length, lh_assignment_reply *reply,
                                    lh_error *error) {
    lh_json_document document = {.name = "the gateway's answer", .refusal = LH_ERR_MALFORMED};
    lh_json_reader root;
    *reply = (lh_assignment_reply){0};
    lh_status status = lh_json_document_open(&document, text, length, error, &root);
    if (status != LH_OK)
        return status;
    lh_json_record_read(&lh_assignment_reply_record, &root, reply);
    return lh_json_document_close(&document);
}
