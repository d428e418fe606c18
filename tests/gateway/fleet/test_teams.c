/* Who computes a stage together, what becomes of a team from epoch to epoch, and how a chain waits
 * for all of its members. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/answer.h"
#include "gateway/fleet/chain_draft.h"
#include "gateway/fleet/teams.h"
#include "tests/gateway/support/worker_reports.h"

#include <stdio.h>
#include <string.h>

/* Workers a to e at home and x, y at the office; all of them take members. */
enum { WORKERS = 7, SIZE = 2 };
static const char *const names[WORKERS] = {"a", "b", "c", "d", "e", "x", "y"};

typedef struct bench {
    lh_fleet_options options;
    lh_registry *registry;
    lh_worker_report reports[WORKERS];
    lh_link_avoidance avoidance;
    lh_live_planner planner;
    lh_chain chain, formed;
} bench;

static void put(bench *b, int worker) {
    register_report(b->registry, &b->reports[worker], 0);
}

static void create(bench *b) {
    *b = (bench){.options = fleet_of_four_layers(0), .chain = {.name = "main"}};
    b->options.teams.size = SIZE;
    assert_int_equal(lh_registry_create(3000 * MS, &b->registry, NULL), LH_OK);
    for (int i = 0; i < WORKERS; i++) {
        b->reports[i] = report_of(names[i]);
        snprintf(b->reports[i].member_address, LH_ADDRESS_BYTES, "%s:2", names[i]);
        if (i >= 5) {
            strcpy(b->reports[i].site, "office");
            strcpy(b->reports[i].tls_address, b->reports[i].plain_address);
        }
        put(b, i);
    }
}

static void destroy(bench *b) {
    lh_registry_destroy(b->registry);
}

static lh_candidates draw(const bench *b, uint32_t size) {
    lh_candidates candidates;
    lh_candidates_find(b->registry, &b->avoidance, 0, &candidates);
    lh_fleet_options options = b->options;
    options.teams.size = size;
    assert_int_equal(lh_teams_draw(&options, &b->planner, &b->chain, &candidates, NULL), LH_OK);
    return candidates;
}

/* "a+b c x+y" */
static void assert_teams(const lh_candidates *c, const char *expected) {
    char found[256] = "";
    for (uint32_t i = 0; i < c->count; i++) {
        strcat(strcat(found, i > 0 ? " " : ""), c->workers[i]->report.name);
        for (uint32_t k = 0; k < c->teams[i].follower_count; k++)
            strcat(strcat(found, "+"), c->teams[i].followers[k]->report.name);
    }
    assert_string_equal(found, expected);
}

static void assert_drawn(const bench *b, uint32_t size, const char *expected) {
    const lh_candidates c = draw(b, size);
    assert_teams(&c, expected);
}

static void teams_are_of_one_site(void **state) {
    (void)state;
    bench b;
    create(&b);
    assert_drawn(&b, 0, "a b c d e x y");
    assert_drawn(&b, 1, "a b c d e x y");
    assert_drawn(&b, 2, "a+b c+d e x+y");
    assert_drawn(&b, 3, "a+b+c d e x y");
    assert_drawn(&b, 5, "a+b+c+d+e x y");
    assert_drawn(&b, 8, "a b c d e x y");
    b.reports[1].member_address[0] = '\0';
    put(&b, 1);
    assert_drawn(&b, 2, "a+c b d+e x+y");
    b.reports[0].leaving = true;
    put(&b, 0);
    assert_drawn(&b, 2, "b c+d e x+y");
    destroy(&b);
}

/* ---- In a chain ---- */

static lh_status make_chain(bench *b, uint32_t epoch) {
    const lh_draft_view view = {b->registry, &b->avoidance, &b->planner};
    lh_status status = lh_draft_make(&b->options, &view, &b->chain, epoch, 0, &b->chain, NULL);
    if (status != LH_OK)
        return status;
    lh_chain_inherit(&b->chain, &b->formed);
    b->formed = b->chain;
    return LH_OK;
}

static void assert_chain(const bench *b, const char *expected) {
    char found[256] = "";
    for (uint32_t i = 0; i < b->chain.stage_count; i++) {
        const lh_chain_stage *stage = &b->chain.stages[i];
        strcat(strcat(found, i > 0 ? " " : ""), stage->name);
        for (uint32_t k = 0; k < stage->team.follower_count; k++)
            strcat(strcat(found, "+"), stage->team.followers[k].name);
    }
    assert_string_equal(found, expected);
}

static void members_stay_together(void **state) {
    (void)state;
    bench b;
    create(&b);
    assert_int_equal(make_chain(&b, 7), LH_OK);
    assert_chain(&b, "a+b c+d e x+y");
    lh_registry_suspect(b.registry, "a", 0);
    assert_true(lh_registry_expire(b.registry, 1, NULL));
    assert_int_equal(make_chain(&b, 8), LH_OK);
    assert_chain(&b, "b+e c+d x+y");
    destroy(&b);
}

/* Most of every layer would be with the one that is fast, which has no memory for it. */
static void who_holds_the_model_alone_does(void **state) {
    (void)state;
    bench b;
    create(&b);
    for (int i = 0; i < WORKERS; i++) {
        b.reports[i].leaving = i > 1;
        b.reports[i].speed = (lh_machine_speed){10, i == 0 ? 20 : 100};
        b.reports[i].memory_bytes = i == 0 ? 10 : 1000000;
        put(&b, i);
    }
    const lh_candidates c = draw(&b, SIZE);
    assert_teams(&c, "a+b");
    assert_int_equal(make_chain(&b, 7), LH_OK);
    assert_chain(&b, "b");

    /* One comes who could have a part, where the others stay alone. */
    b.reports[2].leaving = false;
    b.reports[2].memory_bytes = b.options.model->layer_bytes[0] * 2 + 50;
    put(&b, 2);
    lh_candidates all;
    lh_candidates_find(b.registry, &b.avoidance, 0, &all);
    lh_layout plan;
    assert_true(lh_draft_gain(&b.options, &b.planner, &b.chain, &all, &plan) > 1.2);
    assert_teams(&all, "a b c");
    assert_int_equal(plan.stage_count, 2);
    b.reports[2].leaving = true;
    put(&b, 2);

    b.reports[1].memory_bytes = 10;
    put(&b, 1);
    assert_int_equal(make_chain(&b, 8), LH_ERR_LIMIT);
    destroy(&b);
}

/* A team that is the same goes on; another one is told apart by epoch and secret. */
static void a_team_lasts_as_long_as_its_members(void **state) {
    (void)state;
    bench b;
    create(&b);
    assert_int_equal(make_chain(&b, 7), LH_OK);
    const lh_chain_team before = b.chain.stages[0].team;
    assert_int_equal(before.epoch, 7);
    assert_memory_not_equal(before.secret, b.chain.stages[1].team.secret, sizeof before.secret);
    assert_int_equal(lh_chain_renew(&b.chain, b.registry, &b.options.origin, 8, 0, NULL), LH_OK);
    lh_chain_inherit(&b.chain, &b.formed);
    assert_memory_equal(&b.chain.stages[0].team, &before, sizeof before);
    assert_int_equal(b.chain.stages[0].kv_epoch, 7);
    b.formed = b.chain;
    b.reports[1].instance = 99;
    put(&b, 1);
    bool restarted;
    const char *who;
    assert_int_equal(lh_chain_missing(&b.chain, b.registry, &restarted, &who), 0);
    assert_true(restarted);
    assert_string_equal(who, "b");
    assert_int_equal(lh_chain_renew(&b.chain, b.registry, &b.options.origin, 9, 0, NULL), LH_OK);
    lh_chain_inherit(&b.chain, &b.formed);
    assert_int_equal(b.chain.stages[0].team.epoch, 9);
    assert_memory_not_equal(b.chain.stages[0].team.secret, before.secret, sizeof before.secret);
    assert_int_equal(b.chain.stages[0].kv_epoch, 9);
    assert_int_equal(b.chain.stages[1].team.epoch, 7);
    destroy(&b);
}

static void a_member_that_is_gone_is_missed(void **state) {
    (void)state;
    bench b;
    bool restarted;
    const char *who;
    create(&b);
    assert_int_equal(make_chain(&b, 7), LH_OK);
    assert_int_equal(lh_chain_missing(&b.chain, b.registry, &restarted, &who), -1);
    lh_registry_suspect(b.registry, "d", 0);
    assert_true(lh_registry_expire(b.registry, 1, NULL));
    assert_int_equal(lh_chain_missing(&b.chain, b.registry, &restarted, &who), 1);
    assert_false(restarted);
    assert_string_equal(who, "d");
    assert_int_equal(lh_chain_renew(&b.chain, b.registry, &b.options.origin, 8, 0, NULL),
                     LH_ERR_NOT_FOUND);
    assert_int_equal(b.chain.epoch, 7);
    destroy(&b);
}

static void the_chain_waits_for_all_members(void **state) {
    (void)state;
    bench b;
    char reason[LH_ERROR_MESSAGE_BYTES];
    create(&b);
    assert_int_equal(make_chain(&b, 7), LH_OK);
    for (int i = 0; i < WORKERS; i++) {
        make_ready(&b.reports[i], 7);
        put(&b, i);
    }
    assert_true(lh_chain_is_complete(&b.chain, b.registry, NULL, reason, sizeof reason));
    b.reports[3].assignment.state = LH_WORKER_LOADING;
    put(&b, 3);
    assert_int_equal(lh_chain_stage_state(&b.chain, b.registry, 1), LH_WORKER_LOADING);
    assert_true(lh_chain_is_loading(&b.chain, b.registry));
    assert_false(lh_chain_is_complete(&b.chain, b.registry, NULL, reason, sizeof reason));
    assert_string_equal(reason, "worker d loads its layers: 0 %");
    b.reports[2].assignment.state = LH_WORKER_FETCHING; /* its leader is further from it */
    put(&b, 2);
    assert_string_equal(lh_chain_awaited(&b.chain, b.registry, 1)->report.name, "c");
    b.reports[3].assignment.state = LH_WORKER_FAILED;
    strcpy(b.reports[3].assignment.error, "no room");
    put(&b, 3);
    assert_string_equal(lh_chain_awaited(&b.chain, b.registry, 1)->report.name, "d");
    assert_false(lh_chain_is_complete(&b.chain, b.registry, NULL, reason, sizeof reason));
    assert_string_equal(reason, "worker d cannot load its layers: no room");
    destroy(&b);
}

/* ---- What it is worth, and what members are told ---- */

static void a_team_offers_what_its_members_have(void **state) {
    (void)state;
    bench b;
    lh_map_machine offers[WORKERS];
    const lh_kv_need kv = {.position_bytes = 100, .heads = 3};
    create(&b);
    for (int i = 0; i < WORKERS; i++) {
        b.reports[i].speed = (lh_machine_speed){10, 100};
        put(&b, i);
    }
    b.reports[0].kv_bytes = b.reports[1].kv_bytes = b.reports[2].kv_bytes = 400;
    b.reports[3].kv_bytes = 300;
    b.reports[1].memory_bytes = 700;
    for (int i = 0; i < WORKERS; i++)
        put(&b, i);
    const lh_candidates c = draw(&b, 2);
    const lh_model_profile model = {.embedding_bytes = 300, .kv = kv};
    lh_candidates_machines(&c, &model, "", offers);
    assert_int_equal(offers[0].kv_bytes, 600); /* of three heads each keeps two */
    assert_int_equal(offers[1].kv_bytes, 450);
    assert_int_equal(offers[0].memory_bytes, 1400); /* each has a half: 700 at most */
    assert_int_equal(offers[1].memory_bytes, 2000);
    assert_int_equal(offers[2].memory_bytes, 1000);
    /* each member of the first stage has the embedding: 400 are left of 700 */
    assert_int_equal(offers[0].first_extra_bytes, 300);
    assert_int_equal(offers[2].first_extra_bytes, 0);
    assert_true(offers[0].start.token_us == 50 && offers[2].start.token_us == 100);
    destroy(&b);
}

static void the_work_is_divided_by_speed(void **state) {
    (void)state;
    bench b;
    create(&b);
    for (int i = 0; i < WORKERS; i++) {
        b.reports[i].speed = (lh_machine_speed){10, i == 1 ? 250 : 100};
        put(&b, i);
    }
    assert_int_equal(make_chain(&b, 7), LH_OK);
    assert_int_equal(b.chain.stages[0].team.weights[0], 1000);
    assert_int_equal(b.chain.stages[0].team.weights[1], 400);
    assert_int_equal(b.chain.stages[1].team.weights[0], b.chain.stages[1].team.weights[1]);
    destroy(&b);
}

static void a_follower_is_told_its_part(void **state) {
    (void)state;
    bench b;
    lh_fleet_answer answer;
    const lh_hop_trial_report trial = {0};
    const lh_handover handover = {.options = &b.options};
    create(&b);
    assert_int_equal(make_chain(&b, 7), LH_OK);
    const lh_handover_view view = {&b.chain, b.registry, &b.avoidance, &trial, 0, &b.planner};
    lh_answer_make(&b.options, &handover, &view, &b.reports[3], &answer);
    assert_true(answer.has_assignment);
    assert_int_equal(answer.assignment.member, 1);
    assert_string_equal(answer.assignment.stage.name, "c");
    assert_string_equal(answer.assignment.member_addresses[0], "c:2");
    assert_string_equal(answer.assignment.member_addresses[1], "d:2");
    lh_answer_make(&b.options, &handover, &view, &b.reports[2], &answer);
    assert_int_equal(answer.assignment.member, 0);
    b.reports[3].leaving = true;
    lh_answer_make(&b.options, &handover, &view, &b.reports[3], &answer);
    assert_false(answer.may_go);
    lh_chain alone = b.chain;
    lh_chain_drop(&alone);
    const lh_handover_view none = {&alone, b.registry, &b.avoidance, &trial, 0, &b.planner};
    lh_answer_make(&b.options, &handover, &none, &b.reports[3], &answer);
    assert_true(!answer.has_assignment && answer.may_go);
    destroy(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(teams_are_of_one_site),
        cmocka_unit_test(members_stay_together),
        cmocka_unit_test(who_holds_the_model_alone_does),
        cmocka_unit_test(a_team_lasts_as_long_as_its_members),
        cmocka_unit_test(a_member_that_is_gone_is_missed),
        cmocka_unit_test(the_chain_waits_for_all_members),
        cmocka_unit_test(a_team_offers_what_its_members_have),
        cmocka_unit_test(the_work_is_divided_by_speed),
        cmocka_unit_test(a_follower_is_told_its_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
