/* A gateway of hundreds of workers: what a report costs its thread, what a plan made at once and
 * the beginning of a study cost it, and how long a study takes beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "gateway/engine/router.h"
#include "gateway/fleet/aimed_plan.h"
#include "gateway/fleet/plan_study.h"
#include "gateway/fleet/teams.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB 1048576u

enum { LAYERS = 32, SITES = 20 };

static lh_model_profile model = {.layers = LAYERS,
                                 .context = 8192,
                                 .width = 4096,
                                 .gather_row_bytes = 50000,
                                 .embedding_bytes = 200 * MIB,
                                 .head_bytes = 200 * MIB,
                                 .kv_rows = {8, 128, 128, false}};

typedef struct fleet {
    lh_fleet_options options;
    lh_link_matrix *links;
    lh_router *router;
    uint32_t count;
    lh_worker_report *reports;
    int64_t now_us;
} fleet;

/* Of this thread alone: the machine may be busy. */
static double spent_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void nothing(void *context, uint64_t handle, const lh_sequence_event *event) {
    (void)context;
    (void)handle;
    (void)event;
}

static lh_worker_report report_number(uint32_t i, uint32_t sites, uint64_t *seed) {
    char name[16];
    snprintf(name, sizeof name, "w%04u", (i * 7919u) % 10000u);
    lh_worker_report report = report_of(name);
    double token_us = 20 + (double)(test_random(seed) % 100);
    report.speed = (lh_machine_speed){token_us / 6, token_us};
    report.memory_bytes = (uint64_t)(500 + test_random(seed) % 3000) * MIB;
    report.kv_bytes = 512 * MIB;
    report.threads = 8;
    snprintf(report.site, sizeof report.site, "site%02u", i % sites);
    snprintf(report.tls_address, sizeof report.tls_address, "%s:2", name);
    snprintf(report.member_address, sizeof report.member_address, "%s:3", name);
    return report;
}

static void note_links(fleet *f, uint64_t *seed) {
    for (uint32_t a = 0; a < SITES; a++)
        for (uint32_t b = 0; b < SITES; b++) {
            char from[16], to[16];
            bool is_inside = a == b;
            const lh_link_value value = {
                .bytes_per_us = is_inside ? 125 : 2 + (double)(test_random(seed) % 30),
                .round_trip_us = is_inside ? 200 : 4000 + (int64_t)(test_random(seed) % 60000),
                .rate_at_us = f->now_us};
            snprintf(from, sizeof from, "site%02u", a);
            snprintf(to, sizeof to, "site%02u", b);
            lh_link_matrix_note(f->links, from, to, &value, f->now_us);
        }
}

static void create(fleet *f, uint32_t count, uint32_t replicas) {
    uint64_t seed = count;
    const lh_scheduler_options scheduler = {
        .sequences_max = 8, .queue_max = 8, .width = 4096, .rows_max = 64, .vocabulary = 1000};
    const lh_scheduler_sink sink = {.on_event = nothing};
    lh_log_set_level(LH_LOG_ERROR);
    for (uint32_t i = 0; i < LAYERS; i++)
        model.layer_bytes[i] = model.row_bytes[i] = 130 * MIB;
    lh_model_profile_want_kv(&model, "f16", 0, 8);
    *f = (fleet){.options = fleet_of_four_layers(0), .count = count, .now_us = 1000000};
    assert_int_equal(lh_link_matrix_create(&f->links, NULL), LH_OK);
    f->options.model = &model;
    f->options.links = f->links;
    f->options.aim =
        (lh_aim){.goal = LH_GOAL_TPOT, .prompt_rows = 512, .position = 1024, .sequences_max = 8};
    f->options.rebalance_delay_us = 10000 * MS;
    f->options.survey_bytes = 64 * MIB;
    f->options.origin.site = "site00";
    f->reports = calloc(count, sizeof *f->reports);
    assert_non_null(f->reports);
    for (uint32_t i = 0; i < count; i++)
        f->reports[i] = report_number(i, SITES, &seed);
    note_links(f, &seed);
    assert_int_equal(
        lh_router_create(replicas, &f->options, &scheduler, &sink, f->now_us, &f->router, NULL),
        LH_OK);
}

static void destroy(fleet *f) {
    lh_router_destroy(f->router);
    lh_link_matrix_destroy(f->links);
    free(f->reports);
}

/* All report once within a renewal; returns what the dearest report took, *all_ms what all did. */
static double report_all(fleet *f, double *all_ms) {
    double worst_ms = 0, begin_ms = spent_ms();
    for (uint32_t i = 0; i < f->count; i++) {
        lh_fleet_answer answer;
        double from_ms = spent_ms();
        assert_int_equal(lh_router_put(f->router, &f->reports[i], f->now_us, &answer, NULL), LH_OK);
        worst_ms = spent_ms() - from_ms > worst_ms ? spent_ms() - from_ms : worst_ms;
        f->now_us += 500 * MS / f->count;
    }
    *all_ms = spent_ms() - begin_ms;
    return worst_ms;
}

static const lh_fleet *fleet_of(const fleet *f) {
    return lh_chain_controller_fleet(lh_router_controller(f->router, 0));
}

/* The plan that is made at once, with teams or without. */
static double plan_ms(fleet *f, bool with_teams) {
    static lh_live_planner planner;
    const lh_link_avoidance avoidance = {0};
    const lh_layout none = {0};
    lh_layout plan;
    lh_error error;
    planner.options = &f->options;
    f->options.teams = (lh_team_policy){.is_auto = with_teams};
    double begin_ms = spent_ms();
    lh_candidates candidates;
    lh_candidates_find(lh_fleet_registry(fleet_of(f)), &avoidance, f->now_us, &candidates);
    assert_int_equal(lh_teams_draw(&f->options, &planner, &(lh_chain){0}, &candidates, &error),
                     LH_OK);
    if (lh_aimed_plan_make(&f->options, &candidates, &planner.speeds, &f->options.aim, &none, &plan,
                           &error) != LH_OK)
        fail_msg("%s", error.message);
    return spent_ms() - begin_ms;
}

/* As it is begun on the fleet's thread, and as it runs beside it: a study of all workers, as if
 * every one had measured a stage. */
static double study_ms(fleet *f, double *begin_ms) {
    lh_live_map *live = calloc(1, sizeof *live);
    lh_team_map *map;
    lh_layout_plan plan;
    lh_team_sizes sizes;
    lh_error error;
    const lh_link_avoidance avoidance = {0};
    static const lh_stage_speeds speeds;
    const lh_team_policy policy = {.is_auto = true};
    assert_non_null(live);
    double from_ms = spent_ms();
    lh_candidates candidates;
    lh_candidates_find(lh_fleet_registry(fleet_of(f)), &avoidance, f->now_us, &candidates);
    assert_int_equal(lh_live_map_assume(&f->options, &candidates, &speeds, live, &error), LH_OK);
    *begin_ms = spent_ms() - from_ms;
    from_ms = spent_ms();
    assert_int_equal(lh_team_policy_choose(&policy, &live->map, &f->options.aim, &sizes, &error),
                     LH_OK);
    assert_int_equal(lh_team_map_create(&live->map, &sizes, &map, &error), LH_OK);
    assert_int_equal(lh_layout_search(&map->map, &f->options.aim, &plan, &error), LH_OK);
    double ms = spent_ms() - from_ms;
    lh_team_map_destroy(map);
    free(live);
    return ms;
}

/* The bounds are for a machine that is busy, and for sanitizers; what it prints is to be read. */
static void hundreds_of_workers_do_not_hold_up_the_fleet(void **state) {
    static const uint32_t counts[] = {64, 300, 1000};
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        fleet f;
        double first_ms, again_ms, begin_ms, worst_ms = 0;
        create(&f, counts[i], 1);
        report_all(&f, &first_ms);
        for (uint32_t round = 0; round < 4; round++) {
            double ms = report_all(&f, &again_ms);
            worst_ms = ms > worst_ms ? ms : worst_ms;
        }
        assert_int_equal(lh_registry_count(lh_fleet_registry(fleet_of(&f))), counts[i]);
        double alone_ms = plan_ms(&f, false), teams_ms = plan_ms(&f, true),
               ms = study_ms(&f, &begin_ms);
        print_message("%4u workers: a report %.3f ms, at most %.1f; a plan at once %.1f ms, with "
                      "teams %.1f; a study begun %.2f ms, searched %.0f\n",
                      counts[i], again_ms / counts[i], worst_ms, alone_ms, teams_ms, begin_ms, ms);
        assert_true(again_ms < 20 * 500);
        assert_true(alone_ms < 20 * 250 && begin_ms < 20 * 10);
        destroy(&f);
    }
}

static void hundreds_of_workers_make_several_chains(void **state) {
    (void)state;
    static const lh_goal goals[] = {LH_GOAL_EVEN, LH_GOAL_TPOT};
    for (uint32_t i = 0; i < 2; i++) {
        fleet f;
        double ms, all_ms, worst_ms = 0;
        create(&f, 300, 1);
        lh_router_destroy(f.router);
        f.options.aim.goal = goals[i];
        const lh_scheduler_options scheduler = {
            .sequences_max = 8, .queue_max = 8, .width = 4096, .rows_max = 64, .vocabulary = 1000};
        const lh_scheduler_sink sink = {.on_event = nothing};
        assert_int_equal(
            lh_router_create(3, &f.options, &scheduler, &sink, f.now_us, &f.router, NULL), LH_OK);
        for (uint32_t round = 0; round < 10; round++) {
            ms = report_all(&f, &all_ms);
            worst_ms = ms > worst_ms ? ms : worst_ms;
        }
        uint32_t members = 0;
        for (uint32_t r = 0; r < 3; r++) {
            const lh_fleet *one = lh_chain_controller_fleet(lh_router_controller(f.router, r));
            assert_true(lh_registry_count(lh_fleet_registry(one)) >= 30);
            assert_true(lh_fleet_chain(one)->stage_count > 0);
            members += lh_registry_count(lh_fleet_registry(one));
        }
        assert_int_equal(members, 300);
        print_message("300 workers, 3 chains%s: a report %.3f ms, the one that deals %.0f\n",
                      i == 1 ? " for an objective" : "", all_ms / 300, worst_ms);
        assert_true(worst_ms < 20 * 1000);
        destroy(&f);
    }
}

/* A map has no room for them; the chain is an even split. */
static void each_at_a_site_of_its_own_they_make_a_chain(void **state) {
    fleet f;
    double all_ms;
    uint64_t seed = 3;
    lh_error error;
    (void)state;
    create(&f, 100, 1);
    for (uint32_t i = 0; i < f.count; i++)
        f.reports[i] = report_number(i, 100, &seed);
    for (uint32_t round = 0; round < 10; round++)
        report_all(&f, &all_ms);
    const lh_chain *chain = lh_fleet_chain(fleet_of(&f));
    assert_in_range(chain->stage_count, 1, LAYERS);
    assert_int_equal(chain->stages[chain->stage_count - 1].last_layer, LAYERS);
    lh_live_map *live = calloc(1, sizeof *live);
    static const lh_stage_speeds speeds;
    const lh_link_avoidance avoidance = {0};
    lh_candidates candidates;
    lh_candidates_find(lh_fleet_registry(fleet_of(&f)), &avoidance, f.now_us, &candidates);
    assert_int_equal(lh_live_map_assume(&f.options, &candidates, &speeds, live, &error),
                     LH_ERR_LIMIT);
    assert_string_equal(error.message, "there are more than 64 sites");
    free(live);
    destroy(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hundreds_of_workers_do_not_hold_up_the_fleet),
        cmocka_unit_test(hundreds_of_workers_make_several_chains),
        cmocka_unit_test(each_at_a_site_of_its_own_they_make_a_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
