/* Workers that say what a test wants. */
#include "tests/gateway/support/worker_reports.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

const lh_model_profile four_layers = {.layers = 4,
                                      .context = 64,
                                      .width = 576,
                                      .gather_row_bytes = 7000,
                                      .layer_bytes = {100, 100, 100, 100},
                                      .row_bytes = {100, 100, 100, 100}};

lh_fleet_options fleet_of_four_layers(uint32_t workers_expected) {
    return (lh_fleet_options){.model = &four_layers,
                              .chain_name = "main",
                              .model_digest = "ours",
                              .kv_type = "f32",
                              .origin = {.site = "home", .has_tls = true},
                              .workers_expected = workers_expected,
                              .context = 64,
                              .rows_max = 16,
                              .wire = {.type = LH_WIRE_F32},
                              .plan_delay_us = 1500 * MS,
                              .renew_us = 500 * MS,
                              .lease_us = 3000 * MS,
                              .probation_us = 1000 * MS,
                              .first_epoch = 1000};
}

lh_worker_report report_of(const char *name) {
    lh_worker_report report = {.instance = 1, .threads = 1, .memory_bytes = 1000};
    snprintf(report.name, sizeof report.name, "%s", name);
    snprintf(report.site, sizeof report.site, "home");
    snprintf(report.plain_address, sizeof report.plain_address, "%s:1", name);
    return report;
}

void make_ready(lh_worker_report *report, uint32_t epoch) {
    report->assignment.state = LH_WORKER_READY;
    report->assignment.generation = epoch;
    report->next.present = report->next.connected = true;
    report->kv.present = true;
    report->kv.pages_total = 10;
    report->kv.page_positions = 16;
}

lh_hop_trial_report trial_of_hop(const lh_chain *chain, uint32_t hop, lh_hop_trial_state state) {
    lh_hop_trial_report trial = {.state = state};
    if (hop < chain->stage_count) {
        snprintf(trial.next, sizeof trial.next, "%s", chain->stages[hop].name);
        snprintf(trial.address, sizeof trial.address, "%s", chain->stages[hop].way.address);
    }
    if (state == LH_HOP_TRIAL_FAILED)
        snprintf(trial.error, sizeof trial.error, "connection refused");
    return trial;
}

lh_fleet_answer put_report(lh_fleet *fleet, const lh_worker_report *report, int64_t now_us) {
    lh_fleet_answer answer;
    assert_int_equal(lh_fleet_put(fleet, report, now_us, &answer, NULL), LH_OK);
    return answer;
}

void register_report(lh_registry *registry, const lh_worker_report *report, int64_t now_us) {
    lh_registry_change change;
    assert_int_equal(lh_registry_put(registry, report, now_us, &change, NULL), LH_OK);
}
