/* Replies to many made-up states, byte for byte as tests/vectors/control_replies.txt has them: what
 * a gateway of another release writes. With LONGHAUL_WRITE_VECTORS set the file is written anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/port/control_json.h"
#include "tests/gateway/support/tiny_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATES 48
#define PATH   TEST_SOURCE_DIR "/vectors/control_replies.txt"

static uint64_t dice;

static uint64_t roll(uint64_t below) {
    dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
    return dice % below;
}

static bool coin(void) {
    return roll(2) == 1;
}

static const char *name_one(void) {
    static const char *const names[] = {"attic", "loft-2", "a.b_c", "cellar"};
    return names[roll(4)];
}

static const char *address_one(void) {
    static const char *const addresses[] = {"[::1]:7101", "10.0.0.2:1", "a.example:65535", "b:9"};
    return addresses[roll(4)];
}

static lh_chain_stage stage_of(void) {
    lh_chain_stage stage = {.first_layer = (uint32_t)roll(10),
                            .last_layer = 10 + (uint32_t)roll(10),
                            .way = {.tls = coin()},
                            .wire = (lh_wire_type)roll(3),
                            .kv_epoch = (uint32_t)roll(UINT32_MAX)};
    strcpy(stage.name, name_one());
    strcpy(stage.way.worker, stage.name);
    strcpy(stage.way.address, address_one());
    if (coin())
        strcpy(stage.way.via, name_one());
    stage.team.follower_count = (uint32_t)roll(3);
    stage.team.epoch = (uint32_t)roll(UINT32_MAX);
    for (uint32_t i = 0; i <= stage.team.follower_count; i++) {
        strcpy(stage.team.followers[i].name, name_one());
        stage.team.weights[i] = 1 + (uint32_t)roll(1000);
    }
    for (size_t i = 0; i < sizeof stage.team.secret; i++)
        stage.team.secret[i] = (uint8_t)roll(256);
    return stage;
}

static lh_assignment assignment_of(void) {
    lh_assignment a = {.chain = name_one(),
                       .epoch = (uint32_t)roll(UINT32_MAX),
                       .stage = stage_of(),
                       .next = stage_of().way};
    a.next.is_gateway = !coin();
    a.previous = coin() ? name_one() : NULL;
    a.member = (uint32_t)roll(a.stage.team.follower_count + 1);
    for (uint32_t i = 0; i <= a.stage.team.follower_count; i++)
        a.member_addresses[i] = coin() ? address_one() : "";
    return a;
}

static lh_survey_task survey_of(void) {
    lh_survey_task survey = {.to = {.tls = coin()}, .bytes_max = 1 + roll(UINT32_MAX)};
    survey.to.is_gateway = !coin();
    if (!survey.to.is_gateway) {
        strcpy(survey.to.worker, name_one());
        strcpy(survey.to.address, address_one());
    }
    return survey;
}

static lh_fleet_answer answer_of(uint64_t seed, const lh_fleet_options *options,
                                 lh_way relayed[LH_RELAY_REACHES_MAX]) {
    dice = seed * UINT64_C(0x9e3779b97f4a7c15);
    lh_fleet_answer answer = {.options = options,
                              .renew_us = 1000 + (int64_t)roll(10000000),
                              .lease_us = 1000 + (int64_t)roll(100000000),
                              .is_planned = coin(),
                              .has_assignment = coin(),
                              .is_urgent = coin(),
                              .has_prepare = coin(),
                              .prepare_holds = coin(),
                              .has_trial = coin(),
                              .has_survey = coin(),
                              .relayed = relayed,
                              .relayed_count = (uint32_t)roll(4),
                              .is_leaving = coin(),
                              .may_go = coin(),
                              .leave_reason = "b \"loads\" its layers: 35 %"};
    answer.assignment = assignment_of();
    answer.prepare = assignment_of();
    answer.trial = assignment_of();
    answer.survey = survey_of();
    for (uint32_t i = 0; i < answer.relayed_count; i++) {
        strcpy(relayed[i].worker, name_one());
        strcpy(relayed[i].address, address_one());
        relayed[i].tls = coin();
    }
    if (coin())
        answer.trust_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    return answer;
}

static void replies_are_the_same_bytes_as_ever(void **state) {
    (void)state;
    static char line[LH_CONTROL_BODY_BYTES_MAX];
    static lh_way relayed[LH_RELAY_REACHES_MAX];
    static const char *const kv_types[] = {"f32", "f16", "q8"};
    const bool is_writing = getenv("LONGHAUL_WRITE_VECTORS");
    lh_model_file *model_file = open_tiny_model();
    const lh_fleet_model model = {"tiny \"quoted\"", model_file, "/w", "/t", "/b", "/p"};
    const lh_model_profile profile = {.layers = 20, .width = 576};
    FILE *file = fopen(PATH, is_writing ? "w" : "r");
    assert_non_null(file);
    for (uint64_t seed = 1; seed <= STATES; seed++) {
        const lh_fleet_options options = {.model = &profile,
                                          .context = 4096,
                                          .rows_max = 512,
                                          .has_q16 = seed & 1,
                                          .has_fast_math = seed & 2,
                                          .kv_type = kv_types[seed % 3]};
        const lh_fleet_answer answer = answer_of(seed, &options, relayed);
        char *text = lh_control_json_render_answer(&answer, &model);
        assert_non_null(text);
        if (is_writing) {
            fprintf(file, "%s\n", text);
        } else {
            assert_non_null(fgets(line, sizeof line, file));
            line[strcspn(line, "\n")] = '\0';
            assert_string_equal(text, line);
        }
        free(text);
    }
    assert_true(is_writing || !fgets(line, sizeof line, file));
    fclose(file);
    lh_model_file_close(model_file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_are_the_same_bytes_as_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
