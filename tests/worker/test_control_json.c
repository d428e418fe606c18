/* The control plane's texts: reports that a gateway can read, answers that are checked field by field. */
#include "worker/assignment/control_json.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_report(void **state) {
    (void)state;
    lh_worker_report report = {.name = "w",
                               .instance = 0x0123456789abcdefu,
                               .site = "home",
                               .version = "1",
                               .isa = "avx2",
                               .threads = 4,
                               .plain_address = "127.0.0.1:7101",
                               .memory_bytes = 1000,
                               .kv_bytes = 2000,
                               .steps = {1, 2, 3},
                               .leaving = true};
    char *text = lh_control_report_render(&report);
    assert_string_equal(
        text, "{\"protocol\":3,\"instance\":\"0123456789abcdef\",\"site\":\"home\",\"version\":\"1\",\"isa\":"
              "\"avx2\","
              "\"threads\":4,\"addresses\":{\"tls\":null,\"plain\":\"127.0.0.1:7101\"},\"memory_bytes\":1000,"
              "\"kv_bytes\":2000,\"speed\":null,\"assignment\":null,\"prepared\":null,\"loaded\":null,"
              "\"compute\":null,"
              "\"next\":null,\"kv\":null,"
              "\"steps\":{\"active\":1,\"done\":2,\"failed\":3},\"leaving\":true}");
    free(text);
    report.assignment.generation = 9;
    report.assignment.state = LH_WORKER_FAILED;
    lh_worker_report_copy_error(report.assignment.error, "no space on \xff");
    report.compute = (lh_compute_profile){.point_count = 2, .points = {{1, 0.125}, {8, 1000.0}}};
    report.next.present = report.kv.present = true;
    report.prepared.state = LH_WORKER_LOADING;
    report.prepared.first_layer = 3;
    report.prepared.last_layer = 7;
    report.prepared.done_bytes = 11;
    report.loaded.present = true;
    report.loaded.first_layer = 2;
    report.loaded.last_layer = 6;
    report.kv.epoch = 77;
    strcpy(report.loaded.model, "abc");
    report.slowdown = 2.5;
    report.speed = (lh_machine_speed){12.5, 60};
    text = lh_control_report_render(&report);
    assert_non_null(strstr(text, "\"points\":[{\"rows\":1,\"us\":0.125},{\"rows\":8,\"us\":1000.0}]"));
    assert_non_null(
        strstr(text, "\"prepared\":{\"first_layer\":3,\"last_layer\":7,\"hold\":false,\"state\":\"loading\","
                     "\"done_bytes\":11,\"total_bytes\":0,\"error\":\"\"}"));
    assert_non_null(strstr(text, "\"loaded\":{\"first_layer\":2,\"last_layer\":6,\"model\":\"abc\"}"));
    assert_non_null(strstr(text, "\"epoch\":77}"));
    json_t *root = json_loads(text, 0, NULL);
    json_t *assignment = json_object_get(root, "assignment");
    assert_string_equal(json_string_value(json_object_get(assignment, "state")), "failed");
    assert_non_null(strstr(json_string_value(json_object_get(assignment, "error")), "not UTF-8"));
    assert_true(json_real_value(json_object_get(root, "slowdown")) == 2.5);
    assert_true(json_real_value(json_object_get(json_object_get(root, "speed"), "prompt_us")) == 12.5);
    assert_true(json_is_object(json_object_get(root, "next")) && json_is_object(json_object_get(root, "kv")));
    json_decref(root);
    free(text);
}

#define MODEL                                                                                                \
    "{\"name\":\"m\",\"file_bytes\":1000,\"header_bytes\":100,\"header_sha256\":\"" HEX                      \
    "\",\"weights_url\":\"/w\","                                                                             \
    "\"tensors_url\":\"/t\"}"
#define HEX "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define SOUND                                                                                                \
    "{\"renew_ms\":1000,\"lease_ms\":5000,\"planned\":true,\"urgent\":true,\"assignment\":{\"generation\":"  \
    "7,\"chain\":"                                                                                           \
    "\"c\",\"epoch\":7,"                                                                                     \
    "\"model\":" MODEL ",\"first_layer\":2,\"last_layer\":5,\"layers\":5,\"context\":2048,\"rows_max\":512," \
    "\"steps_max\":8,\"activations\":\"q8\",\"wire\":\"f16\","                                               \
    "\"next\":{\"gateway\":false,\"name\":\"b\",\"address\":\"h:1\",\"tls\":true}},"                         \
    "\"prepare\":{\"model\":" MODEL ",\"first_layer\":1,\"last_layer\":4,\"layers\":5,\"context\":2048,"     \
    "\"rows_max\":512,\"steps_max\":8,\"activations\":\"q16\",\"wire\":\"q8\",\"hold\":true},"               \
    "\"leave\":{\"may_go\":false,\"reason\":\"b loads its layers\"}}"

static void test_answer(void **state) {
    (void)state;
    lh_control_answer answer;
    lh_error error;
    assert_int_equal(lh_control_answer_parse(SOUND, strlen(SOUND), &answer, &error), LH_OK);
    assert_true(answer.is_planned && answer.is_urgent && answer.has_assignment && answer.renew_ms == 1000 &&
                answer.lease_ms == 5000);
    const lh_control_assignment *a = &answer.assignment;
    assert_true(a->generation == 7 && a->epoch == 7 && a->first_layer == 2 && a->last_layer == 5 &&
                a->layers == 5);
    assert_true(a->context == 2048 && a->rows_max == 512 && a->steps_max == 8);
    assert_int_equal(a->activations, LH_ACTIVATION_Q8);
    assert_true(a->wire == LH_WIRE_F16 && !a->next_is_gateway && a->next_tls);
    assert_string_equal(a->next_address, "h:1");
    assert_string_equal(a->model.header_sha256, HEX);
    a = &answer.prepare;
    assert_true(answer.has_prepare && answer.prepare_holds);
    assert_true(a->first_layer == 1 && a->last_layer == 4 && a->layers == 5 && a->context == 2048);
    assert_true(a->rows_max == 512 && a->steps_max == 8 && a->wire == LH_WIRE_Q8);
    assert_int_equal(a->activations, LH_ACTIVATION_Q16);
    lh_control_assignment precise = *a;
    assert_true(lh_control_is_same_stage(a, &precise));
    precise.activations = LH_ACTIVATION_Q8;
    assert_false(lh_control_is_same_stage(a, &precise));
    assert_string_equal(a->model.header_sha256, HEX);
    assert_false(lh_control_is_same_stage(a, &answer.assignment));
    assert_true(answer.has_leave && !answer.may_go);
    assert_string_equal(answer.leave_reason, "b loads its layers");
    const char *none = "{\"renew_ms\":1,\"lease_ms\":2,\"planned\":false,\"assignment\":null,\"new\":[]}";
    assert_int_equal(lh_control_answer_parse(none, strlen(none), &answer, &error), LH_OK);
    assert_false(answer.has_assignment || answer.is_planned || answer.has_prepare || answer.has_leave ||
                 answer.is_urgent);
}

/* The sound answer with one part replaced. */
static void assert_refused(const char *part, const char *instead, const char *named) {
    char text[4096];
    const char *at = strstr(SOUND, part);
    assert_non_null(at);
    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - SOUND), SOUND, instead, at + strlen(part));
    lh_control_answer answer;
    lh_error error = {0};
    assert_int_equal(lh_control_answer_parse(text, strlen(text), &answer, &error), LH_ERR_MALFORMED);
    if (strstr(error.message, named) == NULL) {
        fail_msg("'%s' does not name %s", error.message, named);
    }
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
    assert_refused("\"first_layer\":1", "\"first_layer\":4", "prepare.first_layer");
    assert_refused("\"wire\":\"q8\"", "\"wire\":8", "prepare.wire");
    assert_refused("\"prepare\":{", "\"prepare\":[],\"other\":{", "prepare");
    assert_refused("\"may_go\":false", "\"may_go\":null", "leave.may_go");
    assert_refused("\"reason\":\"b", "\"reason\":\"\\n", "leave.reason");
}

static void test_every_truncation_is_refused(void **state) {
    (void)state;
    lh_control_answer answer;
    for (size_t length = 0; length < strlen(SOUND); length++) {
        assert_int_equal(lh_control_answer_parse(SOUND, length, &answer, NULL), LH_ERR_MALFORMED);
    }
    const char *others[] = {"null", "[]", "\xff", "{\"renew_ms\":NaN}", "{}"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_int_equal(lh_control_answer_parse(others[i], strlen(others[i]), &answer, NULL),
                         LH_ERR_MALFORMED);
    }
}

static void test_names(void **state) {
    (void)state;
    char longest[65];
    memset(longest, 'a', 64);
    longest[64] = '\0';
    assert_false(lh_control_name_is_valid(longest));
    longest[63] = '\0';
    assert_true(lh_control_name_is_valid(longest));
    assert_true(lh_control_name_is_valid("A.b_c-9"));
    assert_false(lh_control_name_is_valid(""));
    assert_false(lh_control_name_is_valid("a b"));
    assert_false(lh_control_name_is_valid("a/b"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report),
        cmocka_unit_test(test_answer),
        cmocka_unit_test(test_bad_answers_are_refused_by_name),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
