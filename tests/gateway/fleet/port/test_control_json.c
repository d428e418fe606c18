/* What the fleet port answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/cost/pipeline_depth.h"
#include "gateway/fleet/port/control_json.h"
#include "tests/gateway/support/tiny_model.h"
#include "tests/support/failing_malloc.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void an_answer_holds_what_the_worker_needs(void **state) {
    (void)state;
    lh_model_file *file = open_tiny_model();
    lh_fleet_model model = {"tiny \"quoted\"", file, "/w", "/t", "/b", "/p"};
    const lh_model_profile profile = {.layers = 2, .width = 576};
    const lh_fleet_options options = {
        .model = &profile, .context = 256, .rows_max = 64, .has_q16 = true, .kv_type = "f16"};
    lh_fleet_answer answer = {
        .options = &options,
        .renew_us = 500000,
        .lease_us = 3000000,
        .has_assignment = true,
        .is_urgent = true,
        .assignment = {.chain = "main",
                       .epoch = 4000000000u,
                       .stage = {.first_layer = 1,
                                 .last_layer = 2,
                                 .kv_epoch = 3999999999u,
                                 .wire = LH_WIRE_F16},
                       .next = {.worker = "b", .address = "10.0.0.2:7101", .tls = true}}};
    char *text = lh_control_json_render_answer(&answer, &model);
    json_t *json = json_loads(text, 0, NULL);
    json_t *assignment = json_object_get(json, "assignment");
    assert_int_equal(json_integer_value(json_object_get(json, "renew_ms")), 500);
    assert_true(json_is_true(json_object_get(json, "urgent")));
    assert_int_equal(json_integer_value(json_object_get(assignment, "generation")), 4000000000);
    assert_int_equal(json_integer_value(json_object_get(assignment, "epoch")), 4000000000);
    assert_int_equal(json_integer_value(json_object_get(assignment, "kv_epoch")), 3999999999);
    assert_true(json_is_null(json_object_get(assignment, "previous")));
    assert_int_equal(json_integer_value(json_object_get(assignment, "steps_max")),
                     LH_WORKER_BUFFERS);
    assert_string_equal(json_string_value(json_object_get(assignment, "wire")), "f16");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(assignment, "model"), "name")),
        model.name);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(assignment, "model"), "header_sha256")),
        lh_model_file_header_sha256(file));
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(assignment, "next"), "address")),
        "10.0.0.2:7101");
    assert_true(json_is_true(json_object_get(json_object_get(assignment, "next"), "tls")));
    assert_null(json_object_get(assignment, "previous_relay"));
    assert_null(json_object_get(json_object_get(assignment, "next"), "relay"));
    json_decref(json);
    free(text);
    strcpy(answer.assignment.stage.way.via, "hut");
    strcpy(answer.assignment.next.via, "barn");
    const lh_way relayed[] = {{.worker = "c", .address = "h:4"},
                              {.worker = "d", .address = "h:5", .tls = true}};
    answer.relayed = relayed;
    answer.relayed_count = 2;
    text = lh_control_json_render_answer(&answer, &model);
    assert_non_null(strstr(text, "\"previous_relay\":\"hut\""));
    assert_non_null(strstr(text, "\"tls\":true,\"relay\":\"barn\"}"));
    assert_non_null(strstr(text, "\"relay\":[{\"name\":\"c\",\"address\":\"h:4\",\"tls\":false},{"
                                 "\"name\":\"d\",\"address\":\"h:5\",\"tls\":true}]"));
    free(text);
    assert_null(strstr(text = lh_control_json_render_answer(&answer, &model), "\"team\""));
    free(text);
    strcpy(answer.assignment.stage.name, "a");
    answer.assignment.stage.team = (lh_chain_team){
        .follower_count = 1, .followers = {{"f", 3}}, .weights = {1000, 400}, .epoch = 6};
    answer.assignment.member = 1;
    answer.assignment.member_addresses[0] = "h:6";
    answer.assignment.member_addresses[1] = "h:7";
    text = lh_control_json_render_answer(&answer, &model);
    assert_non_null(strstr(
        text, "\"team\":{\"own\":1,\"epoch\":6,\"secret\":\"00000000000000000000000000000000"
              "00000000000000000000000000000000\",\"members\":[{\"name\":\"a\",\"address\":"
              "\"h:6\",\"weight\":1000},{\"name\":\"f\",\"address\":\"h:7\",\"weight\":400}]}"));
    free(text);
    answer.has_prepare = true;
    answer.prepare = answer.assignment;
    answer.has_assignment = false;
    text = lh_control_json_render_answer(&answer, &model);
    assert_non_null(
        strstr(text, "\"chain\":\"main\",\"hold\":false,\"team\":{\"own\":1,\"epoch\":6,"));
    free(text);
    answer.has_prepare = false;
    answer.has_assignment = true;
    answer.assignment.stage.team.follower_count = 0;
    answer.relayed_count = 0;
    answer.assignment.next.is_gateway = true;
    text = lh_control_json_render_answer(&answer, &model);
    assert_non_null(strstr(text, "\"next\":{\"gateway\":true}"));
    free(text);
    answer.has_assignment = false;
    text = lh_control_json_render_answer(&answer, &model);
    assert_non_null(strstr(text,
                           "\"assignment\":null,\"prepare\":null,\"try\":null,\"survey\":null,"
                           "\"relay\":null,\"leave\":null"));
    free(text);
    answer.has_prepare = answer.prepare_holds = answer.is_leaving = true;
    answer.prepare = answer.assignment;
    answer.leave_reason = "others load";
    text = lh_control_json_render_answer(&answer, &model);
    assert_non_null(
        strstr(text, "\"first_layer\":1,\"last_layer\":2,\"layers\":2,\"context\":256,\"rows_max\":"
                     "64,\"steps_max\":6,\"activations\":\"q16\",\"gpu_math\":\"exact\","
                     "\"kv_type\":\"f16\",\"wire\":\"f16\","
                     "\"chain\":\"main\",\"hold\":true}"));
    free(text);
    answer.prepare_bytes_per_s = 1000;
    text = lh_control_json_render_answer(&answer, &model);
    assert_non_null(strstr(text, "\"hold\":true,\"bytes_per_s\":1000}"));
    assert_non_null(strstr(text, "\"leave\":{\"may_go\":false,\"reason\":\"others load\"}"));
    free(text);
    answer.has_trial = true;
    answer.trial = (lh_assignment){.chain = "main",
                                   .stage = {.wire = LH_WIRE_Q8},
                                   .next = {.worker = "attic", .address = "h:2"}};
    text = lh_control_json_render_answer(&answer, &model);
    assert_non_null(
        strstr(text, "\"try\":{\"chain\":\"main\",\"width\":576,\"wire\":\"q8\",\"next\":{"));
    assert_non_null(strstr(text, "\"name\":\"attic\",\"address\":\"h:2\",\"tls\":false}}"));
    free(text);
    answer.trial.next.is_gateway = true;
    text = lh_control_json_render_answer(&answer, &model);
    assert_non_null(strstr(text, "\"wire\":\"q8\",\"next\":{\"gateway\":true}}"));
    free(text);
    answer.has_survey = true;
    answer.survey = (lh_survey_task){
        .from = "a", .to = {.worker = "loft", .address = "h:3", .tls = true}, .bytes_max = 1 << 20};
    text = lh_control_json_render_answer(&answer, &model);
    assert_non_null(strstr(text, "\"survey\":{\"bytes_max\":1048576,\"next\":{\"gateway\":false,"
                                 "\"name\":\"loft\",\"address\":\"h:3\",\"tls\":true}}"));
    free(text);
    lh_model_file_close(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_holds_what_the_worker_needs),
    };
    json_set_alloc_funcs(malloc, free); /* the counted ones */
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
