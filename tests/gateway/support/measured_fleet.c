/* Reports, links and a chain, put together by hand. */
#include "tests/gateway/support/measured_fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/gateway/support/worker_reports.h"

#define MIB 1048576u

static const lh_model_profile model = {.layers = MEASURED_LAYERS,
                                       .context = 4096,
                                       .width = 576,
                                       .gather_row_bytes = 7000,
                                       .layer_bytes = {[0 ... MEASURED_LAYERS - 1] = MIB},
                                       .row_bytes = {[0 ... MEASURED_LAYERS - 1] = MIB},
                                       .embedding_bytes = MIB,
                                       .head_bytes = MIB / 64};

void measured_fleet_create(measured_fleet *f) {
    *f = (measured_fleet){.options = fleet_of_four_layers(0), .now_us = INT64_C(3600000000)};
    f->options.model = &model;
    f->options.rebalance_delay_us = 10000 * MS;
    f->options.aim = (lh_aim){.goal = LH_GOAL_TPOT, .prompt_rows = 512, .sequences_max = 8};
    assert_int_equal(lh_link_matrix_create(&f->links, NULL), LH_OK);
    f->options.links = f->links;
    f->planner.options = &f->options;
    assert_int_equal(lh_registry_create(INT64_C(3600000000), &f->registry, NULL), LH_OK);
    snprintf(f->chain.name, sizeof f->chain.name, "main");
}

void measured_fleet_destroy(measured_fleet *f) {
    lh_live_planner_reset(&f->planner);
    lh_registry_destroy(f->registry);
    lh_link_matrix_destroy(f->links);
}

void measured_fleet_add(measured_fleet *f, const char *name, const char *site, double layer_us) {
    lh_worker_report *report = &f->reports[f->count];
    *report = report_of(name);
    snprintf(report->site, sizeof report->site, "%s", site);
    report->memory_bytes = 100 * MIB;
    report->speed = (lh_machine_speed){layer_us / 8, layer_us / 2};
    f->layer_us[f->count++] = layer_us;
    register_report(f->registry, report, f->now_us);
}

void measured_fleet_let_join(measured_fleet *f) {
    f->options.teams.is_auto = true;
    for (uint32_t i = 0; i < f->count; i++) {
        strcpy(f->reports[i].member_address, "room:2");
        register_report(f->registry, &f->reports[i], f->now_us);
    }
}

void measured_fleet_follow(measured_fleet *f, uint32_t stage, const char *name) {
    f->followers[stage] = name;
}

static void note_link(measured_fleet *f, const char *from, const char *to, double bytes_per_us,
                      int64_t round_trip_us) {
    const lh_link_value value = {.bytes_per_us = bytes_per_us,
                                 .round_trip_us = round_trip_us,
                                 .rate_at_us = f->now_us,
                                 .source = LH_LINK_SURVEY};
    lh_link_matrix_note(f->links, from, to, &value, f->now_us);
}

void measured_fleet_link(measured_fleet *f, const char *from, const char *to, double bytes_per_us,
                         int64_t round_trip_us) {
    note_link(f, from, to, bytes_per_us, round_trip_us);
    note_link(f, to, from, bytes_per_us, round_trip_us);
}

void measured_fleet_link_all(measured_fleet *f) {
    for (uint32_t i = 0; i < f->count; i++) {
        measured_fleet_link(f, "home", f->reports[i].site, 125, 2 * MS);
        for (uint32_t j = 0; j < i; j++)
            measured_fleet_link(f, f->reports[i].site, f->reports[j].site, 125, 2 * MS);
    }
}

static uint32_t find(const measured_fleet *f, const char *name) {
    uint32_t i = 0;
    while (strcmp(f->reports[i].name, name) != 0)
        i++;
    return i;
}

static void report_follower(measured_fleet *f, const lh_chain_stage *stage) {
    if (stage->team.follower_count == 0)
        return;
    lh_worker_report *report = &f->reports[find(f, stage->team.followers[0].name)];
    make_ready(report, f->chain.epoch);
    register_report(f->registry, report, f->now_us);
}

void measured_fleet_report(measured_fleet *f) {
    for (uint32_t s = 0; s < f->chain.stage_count; s++) {
        const lh_chain_stage *stage = &f->chain.stages[s];
        uint32_t worker = find(f, stage->name);
        lh_worker_report *report = &f->reports[worker];
        double us = f->layer_us[worker] * (stage->last_layer - stage->first_layer);
        make_ready(report, f->chain.epoch);
        report->loaded.present = true;
        report->loaded.first_layer = stage->first_layer;
        report->loaded.last_layer = stage->last_layer;
        snprintf(report->loaded.model, sizeof report->loaded.model, "ours");
        report->compute =
            (lh_compute_profile){.point_count = 2, .points = {{1, us}, {512, 512 * us / 4}}};
        register_report(f->registry, report, f->now_us);
        report_follower(f, stage);
        lh_live_planner_note(&f->planner, &f->chain, s, f->registry, f->now_us);
    }
}

void measured_fleet_serve(measured_fleet *f, uint32_t stages, const char *const *names,
                          const uint32_t *first) {
    f->chain.state = LH_CHAIN_READY;
    f->chain.epoch++;
    f->chain.ready_us = f->now_us - 60000 * MS;
    f->chain.stage_count = stages;
    for (uint32_t s = 0; s < stages; s++) {
        lh_chain_stage *stage = &f->chain.stages[s];
        *stage = (lh_chain_stage){.instance = 1,
                                  .first_layer = first[s],
                                  .last_layer = s + 1 < stages ? first[s + 1] : MEASURED_LAYERS};
        snprintf(stage->name, sizeof stage->name, "%s", names[s]);
        if (!f->followers[s])
            continue;
        stage->team.follower_count = 1;
        stage->team.followers[0].instance = 1;
        snprintf(stage->team.followers[0].name, LH_NAME_BYTES, "%s", f->followers[s]);
    }
    measured_fleet_report(f);
}

lh_candidates measured_fleet_candidates(const measured_fleet *f) {
    lh_candidates candidates;
    lh_candidates_find(f->registry, &f->avoidance, f->now_us, &candidates);
    return candidates;
}
