/* Replies as a worker reads them: each field is checked, and a wrong one is named. */
#include "common/protocol/control/assignment_reply.h"
#include "tests/support/failing_malloc.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MODEL                                                                                      \
    "{\"name\":\"m\",\"file_bytes\":1000,\"header_bytes\":100,\"header_sha256\":\"" HEX            \
    "\",\"weights_url\":\"/w\","                                                                   \
    "\"tensors_url\":\"/t\"}"
#define HEX      "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define HEX_REST "0112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define SOUND                                                                                      \
    "{\"renew_ms\":1000,\"lease_ms\":5000,\"planned\":true,\"urgent\":true,\"assignment\":{"       \
    "\"generation\":"                                                                              \
    "7,\"chain\":"                                                                                 \
    "\"c\",\"epoch\":7,"                                                                           \
    "\"model\":" MODEL                                                                             \
    ",\"first_layer\":2,\"last_layer\":5,\"layers\":5,\"context\":2048,\"rows_max\":512,"          \
    "\"steps_max\":8,\"activations\":\"q8\",\"wire\":\"f16\","                                     \
    "\"previous\":\"z\",\"previous_relay\":\"hut\","                                               \
    "\"next\":{\"gateway\":false,\"name\":\"b\",\"address\":\"h:1\",\"tls\":true,"                 \
    "\"relay\":\"barn\"}},"                                                                        \
    "\"prepare\":{\"model\":" MODEL                                                                \
    ",\"first_layer\":1,\"last_layer\":4,\"layers\":5,\"context\":2048,"                           \
    "\"rows_max\":512,\"steps_max\":8,\"activations\":\"q16\",\"gpu_math\":\"fast\",\"kv_type\":"  \
    "\"f16\",\"wire\":\"q8\","                                                                     \
    "\"hold\":true},"                                                                              \
    "\"try\":{\"chain\":\"d\",\"width\":576,\"wire\":\"f32\","                                     \
    "\"next\":{\"gateway\":false,\"name\":\"attic\",\"address\":\"h:2\",\"tls\":false}},"          \
    "\"survey\":{\"bytes_max\":1048576,"                                                           \
    "\"next\":{\"gateway\":false,\"name\":\"loft\",\"address\":\"h:3\",\"tls\":true}},"            \
    "\"relay\":[{\"name\":\"c\",\"address\":\"h:4\",\"tls\":false},"                               \
    "{\"name\":\"e\",\"address\":\"h:5\",\"tls\":true}],"                                          \
    "\"leave\":{\"may_go\":false,\"reason\":\"b loads its layers\"}}"

#define TEAM                                                                                       \
    "\"team\":{\"own\":1,\"epoch\":6,\"secret\":\"" HEX "\",\"members\":["                         \
    "{\"name\":\"a\",\"address\":\"h:6\",\"weight\":1000},"                                        \
    "{\"name\":\"w\",\"address\":\"h:7\",\"weight\":400}]},"

/* The sound answer, whose stage others compute with this worker. */
static void with_team(char text[4096]) {
    const char *at = strstr(SOUND, "\"previous\"");
    snprintf(text, 4096, "%.*s%s%s", (int)(at - SOUND), SOUND, TEAM, at);
}

static void a_team_is_read(void **state) {
    (void)state;
    char text[4096];
    lh_assignment_reply answer, alone;
    lh_error error;
    with_team(text);
    if (lh_assignment_reply_parse(text, strlen(text), &answer, &error) != LH_OK)
        fail_msg("%s", error.message);
    const lh_control_team *team = &answer.assignment.team;
    assert_true(team->count == 2 && team->own == 1 && team->epoch == 6);
    assert_string_equal(team->members[0].name, "a");
    assert_string_equal(team->members[1].address, "h:7");
    assert_true(team->members[0].weight == 1000 && team->members[1].weight == 400);
    assert_true(team->secret[1] == 0x11 && team->secret[31] == 0xff);
    assert_int_equal(lh_assignment_reply_parse(SOUND, strlen(SOUND), &alone, &error), LH_OK);
    assert_int_equal(alone.assignment.team.count, 0);
    assert_false(lh_control_is_same_stage(&answer.assignment, &alone.assignment));
}

/* Of the next chain, whose name is that of its team. */
static void a_part_to_be_prepared_is_read(void **state) {
    (void)state;
    char text[4096];
    lh_assignment_reply answer;
    const char *at = strstr(SOUND, "\"hold\":true");
    snprintf(text, sizeof text, "%.*s\"chain\":\"d\",%s%s", (int)(at - SOUND), SOUND, TEAM, at);
    assert_int_equal(lh_assignment_reply_parse(text, strlen(text), &answer, NULL), LH_OK);
    const lh_control_team *team = &answer.prepare.team;
    assert_true(team->count == 2 && team->own == 1 && team->epoch == 6);
    assert_string_equal(team->members[0].name, "a");
    assert_string_equal(answer.prepare.chain, "d");
    assert_int_equal(answer.prepare.bytes_per_s_max, 0);
    assert_int_equal(answer.assignment.team.count, 0);
    snprintf(text, sizeof text, "%.*s\"bytes_per_s\":1000,%s", (int)(at - SOUND), SOUND, at);
    assert_int_equal(lh_assignment_reply_parse(text, strlen(text), &answer, NULL), LH_OK);
    assert_int_equal(answer.prepare.bytes_per_s_max, 1000);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - SOUND), SOUND, TEAM, at);
    assert_int_equal(lh_assignment_reply_parse(text, strlen(text), &answer, NULL),
                     LH_ERR_MALFORMED);
}

static void a_bad_team_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *part, *instead, *named;
    } faults[] = {
        {"\"own\":1", "\"own\":2", "assignment.team.own"},
        {"\"epoch\":6", "\"epoch\":-1", "assignment.team.epoch"},
        {"\"weight\":400", "\"weight\":0", "weight"},
        {"\"address\":\"h:7\"", "\"address\":\"\"", "address"},
        {"\"name\":\"w\"", "\"name\":\"/\"", "name"},
        {",{\"name\":\"w\",\"address\":\"h:7\",\"weight\":400}", "", "members"},
        {"\"secret\":\"" HEX "\"", "\"secret\":\"00\"", "assignment.team.secret"},
    };
    char sound[4096], text[4096];
    with_team(sound);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        const char *at = strstr(sound, faults[i].part);
        lh_assignment_reply answer;
        lh_error error = {0};
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - sound), sound, faults[i].instead,
                 at + strlen(faults[i].part));
        assert_int_equal(lh_assignment_reply_parse(text, strlen(text), &answer, &error),
                         LH_ERR_MALFORMED);
        if (!strstr(error.message, faults[i].named))
            fail_msg("'%s' does not name %s", error.message, faults[i].named);
    }
}

static void test_answer(void **state) {
    (void)state;
    lh_assignment_reply answer;
    lh_error error;
    assert_int_equal(lh_assignment_reply_parse(SOUND, strlen(SOUND), &answer, &error), LH_OK);
    assert_true(answer.is_planned && answer.is_urgent && answer.has_assignment &&
                answer.renew_ms == 1000 && answer.lease_ms == 5000);
    const lh_control_assignment *a = &answer.assignment;
    assert_true(a->generation == 7 && a->epoch == 7 && a->first_layer == 2 && a->last_layer == 5 &&
                a->layers == 5);
    assert_true(a->context == 2048 && a->rows_max == 512 && a->steps_max == 8);
    assert_string_equal(a->activations, "q8");
    assert_string_equal(a->kv_type, "f32");    /* of a gateway that does not say */
    assert_string_equal(a->gpu_math, "exact"); /* likewise */
    assert_true(a->wire == LH_WIRE_F16 && !a->next.is_gateway && a->next.tls);
    assert_string_equal(a->chain, "c");
    assert_string_equal(a->next.worker, "b");
    assert_string_equal(a->next.address, "h:1");
    assert_string_equal(a->previous_name, "z");
    assert_string_equal(a->previous_relay, "hut");
    assert_string_equal(a->next.via, "barn");
    assert_int_equal(answer.relayed_count, 2);
    assert_string_equal(answer.relayed[0].worker, "c");
    assert_string_equal(answer.relayed[0].address, "h:4");
    assert_true(!answer.relayed[0].tls && answer.relayed[1].tls);
    assert_string_equal(a->model.name, "m");
    assert_true(a->model.file_bytes == 1000 && a->model.header_bytes == 100);
    assert_string_equal(a->model.header_sha256, HEX);
    assert_string_equal(a->model.weights_url, "/w");
    assert_string_equal(a->model.tensors_url, "/t");
    assert_int_equal(a->kv_epoch, 0);
    a = &answer.prepare;
    assert_true(answer.has_prepare && !answer.prepare.weights_only);
    assert_true(a->first_layer == 1 && a->last_layer == 4 && a->layers == 5 && a->context == 2048);
    assert_true(a->rows_max == 512 && a->steps_max == 8 && a->wire == LH_WIRE_Q8);
    assert_string_equal(a->activations, "q16");
    assert_string_equal(a->kv_type, "f16");
    assert_string_equal(a->gpu_math, "fast");
    assert_string_equal(a->model.header_sha256, HEX);
    assert_false(lh_control_is_same_stage(a, &answer.assignment));
    const lh_control_trial *trial = &answer.trial;
    assert_true(answer.has_trial && trial->width == 576 && trial->wire == LH_WIRE_F32);
    assert_true(!trial->next.is_gateway && !trial->next.tls);
    assert_string_equal(trial->chain, "d");
    assert_string_equal(trial->next.worker, "attic");
    assert_string_equal(trial->next.address, "h:2");
    const lh_control_survey *survey = &answer.survey;
    assert_true(answer.has_survey && survey->bytes_max == 1048576 && survey->next.tls);
    assert_string_equal(survey->next.worker, "loft");
    assert_string_equal(survey->next.address, "h:3");
    assert_true(answer.has_leave && !answer.may_go);
    assert_string_equal(answer.leave_reason, "b loads its layers");
    const char *none =
        "{\"renew_ms\":1,\"lease_ms\":2,\"planned\":false,\"assignment\":null,\"new\":[]}";
    assert_int_equal(lh_assignment_reply_parse(none, strlen(none), &answer, &error), LH_OK);
    assert_false(answer.has_assignment || answer.is_planned || answer.has_prepare ||
                 answer.has_trial || answer.has_survey || answer.has_leave || answer.is_urgent);
}

/* The replies of many states, as a gateway wrote them once and for all. */
static void what_was_written_is_read(void **state) {
    (void)state;
    static char line[LH_CONTROL_BODY_BYTES_MAX];
    static lh_assignment_reply reply, again;
    FILE *file = fopen(TEST_SOURCE_DIR "/vectors/control_replies.txt", "r");
    uint32_t read = 0;
    assert_non_null(file);
    for (; fgets(line, sizeof line, file); read++) {
        lh_error error = {0};
        bool is_sound = !strstr(line, "\"address\":\"\""); /* a member of the team is gone */
        lh_status status = lh_assignment_reply_parse(line, strlen(line), &reply, &error);
        if (status != (is_sound ? LH_OK : LH_ERR_MALFORMED))
            fail_msg("%s: %s", error.message, line);
        char *text = is_sound ? lh_assignment_reply_render(&reply) : NULL;
        if (text)
            assert_int_equal(lh_assignment_reply_parse(text, strlen(text), &again, NULL), LH_OK);
        assert_true(!text || memcmp(&reply, &again, sizeof reply) == 0);
        free(text);
    }
    assert_true(read > 40);
    fclose(file);
}

static void whom_both_sides_trust_is_said(void **state) {
    (void)state;
    lh_assignment_reply answer;
    lh_error error;
    const char *said = "{\"renew_ms\":1,\"lease_ms\":2,\"planned\":false,\"assignment\":null,"
                       "\"trust\":\"" HEX "\"}",
               *cut = "{\"renew_ms\":1,\"lease_ms\":2,\"planned\":false,\"assignment\":null,"
                      "\"trust\":\"" HEX_REST "\"}";
    assert_int_equal(lh_assignment_reply_parse(said, strlen(said), &answer, &error), LH_OK);
    assert_string_equal(answer.trust_sha256, HEX);
    assert_int_equal(lh_assignment_reply_parse(cut, strlen(cut), &answer, &error),
                     LH_ERR_MALFORMED);
    assert_non_null(strstr(error.message, "trust"));
}

/* What a stage consists of, and what may change while it stays. */
static void test_one_stage_or_another(void **state) {
    (void)state;
    const lh_control_assignment stage = {.model = {.header_sha256 = HEX, .file_bytes = 1000},
                                         .first_layer = 1,
                                         .last_layer = 4,
                                         .layers = 5,
                                         .context = 64,
                                         .rows_max = 8,
                                         .steps_max = 4,
                                         .activations = "q8"};
    enum { OTHERS = 11 };
    lh_control_assignment other[OTHERS];
    for (size_t i = 0; i < OTHERS; i++)
        other[i] = stage;
    other[0].model.header_sha256[63] = '0'; /* another model of the same shape */
    other[1].model.file_bytes++;
    other[2].first_layer = 0;
    other[3].last_layer = 5;
    other[4].layers = 4;
    other[5].context = 65;
    other[6].rows_max = 9;
    other[7].steps_max = 5;
    strcpy(other[8].activations, "q16");
    strcpy(other[9].kv_type, "q8");
    strcpy(other[10].gpu_math, "fast");
    for (size_t i = 0; i < OTHERS; i++)
        if (lh_control_is_same_stage(&stage, &other[i]))
            fail_msg("%zu is taken for the same stage", i);
    lh_control_assignment moved = stage;
    moved.generation = moved.epoch = moved.kv_epoch = 7;
    moved.wire = LH_WIRE_Q8;
    moved.next.is_gateway = true;
    strcpy(moved.model.weights_url, "http://elsewhere");
    assert_true(lh_control_is_same_stage(&stage, &moved));
}

/* Where a stage serves: whatever of it is another makes it another assignment. */
static void test_one_assignment_or_another(void **state) {
    (void)state;
    const lh_control_assignment place = {.generation = 7,
                                         .epoch = 7,
                                         .kv_epoch = 6,
                                         .chain = "c",
                                         .model = {.header_sha256 = HEX},
                                         .wire = LH_WIRE_F16,
                                         .next = {.tls = true, .worker = "b", .address = "h:1"}};
    enum { OTHERS = 12 };
    lh_control_assignment other[OTHERS];
    for (size_t i = 0; i < OTHERS; i++)
        other[i] = place;
    other[0].generation++;
    other[1].epoch++;
    other[2].kv_epoch++;
    strcpy(other[3].chain, "d");
    other[4].rows_max++;
    other[5].wire = LH_WIRE_F32;
    other[6].next.is_gateway = true;
    other[7].next.tls = false;
    strcpy(other[8].next.worker, "a");
    strcpy(other[9].next.address, "h:2");
    strcpy(other[10].next.via, "hut");
    strcpy(other[11].previous_relay, "hut");
    for (size_t i = 0; i < OTHERS; i++)
        if (lh_control_is_same_assignment(&place, &other[i]))
            fail_msg("%zu is taken for the same assignment", i);
    lh_control_assignment elsewhere = place;
    strcpy(elsewhere.model.weights_url, "http://elsewhere");
    assert_true(lh_control_is_same_assignment(&place, &elsewhere));
}

/* The sound answer with one part replaced. */
static void assert_refused(const char *part, const char *instead, const char *named) {
    char text[4096];
    const char *at = strstr(SOUND, part);
    assert_non_null(at);
    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - SOUND), SOUND, instead, at + strlen(part));
    lh_assignment_reply answer;
    lh_error error = {0};
    assert_int_equal(lh_assignment_reply_parse(text, strlen(text), &answer, &error),
                     LH_ERR_MALFORMED);
    if (!strstr(error.message, named))
        fail_msg("'%s' does not name %s", error.message, named);
}

static void test_bad_answers_are_refused_by_name(void **state) {
    (void)state;
    assert_refused("\"renew_ms\":1000", "\"renew_ms\":0", "renew_ms");
    assert_refused("\"planned\":true", "\"planned\":null", "planned");
    assert_refused("\"urgent\":true", "\"urgent\":1", "urgent");
    assert_refused("\"renew_ms\":1000", "\"renew_ms\":\"1000\"", "renew_ms");
    assert_refused("\"lease_ms\":5000,", "", "lease_ms");
    assert_refused("\"generation\":7", "\"generation\":-1", "assignment.generation");
    assert_refused("\"chain\":\"c\"", "\"chain\":\"a/b\"", "assignment.chain");
    assert_refused("\"chain\":\"c\"", "\"chain\":null", "assignment.chain");
    assert_refused("\"epoch\":7", "\"epoch\":4294967296", "assignment.epoch");
    assert_refused("\"first_layer\":2", "\"first_layer\":5", "first_layer");
    assert_refused("\"last_layer\":5", "\"last_layer\":6", "first_layer");
    assert_refused("\"layers\":5,\"context", "\"layers\":1e3,\"context", "layers");
    assert_refused("\"rows_max\":512", "\"rows_max\":8193", "rows_max");
    assert_refused("\"steps_max\":8", "\"steps_max\":0", "steps_max");
    assert_refused("\"wire\":\"f16\"", "\"wire\":\"f8\"", "wire");
    assert_refused("\"activations\":\"q8\"", "\"activations\":\"q4\"", "activations");
    assert_refused("\"activations\":\"q8\",", "", "activations");
    assert_refused("\"gpu_math\":\"fast\"", "\"gpu_math\":\"faster\"", "gpu_math");
    assert_refused("\"gpu_math\":\"fast\"", "\"gpu_math\":true", "gpu_math");
    assert_refused("\"kv_type\":\"f16\"", "\"kv_type\":\"q4\"", "kv_type");
    assert_refused("\"kv_type\":\"f16\"", "\"kv_type\":16", "kv_type");
    assert_refused("\"model\":" MODEL, "\"model\":[]", "assignment.model");
    assert_refused("\"header_bytes\":100", "\"header_bytes\":1001", "header_bytes");
    assert_refused(HEX, "00", "header_sha256");
    assert_refused("/w", "", "weights_url");
    assert_refused("\"gateway\":false", "\"gateway\":0", "next.gateway");
    assert_refused("\"name\":\"b\"", "\"name\":\"\"", "next.name");
    assert_refused("\"address\":\"h:1\"", "\"address\":\"h\\u0001\"", "next.address");
    assert_refused("\"tls\":true", "\"tls\":\"yes\"", "next.tls");
    assert_refused("\"epoch\":7", "\"epoch\":7,\"epoch\":8", "JSON");
    assert_refused("\"hold\":true", "\"hold\":1", "prepare.hold");
    assert_refused("\"hold\":true", "\"hold\":true,\"bytes_per_s\":0", "prepare.bytes_per_s");
    assert_refused("\"previous_relay\":\"hut\"", "\"previous_relay\":\"a/b\"", "previous_relay");
    assert_refused("\"relay\":\"barn\"", "\"relay\":7", "next.relay");
    assert_refused("\"relay\":[{", "\"relay\":{},\"other\":[{", "relay");
    assert_refused("\"name\":\"e\"", "\"name\":\"..\"", "name must be");
    assert_refused("\"first_layer\":1", "\"first_layer\":4", "prepare.first_layer");
    assert_refused("\"wire\":\"q8\"", "\"wire\":8", "prepare.wire");
    assert_refused("\"prepare\":{", "\"prepare\":[],\"other\":{", "prepare");
    assert_refused("\"chain\":\"d\"", "\"chain\":\"\"", "try.chain");
    assert_refused("\"width\":576", "\"width\":0", "try.width");
    assert_refused("\"width\":576,\"wire\":\"f32\"", "\"width\":576,\"wire\":\"f64\"", "try.wire");
    assert_refused("\"name\":\"attic\"", "\"name\":7", "try.next.name");
    assert_refused("\"address\":\"h:2\"", "\"address\":null", "try.next.address");
    assert_refused("\"tls\":false", "\"tls\":0", "try.next.tls");
    assert_refused("\"try\":{", "\"try\":7,\"other\":{", "try");
    assert_refused("1048576", "0", "survey.bytes_max");
    assert_refused("\"name\":\"loft\"", "\"name\":7", "survey.next.name");
    assert_refused("\"survey\":{", "\"survey\":7,\"other\":{", "survey");
    assert_refused("\"may_go\":false", "\"may_go\":null", "leave.may_go");
    assert_refused("\"reason\":\"b", "\"reason\":\"\\n", "leave.reason");
}

static void assert_taken(const char *part, const char *instead) {
    char text[4096];
    const char *at = strstr(SOUND, part);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - SOUND), SOUND, instead, at + strlen(part));
    lh_assignment_reply answer;
    lh_error error = {.message = ""};
    if (lh_assignment_reply_parse(text, strlen(text), &answer, &error) != LH_OK)
        fail_msg("%s: %s", instead, error.message);
}

static void test_the_ends_of_ranges(void **state) {
    (void)state;
    const struct {
        const char *part, *last, *beyond, *named;
    } rows[] = {
        {"\"renew_ms\":1000", "\"renew_ms\":1", "\"renew_ms\":0", "renew_ms"},
        {"\"renew_ms\":1000", "\"renew_ms\":3600000", "\"renew_ms\":3600001", "renew_ms"},
        {"\"lease_ms\":5000", "\"lease_ms\":1", "\"lease_ms\":0", "lease_ms"},
        {"\"lease_ms\":5000", "\"lease_ms\":3600000", "\"lease_ms\":3600001", "lease_ms"},
        {"\"generation\":7", "\"generation\":0", "\"generation\":-1", "assignment.generation"},
        {"\"epoch\":7", "\"epoch\":0", "\"epoch\":-1", "assignment.epoch"},
        {"\"epoch\":7", "\"kv_epoch\":4294967295,\"epoch\":4294967295",
         "\"kv_epoch\":4294967296,\"epoch\":1", "assignment.kv_epoch"},
        {"\"layers\":5,\"context", "\"layers\":65536,\"context", "\"layers\":65537,\"context",
         "assignment.layers"},
        {"\"first_layer\":2,\"last_layer\":5", "\"first_layer\":4,\"last_layer\":5",
         "\"first_layer\":5,\"last_layer\":5", "assignment.first_layer"},
        {"\"first_layer\":2,\"last_layer\":5", "\"first_layer\":0,\"last_layer\":1",
         "\"first_layer\":0,\"last_layer\":0", "assignment.last_layer"},
        {"\"context\":2048", "\"context\":1", "\"context\":0", "assignment.context"},
        {"\"context\":2048", "\"context\":16777216", "\"context\":16777217", "assignment.context"},
        {"\"rows_max\":512", "\"rows_max\":1", "\"rows_max\":0", "assignment.rows_max"},
        {"\"rows_max\":512", "\"rows_max\":8192", "\"rows_max\":8193", "assignment.rows_max"},
        {"\"steps_max\":8", "\"steps_max\":1", "\"steps_max\":0", "assignment.steps_max"},
        {"\"steps_max\":8", "\"steps_max\":1024", "\"steps_max\":1025", "assignment.steps_max"},
        {"\"width\":576", "\"width\":65536", "\"width\":65537", "try.width"},
        {"\"file_bytes\":1000", "\"file_bytes\":1125899906842624",
         "\"file_bytes\":1125899906842625", "assignment.model.file_bytes"},
        {"\"file_bytes\":1000,\"header_bytes\":100", "\"file_bytes\":1,\"header_bytes\":1",
         "\"file_bytes\":0,\"header_bytes\":1", "assignment.model.file_bytes"},
        {"\"layers\":5,\"context", "\"layers\":5,\"context", "\"layers\":0,\"context",
         "assignment.layers"},
        {"\"header_bytes\":100", "\"header_bytes\":1", "\"header_bytes\":0",
         "assignment.model.header_bytes"},
        {"\"header_bytes\":100", "\"header_bytes\":1000", "\"header_bytes\":1001",
         "assignment.model.header_bytes must be at most file_bytes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_taken(rows[i].part, rows[i].last);
        assert_refused(rows[i].part, rows[i].beyond, rows[i].named);
    }
    assert_refused("\"header_sha256\":\"" HEX, "\"header_sha256\":\"g" HEX_REST,
                   "64 lower-case hex digits");
    assert_refused("\"header_sha256\":\"" HEX, "\"header_sha256\":\"" HEX_REST,
                   "64 lower-case hex digits");
    assert_taken("{\"gateway\":false,\"name\":\"attic\",\"address\":\"h:2\",\"tls\":false}",
                 "{\"gateway\":true}");
    assert_taken("\"try\":{", "\"try\":null,\"other\":{");
    assert_taken("\"survey\":{", "\"survey\":null,\"other\":{");
    assert_taken("\"epoch\":7", "\"kv_epoch\":0,\"epoch\":7");
    assert_taken("\"first_layer\":2,\"last_layer\":5,\"layers\":5",
                 "\"first_layer\":0,\"last_layer\":1,\"layers\":1");
    assert_refused("\"reason\":\"b", "\"reason\":\"\\u007f", "leave.reason");
    assert_refused("\"assignment\":{", "\"assigned\":{", "assignment must be");
}

static void test_every_truncation_is_refused(void **state) {
    (void)state;
    lh_assignment_reply answer;
    for (size_t length = 0; length < strlen(SOUND); length++)
        assert_int_equal(lh_assignment_reply_parse(SOUND, length, &answer, NULL), LH_ERR_MALFORMED);
    const char *others[] = {"null", "[]", "\xff", "{\"renew_ms\":NaN}", "{}"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_int_equal(lh_assignment_reply_parse(others[i], strlen(others[i]), &answer, NULL),
                         LH_ERR_MALFORMED);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer),
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(a_team_is_read),
        cmocka_unit_test(a_part_to_be_prepared_is_read),
        cmocka_unit_test(a_bad_team_is_refused_by_name),
        cmocka_unit_test(whom_both_sides_trust_is_said),
        cmocka_unit_test(test_one_stage_or_another),
        cmocka_unit_test(test_one_assignment_or_another),
        cmocka_unit_test(test_the_ends_of_ranges),
        cmocka_unit_test(test_bad_answers_are_refused_by_name),
        cmocka_unit_test(test_every_truncation_is_refused),
    };
    json_set_alloc_funcs(malloc, free); /* the counted ones */
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
