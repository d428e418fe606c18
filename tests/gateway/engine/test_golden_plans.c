/* The plans of 500 random fleets, as they were written to tests/vectors/plans.txt: a change of the
 * planner that is to change no plan is held to that here. Each fleet has one line:
 *
 *   17 off: k3 a+d12 c9 | k3 f12 c9 | 1.31 k4 a9 f4 c7 | k3 f12 c9 | 0 0 1 -
 *
 * the number, what the plan is to be good at; then, of each chain, its workers (a team: all of its
 * members, joined by +) with the number of their layers: of the first chain; of the one after
 * workers left and others came; how many times as fast a new split would be, and that split; of the
 * chain that a gateway makes which has been restarted; and to which of several chains each worker
 * belongs. A plan that cannot be made has its error in its place.
 *
 * LONGHAUL_TEST_WRITE_PLANS=tests/vectors/plans.txt writes the file anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/arithmetic.h"
#include "common/base/log.h"
#include "gateway/engine/replica_members.h"
#include "gateway/fleet/chain_draft.h"
#include "gateway/fleet/teams.h"
#include "gateway/plan/layout_search.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN    TEST_SOURCE_DIR "/vectors/plans.txt"
#define MIB       1048576u
#define LEASE_US  INT64_C(3600000000)
#define LINE_SIZE 4096u

enum { FLEETS = 500, WORKERS = 26, LAYERS = 80, SITES = 7 };

static const char *const sites[SITES] = {"home",  "cloud", "office", "annex",
                                         "attic", "barn",  "lab"};

typedef struct random_fleet {
    uint64_t random;
    lh_model_profile model;
    char sites[64]; /* in the order of the chain */
    lh_fleet_options options;
    lh_link_matrix *links;
    lh_registry *registry;
    lh_live_planner planner;
    lh_link_avoidance avoidance;
    uint32_t count, site_count;
    lh_worker_report reports[WORKERS];
    bool is_gone[WORKERS];
    lh_chain chain;
} random_fleet;

/* ---- A fleet ---- */

static uint32_t draw(random_fleet *f, uint32_t below) {
    return (uint32_t)((test_random(&f->random) >> 33) % below);
}

static bool happens(random_fleet *f, uint32_t one_in) {
    return draw(f, one_in) == 0;
}

static uint64_t draw_mib(random_fleet *f, uint32_t below) {
    return draw(f, below) * (uint64_t)MIB;
}

/* Compilers choose the order in which an expression's parts are computed: so each draws once. */

static void draw_model(random_fleet *f) {
    const bool is_even = happens(f, 3), has_experts = happens(f, 5), has_kv = happens(f, 2);
    const uint32_t layers = happens(f, 10) ? LAYERS : 1 + draw(f, 40);
    const uint64_t embedding_bytes = draw_mib(f, 400), head_bytes = draw_mib(f, 800);
    const uint32_t positions = 1024u << draw(f, 4), sequences = 1 + draw(f, 8);
    f->model = (lh_model_profile){.layers = layers,
                                  .context = 8192,
                                  .width = 2048,
                                  .gather_row_bytes = 7000,
                                  .embedding_bytes = embedding_bytes,
                                  .head_bytes = head_bytes,
                                  .kv_rows = {8, 128, 128, false}};
    for (uint32_t i = 0; i < layers; i++) {
        f->model.layer_bytes[i] = is_even ? 100 * MIB : 50 * MIB + draw_mib(f, 100);
        f->model.row_bytes[i] =
            has_experts && i > 0 ? f->model.layer_bytes[i] / 5 : f->model.layer_bytes[i];
    }
    if (has_kv)
        lh_model_profile_want_kv(&f->model, "f16", positions, sequences);
}

static uint64_t model_bytes(const random_fleet *f) {
    uint64_t bytes = f->model.embedding_bytes + f->model.head_bytes;
    for (uint32_t i = 0; i < f->model.layers; i++)
        bytes += f->model.layer_bytes[i];
    return bytes;
}

static void draw_worker(random_fleet *f, uint32_t number, uint32_t share_percent,
                        uint32_t kv_mib_max) {
    const char name[] = {(char)('a' + number), '\0'};
    lh_worker_report *report = &f->reports[number];
    *report = report_of(name);
    report->threads = 1 + draw(f, 16);
    const double class_us = 20 << draw(f, 3), token_us = class_us * (0.8 + draw(f, 40) / 100.0),
                 times = 4 + draw(f, 8);
    if (!happens(f, 40))
        report->speed = (lh_machine_speed){token_us / times, token_us};
    report->memory_bytes = model_bytes(f) / 100 * (share_percent / 2 + draw(f, share_percent + 1));
    report->kv_bytes = kv_mib_max > 0 ? MIB + draw_mib(f, kv_mib_max) : 0;
    snprintf(report->site, sizeof report->site, "%s", sites[draw(f, f->site_count)]);
    snprintf(report->tls_address, sizeof report->tls_address, "%s:2", name);
    if (!happens(f, 4))
        snprintf(report->member_address, sizeof report->member_address, "%s:3", name);
}

static void draw_links(random_fleet *f) {
    for (uint32_t a = 0; a < f->site_count; a++)
        for (uint32_t b = 0; b < f->site_count; b++) {
            const uint32_t bytes_per_us = 1 + draw(f, 60), round_trip_us = 2000 + draw(f, 60000);
            const lh_link_value value = {.bytes_per_us = a == b ? 125 : bytes_per_us,
                                         .round_trip_us = a == b ? 200 : round_trip_us,
                                         .rate_at_us = LEASE_US,
                                         .source = LH_LINK_SURVEY};
            if (!happens(f, 6))
                lh_link_matrix_note(f->links, sites[a], sites[b], &value, LEASE_US);
        }
}

static void draw_options(random_fleet *f, bool has_aim) {
    const lh_goal goal = (lh_goal)(LH_GOAL_TTFT + draw(f, 3));
    const uint32_t prompt_rows = 64u << draw(f, 5), sequences_max = 1 + draw(f, 16);
    const bool has_teams = happens(f, 3), is_auto = happens(f, 2);
    f->options = fleet_of_four_layers(0);
    f->options.model = &f->model;
    f->options.links = f->links;
    f->options.aim = (lh_aim){.goal = has_aim ? goal : LH_GOAL_EVEN,
                              .prompt_rows = prompt_rows,
                              .position = 512,
                              .sequences_max = sequences_max,
                              .wire = LH_WIRE_F16};
    if (has_aim && happens(f, 6))
        f->options.aim.token_us_max = 20000 + draw(f, 200000);
    if (has_teams)
        f->options.teams = (lh_team_policy){is_auto, is_auto ? 0 : 2 + draw(f, 2)};
    if (happens(f, 3))
        f->options.aim.stages = 1 + draw(f, 6);
    for (uint32_t i = 0; i < 3 && happens(f, 2); i++)
        snprintf(f->sites + strlen(f->sites), sizeof f->sites - strlen(f->sites), "%s%s",
                 i > 0 ? "," : "", sites[(draw(f, f->site_count) + i) % SITES]);
    f->options.aim.sites = f->sites;
}

static void create(random_fleet *f, uint32_t number) {
    memset(f, 0, sizeof *f);
    f->random = number + 1;
    f->site_count = 1 + draw(f, SITES);
    f->count = 1 + draw(f, happens(f, 4) ? WORKERS : 9);
    assert_int_equal(lh_link_matrix_create(&f->links, NULL), LH_OK);
    assert_int_equal(lh_registry_create(LEASE_US, &f->registry, NULL), LH_OK);
    draw_model(f);
    draw_options(f, number % 5 >= 3);
    draw_links(f);
    const uint32_t share_percent = 120 / f->count + draw(f, 150);
    static const uint32_t kv_mib[] = {0, 0, 4000, 100, 10};
    const uint32_t kv_mib_max = kv_mib[draw(f, 5)];
    for (uint32_t i = 0; i < f->count; i++)
        draw_worker(f, i, share_percent, kv_mib_max);
    f->planner.options = &f->options;
    snprintf(f->chain.name, sizeof f->chain.name, "main");
}

static void destroy(random_fleet *f) {
    lh_live_planner_reset(&f->planner);
    lh_registry_destroy(f->registry);
    lh_link_matrix_destroy(f->links);
}

static void register_workers(random_fleet *f, uint32_t from, uint32_t end) {
    for (uint32_t i = from; i < end; i++)
        if (!f->is_gone[i])
            register_report(f->registry, &f->reports[i], 0);
}

/* ---- A line ---- */

static void print(char *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void print(char *line, const char *format, ...) {
    const size_t used = strlen(line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + used, LINE_SIZE - used, format, arguments);
    va_end(arguments);
    assert_true(strlen(line) + 1 < LINE_SIZE);
}

static void print_chain(const lh_chain *chain, char *line) {
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_chain_stage *stage = &chain->stages[i];
        print(line, " %s", stage->name);
        for (uint32_t k = 0; k < stage->team.follower_count; k++)
            print(line, "+%s", stage->team.followers[k].name);
        print(line, "%u", stage->last_layer - stage->first_layer);
    }
}

static void make(random_fleet *f, uint32_t epoch, char *line) {
    const lh_draft_view view = {f->registry, &f->avoidance, &f->planner};
    lh_error error;
    lh_status status = lh_draft_make(&f->options, &view, &f->chain, epoch, 0, &f->chain, &error);
    if (status == LH_OK)
        print_chain(&f->chain, line);
    else
        print(line, " %.70s", error.message);
}

/* What the chain's workers report of their stages, so that plans go by it. */
static void measure(random_fleet *f) {
    for (uint32_t s = 0; s < f->chain.stage_count; s++) {
        const lh_chain_stage *stage = &f->chain.stages[s];
        lh_worker_report *report = &f->reports[stage->name[0] - 'a'];
        const double us = (20 + draw(f, 60)) * 100.0 * (stage->last_layer - stage->first_layer);
        make_ready(report, f->chain.epoch);
        report->loaded.present = true;
        report->loaded.first_layer = stage->first_layer;
        report->loaded.last_layer = stage->last_layer;
        snprintf(report->loaded.model, sizeof report->loaded.model, "ours");
        report->compute = (lh_compute_profile){
            .point_count = 2, .points = {{1, us}, {512, 512 * us / 4}}, .step_us = 100};
        if (f->is_gone[stage->name[0] - 'a'])
            continue;
        register_report(f->registry, report, 0);
        lh_live_planner_note(&f->planner, &f->chain, s, f->registry, 0);
    }
}

/* Up to two of the chain are gone. */
static void change(random_fleet *f) {
    for (uint32_t i = 0, losses = draw(f, 3); i < losses && f->chain.stage_count > 0; i++) {
        const uint32_t gone =
            (uint32_t)f->chain.stages[draw(f, f->chain.stage_count)].name[0] - 'a';
        f->is_gone[gone] = true;
        lh_registry_exclude(f->registry, f->reports[gone].name, LEASE_US);
    }
}

static void print_gain(random_fleet *f, char *line) {
    lh_candidates all;
    lh_layout plan;
    lh_error error;
    lh_chain split = f->chain;
    lh_candidates_find(f->registry, &f->avoidance, 0, &all);
    const double gain = lh_draft_gain(&f->options, &f->planner, &f->chain, &all, &plan);
    print(line, " | %.3g", gain);
    if (gain <= 0)
        return;
    assert_int_equal(lh_chain_form(&split, &plan, all.workers, &f->options.origin, 0, 0, &error),
                     LH_OK);
    lh_teams_enlist(&all, &split);
    print_chain(&split, line);
}

static void print_replicas(random_fleet *f, char *line) {
    lh_replica_members *members;
    const uint32_t replicas = 2 + draw(f, 3);
    lh_replica_place place;
    f->options.workers_expected = f->count;
    assert_int_equal(lh_replica_members_create(replicas, &f->options, 0, &members, NULL), LH_OK);
    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t i = 0; i < f->count; i++) {
            lh_worker_report report = f->reports[i];
            report.leaving = round == 1 && f->is_gone[i];
            assert_int_equal(
                lh_replica_members_note(members, &report, (int64_t)round * 2000 * MS, &place, NULL),
                LH_OK);
            if (round == 0)
                continue;
            print(line, place.replica == LH_REPLICA_NONE ? " -" : " %u", place.replica);
            if (place.moving_to != LH_REPLICA_NONE)
                print(line, ">%u", place.moving_to);
        }
    lh_replica_members_destroy(members);
}

/* The best plan of all, by the search that takes its time, where that is not much. */
static void print_study(random_fleet *f, char *line) {
    lh_live_map *live = calloc(1, sizeof *live);
    lh_candidates all;
    lh_layout_plan plan;
    lh_error error;
    assert_non_null(live);
    lh_candidates_find(f->registry, &f->avoidance, 0, &all);
    lh_status status = lh_live_map_assume(&f->options, &all, &f->planner.speeds, live, &error);
    if (status == LH_OK)
        status = lh_layout_search(&live->map, &f->options.aim, &plan, &error);
    for (uint32_t s = 0; s < plan.layout.stage_count && status == LH_OK; s++)
        print(line, " %s%u", live->machines[plan.layout.stages[s].machine].name,
              plan.layout.stages[s].layers.last - plan.layout.stages[s].layers.first);
    if (status != LH_OK)
        print(line, " %.70s", error.message);
    free(live);
}

static void describe(random_fleet *f, uint32_t number, char *line) {
    const uint32_t newcomers = f->count > 1 ? draw(f, lh_min_u32(f->count, 4)) : 0;
    snprintf(line, LINE_SIZE, "%u %s:", number, lh_goal_name(f->options.aim.goal));
    register_workers(f, 0, f->count - newcomers);
    make(f, 1000, line);
    if (f->options.aim.goal != LH_GOAL_EVEN && happens(f, 2))
        measure(f);
    change(f);
    register_workers(f, f->count - newcomers, f->count);
    print(line, " |");
    make(f, 1001, line);
    print_gain(f, line);
    measure(f);
    change(f);
    f->chain = (lh_chain){.name = "main"};
    print(line, " |");
    make(f, 1002, line);
    print(line, " |");
    print_replicas(f, line);
    if (f->options.aim.goal != LH_GOAL_EVEN && f->count <= 7 && f->model.layers <= 24) {
        print(line, " |");
        print_study(f, line);
    }
    print(line, "\n");
}

/* ---- All ---- */

static void write_plans(const char *path) {
    static random_fleet f;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (uint32_t number = 0; number < FLEETS; number++) {
        char line[LINE_SIZE];
        create(&f, number);
        describe(&f, number, line);
        destroy(&f);
        fputs(line, file);
    }
    assert_int_equal(fclose(file), 0);
}

static void plans_are_as_they_were(void **state) {
    static random_fleet f;
    uint32_t others = 0;
    FILE *file = fopen(GOLDEN, "r");
    (void)state;
    assert_non_null(file);
    for (uint32_t number = 0; number < FLEETS; number++) {
        char line[LINE_SIZE], golden[LINE_SIZE];
        create(&f, number);
        describe(&f, number, line);
        destroy(&f);
        assert_non_null(fgets(golden, sizeof golden, file));
        if (strcmp(line, golden) == 0)
            continue;
        others++;
        print_message("was %snow %s", golden, line);
    }
    fclose(file);
    assert_int_equal(others, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_are_as_they_were)};
    const char *path = getenv("LONGHAUL_TEST_WRITE_PLANS");
    lh_log_set_level(LH_LOG_ERROR);
    if (path)
        write_plans(path);
    return path ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
}
