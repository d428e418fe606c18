/* Reports of many made-up states, byte for byte as tests/vectors/control_reports.txt has them: what
 * a worker of another release reads and writes. With LONGHAUL_WRITE_VECTORS set the file is
 * written anew. */
#include "common/protocol/control/report_fields.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STATES 48
#define PATH   TEST_SOURCE_DIR "/vectors/control_reports.txt"

static uint64_t dice;

static uint64_t roll(uint64_t below) {
    dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
    return dice % below;
}

static bool coin(void) {
    return roll(2) == 1;
}

/* Small, large, and beyond what JSON's integers hold. */
static uint64_t count(void) {
    static const uint64_t ends[] = {0, 1, INT64_MAX, UINT64_MAX};
    return roll(5) == 0 ? ends[roll(4)] : roll(UINT64_C(1) << (1 + roll(50)));
}

/* What an estimate may be that went wrong, too. */
static double estimate(double most) {
    const double ends[] = {0, -1, most, most * 2, 1.0 / 3, -0.5};
    return roll(5) == 0 ? ends[roll(6)] : most * (double)roll(1000000) / 1e6;
}

static void name_one(char name[LH_WORKER_NAME_BYTES]) {
    static const char *const names[] = {"", "attic", "loft-2", "a.b_c"};
    strcpy(name, names[roll(4)]);
}

static void text_of(char *text) {
    static const char *const texts[] = {"", "h:1: connection refused",
                                        "gr\xc3\xb6\xc3\x9f"
                                        "er \"x\"\\\n",
                                        "no UTF-8: \xff"};
    strcpy(text, texts[roll(4)]);
}

static void address_of(char address[LH_ADDRESS_BYTES]) {
    static const char *const addresses[] = {"", "[::1]:7101", "10.0.0.2:1", "a.example:65535"};
    strcpy(address, addresses[roll(4)]);
}

static void digest_of(char digest[LH_MODEL_DIGEST_BYTES]) {
    for (size_t i = 0; i + 1 < LH_MODEL_DIGEST_BYTES; i++)
        digest[i] = "0123456789abcdef"[roll(16)];
}

static lh_hop_profile hop_of(void) {
    if (roll(3) == 0)
        return (lh_hop_profile){0};
    return (lh_hop_profile){.present = true,
                            .connected = coin(),
                            .refused = coin(),
                            .round_trip_us = (int64_t)count(),
                            .bytes_per_us = estimate(1e6),
                            .bytes_per_us_is_bound = coin(),
                            .bytes_per_us_deviation = estimate(1e6),
                            .ready_bytes = estimate(1e12),
                            .age_us = (int64_t)count(),
                            .bytes_sent = count(),
                            .probe_bytes_sent = count()};
}

static lh_compute_profile compute_of(void) {
    lh_compute_profile compute = {.point_count = (uint32_t)roll(LH_COMPUTE_POINTS_MAX + 1),
                                  .us_per_row_position = estimate(1e12),
                                  .take_share = estimate(1),
                                  .give_share = estimate(1),
                                  .draw_us = estimate(1e12),
                                  .draw_more_us = estimate(1e12),
                                  .shard_us = estimate(1e12),
                                  .step_us = estimate(1e12),
                                  .calibrated_times = estimate(1e12),
                                  .age_us = (int64_t)count()};
    for (uint32_t i = 0; i < compute.point_count; i++)
        compute.points[i] = (lh_compute_point){i * i + 1, estimate(1e12)};
    return compute;
}

static lh_hop_trial_report trial_of(void) {
    lh_hop_trial_report trial = {.state = (lh_hop_trial_state)roll(4), .hop = hop_of()};
    name_one(trial.next);
    address_of(trial.address);
    text_of(trial.error);
    return trial;
}

static void relay_of(lh_worker_report *report) {
    report->relays = coin();
    report->is_behind_relay = !report->relays && coin();
    report->reach_count = report->relays ? (uint32_t)roll(4) : 0;
    for (uint32_t i = 0; i < report->reach_count; i++) {
        strcpy(report->reaches[i].name, "behind");
        report->reaches[i].hop = hop_of();
        text_of(report->reaches[i].error);
    }
}

static void cache_of(lh_worker_report *report) {
    report->cached_count = (uint32_t)roll(LH_CACHED_MODELS_MAX + 1);
    for (uint32_t i = 0; i < report->cached_count; i++) {
        digest_of(report->cached[i].model);
        for (uint32_t layer = 0; layer < 30; layer++)
            if (coin())
                lh_cached_layers_add(&report->cached[i], layer);
    }
}

static void stages_of(lh_worker_report *report) {
    report->assignment.state = (lh_worker_stage_state)roll(5);
    report->assignment.generation = count();
    report->assignment.done_bytes = count();
    report->assignment.total_bytes = count();
    report->assignment.is_joining = coin();
    report->assignment.is_final = coin();
    text_of(report->assignment.error);
    report->prepared.state = (lh_worker_stage_state)roll(5);
    report->prepared.first_layer = (uint32_t)roll(40);
    report->prepared.last_layer = (uint32_t)count();
    report->prepared.team_epoch = coin() ? (uint32_t)count() : 0;
    report->prepared.holds = coin();
    report->prepared.done_bytes = count();
    report->prepared.total_bytes = count();
    report->prepared.is_joining = coin();
    report->prepared.is_final = coin();
    text_of(report->prepared.error);
    report->loaded.present = coin();
    report->loaded.last_layer = (uint32_t)count();
    digest_of(report->loaded.model);
    report->kv.present = coin();
    report->kv.pages_total = count();
    report->kv.pages_free = count();
    report->kv.page_positions = (uint32_t)count();
    report->kv.page_bytes = count();
    report->kv.sequences = (uint32_t)count();
    report->kv.epoch = (uint32_t)count();
}

static lh_worker_report report_of(uint64_t seed) {
    lh_worker_report report = {.version = "0.1.0", .isa = "avx2"};
    dice = seed * UINT64_C(0x9e3779b97f4a7c15);
    report.instance = count();
    report.threads = (uint32_t)roll(65537);
    report.memory_bytes = count();
    report.kv_bytes = count();
    report.slowdown = coin() ? 1 + estimate(100) : 0;
    report.leaving = coin();
    report.steps.active = count();
    report.steps.done = count();
    report.steps.failed = count();
    name_one(report.site);
    address_of(report.tls_address);
    address_of(report.plain_address);
    address_of(report.member_address);
    text_of(report.next_error);
    if (coin())
        digest_of(report.trust_sha256);
    report.speed = (lh_machine_speed){estimate(1e12), estimate(1e12)};
    report.compute = compute_of();
    report.next = hop_of();
    report.trial = trial_of();
    report.surveyed = trial_of();
    for (lh_host_fact fact = 0; fact < LH_HOST_FACT_COUNT; fact++)
        if (seed % 3 && coin())
            lh_host_facts_set(&report.host, fact, (int64_t)(count() & INT64_MAX));
    relay_of(&report);
    cache_of(&report);
    stages_of(&report);
    return report;
}

static void reports_are_the_same_bytes_as_ever(void **state) {
    (void)state;
    static char line[LH_CONTROL_BODY_BYTES_MAX];
    const bool is_writing = getenv("LONGHAUL_WRITE_VECTORS");
    FILE *file = fopen(PATH, is_writing ? "w" : "r");
    assert_non_null(file);
    for (uint64_t seed = 1; seed <= STATES; seed++) {
        const lh_worker_report report = report_of(seed);
        char *text = lh_worker_report_render(&report);
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
}

/* A control character is read as a question mark. */
static void mark_line_feeds(char *text) {
    for (char *at; (at = strstr(text, "\\n\""));) {
        *at = '?';
        memmove(at + 1, at + 2, strlen(at + 2) + 1);
    }
}

/* Some of the states are none that a worker may be in: it is at no site, nobody reaches it. */
static void what_is_read_is_what_was_written(void **state) {
    (void)state;
    uint32_t read = 0;
    for (uint64_t seed = 1; seed <= STATES; seed++) {
        lh_worker_report report = report_of(seed), got;
        lh_error error;
        char *text = lh_worker_report_render(&report);
        if (lh_worker_report_parse("w", text, strlen(text), &got, &error) == LH_OK) {
            char *again = lh_worker_report_render(&got);
            mark_line_feeds(text);
            assert_string_equal(again, text);
            free(again);
            read++;
        } else {
            assert_int_equal(error.status, LH_ERR_INVALID);
        }
        free(text);
    }
    assert_true(read > STATES / 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_are_the_same_bytes_as_ever),
        cmocka_unit_test(what_is_read_is_what_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
