/* A chain's stages, addresses, epochs and states. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/gateway/support/worker_reports.h"
#include "tests/support/failing_malloc.h"

#include <stdio.h>
#include <string.h>

static const lh_chain_origin at_home = {.site = "home", .has_tls = true};

/* Workers a, b and c with stages 0-1, 2 and 3 under epoch 7; all are ready, nothing is connected.
 */
typedef struct bench {
    lh_registry *registry;
    lh_worker_report reports[3];
    lh_chain chain;
} bench;

static void put(bench *b, int worker) {
    register_report(b->registry, &b->reports[worker], 0);
}

static lh_status form(bench *b, uint32_t epoch) {
    const lh_layout plan = {3, {{0, {0, 2}}, {1, {2, 3}}, {2, {3, 4}}}};
    const lh_worker *workers[3];
    for (uint32_t i = 0; i < 3; i++)
        workers[i] = lh_registry_at(b->registry, i);
    return lh_chain_form(&b->chain, &plan, workers, &at_home, epoch, 100, NULL);
}

static bench create(void) {
    static const char *const names[] = {"a", "b", "c"};
    bench b = {.chain = {.name = "main"}};
    assert_int_equal(lh_registry_create(3000 * MS, &b.registry, NULL), LH_OK);
    for (int i = 0; i < 3; i++) {
        b.reports[i] = report_of(names[i]);
        make_ready(&b.reports[i], 7);
        put(&b, i);
    }
    assert_int_equal(form(&b, 7), LH_OK);
    return b;
}

static bool is_complete(const bench *b, bool first_hop, const char *reason) {
    char found[LH_ERROR_MESSAGE_BYTES];
    bool complete =
        lh_chain_is_complete(&b->chain, b->registry, first_hop ? NULL : "", found, sizeof found);
    assert_string_equal(found, reason);
    return complete;
}

static void states_follow_each_other(void **state) {
    (void)state;
    bench b = create();
    assert_int_equal(b.chain.state, LH_CHAIN_FORMING);
    assert_int_equal(b.chain.formed_us, 100);
    lh_chain_note_ready(&b.chain, 200);
    assert_int_equal(b.chain.state, LH_CHAIN_READY);
    assert_int_equal(b.chain.ready_us, 200);
    lh_chain_break(&b.chain);
    assert_int_equal(b.chain.state, LH_CHAIN_FORMING);
    assert_int_equal(b.chain.epoch, 7);
    assert_int_equal(lh_chain_renew(&b.chain, b.registry, &at_home, 8, 300, NULL), LH_OK);
    assert_int_equal(b.chain.epoch, 8);
    assert_int_equal(b.chain.formed_us, 300);
    assert_int_equal(b.chain.ready_us, 200);
    lh_chain_drop(&b.chain);
    assert_int_equal(b.chain.state, LH_CHAIN_NONE);
    assert_int_equal(b.chain.stage_count, 0);
    lh_registry_destroy(b.registry);
}

/* The epoch with which its stages came, whatever it is renewed to. */
static void it_remembers_when_it_was_planned(void **state) {
    (void)state;
    bench b = create();
    assert_int_equal(b.chain.planned_epoch, 7);
    assert_int_equal(lh_chain_renew(&b.chain, b.registry, &at_home, 8, 0, NULL), LH_OK);
    assert_int_equal(b.chain.planned_epoch, 7);
    assert_int_equal(form(&b, 9), LH_OK);
    assert_int_equal(b.chain.planned_epoch, 9);
    assert_int_equal(form(&b, 0), LH_OK); /* a draft */
    assert_int_equal(lh_chain_renew(&b.chain, b.registry, &at_home, 10, 0, NULL), LH_OK);
    assert_int_equal(b.chain.planned_epoch, 10);
    lh_registry_destroy(b.registry);
}

static void renewing_takes_what_workers_say_now(void **state) {
    (void)state;
    bench b = create();
    b.reports[1].instance = 2;
    snprintf(b.reports[1].plain_address, sizeof b.reports[1].plain_address, "elsewhere:1");
    put(&b, 1);
    b.chain.stages[1].wire = LH_WIRE_Q8;
    assert_int_equal(lh_chain_renew(&b.chain, b.registry, &at_home, 8, 0, NULL), LH_OK);
    assert_int_equal(b.chain.stages[1].instance, 2);
    assert_string_equal(b.chain.stages[1].way.address, "elsewhere:1");
    assert_int_equal(b.chain.stages[1].first_layer, 2);
    assert_int_equal(b.chain.stages[1].wire, LH_WIRE_Q8);
    lh_registry_suspect(b.registry, "c", 1);
    assert_true(lh_registry_expire(b.registry, 1, NULL));
    assert_int_equal(lh_chain_renew(&b.chain, b.registry, &at_home, 9, 0, NULL), LH_ERR_NOT_FOUND);
    assert_int_equal(b.chain.epoch, 8);
    lh_registry_destroy(b.registry);
}

static void its_plan_names_nobody_for_those_that_are_not_there(void **state) {
    (void)state;
    bench b = create();
    const lh_worker *workers[] = {lh_registry_find(b.registry, "c"),
                                  lh_registry_find(b.registry, "a")};
    lh_layout plan = lh_chain_layout(&b.chain, workers, 2);
    assert_int_equal(plan.stage_count, 3);
    assert_int_equal(plan.stages[0].machine, 1);
    assert_int_equal(plan.stages[1].machine, LH_LAYOUT_NOBODY);
    assert_int_equal(plan.stages[2].machine, 0);
    assert_int_equal(plan.stages[1].layers.first, 2);
    assert_int_equal(plan.stages[1].layers.last, 3);
    lh_registry_destroy(b.registry);
}

/* Whoever is gone comes before whoever was restarted. */
static void it_knows_who_is_missing(void **state) {
    (void)state;
    bench b = create();
    bool restarted = true;
    assert_int_equal(lh_chain_missing(&b.chain, b.registry, &restarted, NULL), -1);
    assert_false(restarted);
    b.reports[1].instance = 2;
    put(&b, 1);
    assert_int_equal(lh_chain_missing(&b.chain, b.registry, &restarted, NULL), 1);
    assert_true(restarted);
    b.reports[0].instance = 2;
    put(&b, 0);
    assert_int_equal(lh_chain_missing(&b.chain, b.registry, &restarted, NULL), 0);
    assert_true(restarted);
    lh_registry_suspect(b.registry, "c", 1);
    assert_true(lh_registry_expire(b.registry, 1, NULL));
    assert_int_equal(lh_chain_missing(&b.chain, b.registry, &restarted, NULL), 2);
    assert_false(restarted);
    lh_registry_destroy(b.registry);
}

static void it_says_what_it_waits_for(void **state) {
    (void)state;
    bench b = create();
    assert_false(is_complete(&b, false, "the gateway is not connected to worker a"));
    assert_true(is_complete(&b, true, ""));
    b.reports[2].next.connected = false;
    put(&b, 2);
    assert_false(is_complete(&b, true, "worker c is not connected to the gateway"));
    b.reports[2].next.present = false;
    put(&b, 2);
    assert_false(is_complete(&b, true, "worker c is not connected to the gateway"));
    b.reports[1].kv.present = false;
    put(&b, 1);
    assert_false(is_complete(&b, true, "worker b has not told its KV cache yet"));
    b.reports[1].assignment.state = LH_WORKER_FETCHING;
    put(&b, 1);
    assert_false(is_complete(&b, true, "worker b fetches its layers: 0 %"));
    b.reports[1].assignment.done_bytes = 3;
    b.reports[1].assignment.total_bytes = 4;
    put(&b, 1);
    assert_false(is_complete(&b, true, "worker b fetches its layers: 75 %"));
    b.reports[1].assignment.state = LH_WORKER_FAILED;
    snprintf(b.reports[1].assignment.error, sizeof b.reports[1].assignment.error, "no room");
    put(&b, 1);
    assert_false(is_complete(&b, true, "worker b cannot load its layers: no room"));
    b.reports[1].assignment.generation = 6;
    put(&b, 1);
    assert_false(is_complete(&b, true, "worker b has not taken its assignment yet"));
    lh_registry_suspect(b.registry, "a", 1);
    assert_true(lh_registry_expire(b.registry, 1, NULL));
    assert_false(is_complete(&b, true, "worker a is gone"));
    lh_chain_drop(&b.chain);
    assert_false(is_complete(&b, true, ""));
    lh_registry_destroy(b.registry);
}

static void it_loads_while_one_of_its_epoch_does(void **state) {
    (void)state;
    bench b = create();
    assert_false(lh_chain_is_loading(&b.chain, b.registry));
    b.reports[2].assignment.state = LH_WORKER_LOADING;
    put(&b, 2);
    assert_true(lh_chain_is_loading(&b.chain, b.registry));
    b.reports[2].assignment.state = LH_WORKER_FETCHING;
    put(&b, 2);
    assert_true(lh_chain_is_loading(&b.chain, b.registry));
    b.reports[2].assignment.generation = 6;
    put(&b, 2);
    assert_false(lh_chain_is_loading(&b.chain, b.registry));
    b.reports[2].assignment.generation = 7;
    put(&b, 2);
    lh_chain_note_ready(&b.chain, 0);
    assert_false(lh_chain_is_loading(&b.chain, b.registry));
    lh_registry_destroy(b.registry);
}

/* One hop is awaited only where all workers hold their stages. */
static void the_first_hop_that_is_down_is_awaited(void **state) {
    (void)state;
    bench b = create();
    assert_int_equal(lh_chain_awaited_hop(&b.chain, b.registry, true), -1);
    assert_int_equal(lh_chain_awaited_hop(&b.chain, b.registry, false), 0);
    b.reports[2].next.connected = false;
    put(&b, 2);
    assert_int_equal(lh_chain_awaited_hop(&b.chain, b.registry, true), 3);
    b.reports[0].next.connected = false;
    put(&b, 0);
    assert_int_equal(lh_chain_awaited_hop(&b.chain, b.registry, true), 1);
    assert_int_equal(lh_chain_awaited_hop(&b.chain, b.registry, false), 0);
    b.reports[1].next.present = false;
    put(&b, 1);
    assert_int_equal(lh_chain_awaited_hop(&b.chain, b.registry, true), -1);
    b.reports[1].next.present = true;
    b.reports[1].assignment.generation = 6;
    put(&b, 1);
    assert_int_equal(lh_chain_awaited_hop(&b.chain, b.registry, true), -1);
    b.reports[1].assignment.generation = 7;
    b.reports[1].assignment.state = LH_WORKER_LOADING;
    put(&b, 1);
    assert_int_equal(lh_chain_awaited_hop(&b.chain, b.registry, true), -1);
    lh_chain_drop(&b.chain);
    assert_int_equal(lh_chain_awaited_hop(&b.chain, b.registry, false), -1);
    lh_registry_destroy(b.registry);
}

/* ---- KV caches: those of the last stages stay, as far as their input is computed alike ---- */

/* The chain of `before`, after `change`, under epoch 8; how many of its last stages keep theirs. */
static uint32_t count_kept(void (*change)(lh_chain *chain)) {
    bench b = create();
    lh_chain_inherit(&b.chain, &(lh_chain){0});
    lh_chain before = b.chain;
    uint32_t kept = 0;
    assert_int_equal(lh_chain_renew(&b.chain, b.registry, &at_home, 8, 0, NULL), LH_OK);
    change(&b.chain);
    lh_chain_inherit(&b.chain, &before);
    while (kept < 3 && b.chain.stages[2 - kept].kv_epoch == 7)
        kept++;
    for (uint32_t i = kept; i < 3; i++)
        assert_int_equal(b.chain.stages[2 - i].kv_epoch, 8);
    lh_registry_destroy(b.registry);
    return kept;
}

static void nothing_changes(lh_chain *chain) {
    (void)chain;
}

static void the_middle_one_restarts(lh_chain *chain) {
    chain->stages[1].instance++;
}

static void the_last_one_is_another(lh_chain *chain) {
    chain->stages[2].name[0] = 'd';
}

static void a_hop_rounds_otherwise(lh_chain *chain) {
    chain->stages[0].wire = LH_WIRE_Q8;
}

static void the_split_moves(lh_chain *chain) {
    chain->stages[0].last_layer = chain->stages[1].first_layer = 1;
}

static void two_stages_become_one(lh_chain *chain) {
    chain->stages[1].last_layer = 4;
    chain->stage_count = 2;
}

static void caches_are_kept_where_all_before_is_computed_alike(void **state) {
    (void)state;
    assert_int_equal(count_kept(nothing_changes), 3);
    assert_int_equal(count_kept(the_middle_one_restarts), 1);
    assert_int_equal(count_kept(the_last_one_is_another), 0);
    assert_int_equal(count_kept(a_hop_rounds_otherwise), 0);
    assert_int_equal(count_kept(the_split_moves), 0);
}

static void a_chain_of_other_stages_keeps_no_cache(void **state) {
    (void)state;
    bench b = create();
    lh_chain_inherit(&b.chain, &(lh_chain){0});
    lh_chain before = b.chain;
    assert_int_equal(form(&b, 8), LH_OK);
    two_stages_become_one(&b.chain);
    lh_chain_inherit(&b.chain, &before);
    assert_int_equal(b.chain.stages[0].kv_epoch, 8);
    assert_int_equal(b.chain.stages[1].kv_epoch, 8);
    lh_registry_destroy(b.registry);
}

/* What stands behind the last stage is of an earlier chain. */
static void what_is_no_stage_is_not_compared(void **state) {
    (void)state;
    bench b = create();
    lh_chain_inherit(&b.chain, &(lh_chain){0});
    lh_chain before = b.chain;
    before.stages[3].last_layer = 99;
    assert_int_equal(lh_chain_renew(&b.chain, b.registry, &at_home, 8, 0, NULL), LH_OK);
    lh_chain_inherit(&b.chain, &before);
    for (int i = 0; i < 3; i++)
        assert_int_equal(b.chain.stages[i].kv_epoch, 7);
    before.stage_count = 0;
    lh_chain_inherit(&b.chain, &before);
    for (int i = 0; i < 3; i++)
        assert_int_equal(b.chain.stages[i].kv_epoch, 8);
    lh_registry_destroy(b.registry);
}

/* ---- Whose work an answer is, and which chains give the same one ---- */

static lh_chain chain_of(uint32_t split, lh_wire_type wire) {
    return (lh_chain){.epoch = 9,
                      .stage_count = 2,
                      .stages = {{.last_layer = split, .wire = wire, .kv_epoch = 7},
                                 {.first_layer = split, .last_layer = 12, .kv_epoch = 7}}};
}

static void chains_of_one_split_or_of_exact_hops_give_the_same(void **state) {
    (void)state;
    const lh_chain exact = chain_of(6, LH_WIRE_F32), other = chain_of(4, LH_WIRE_F32),
                   lossy = chain_of(6, LH_WIRE_F16), lossy_other = chain_of(4, LH_WIRE_F16),
                   whole = {.stage_count = 1, .stages = {{.last_layer = 12}}};
    assert_true(lh_chain_gives_same_bits(&exact, &exact));
    assert_true(lh_chain_gives_same_bits(&exact, &other));
    assert_true(lh_chain_gives_same_bits(&exact, &whole));
    assert_true(lh_chain_gives_same_bits(&lossy, &lossy));
    assert_false(lh_chain_gives_same_bits(&lossy, &lossy_other));
    assert_false(lh_chain_gives_same_bits(&lossy, &exact));
    assert_false(lh_chain_gives_same_bits(&whole, &lossy));
}

static void what_began_before_a_worker_came_is_not_its_work(void **state) {
    (void)state;
    lh_chain chain = chain_of(6, LH_WIRE_F16);
    assert_false(lh_chain_has_computed(&chain, 6, false));
    assert_true(lh_chain_has_computed(&chain, 7, true));
    chain.stages[0].kv_epoch = 8;
    assert_false(lh_chain_has_computed(&chain, 7, false));
    assert_true(lh_chain_has_computed(&chain, 8, false));
    assert_false(lh_chain_has_computed(&chain, 9, true));
    assert_false(lh_chain_has_computed(&chain, 10, false));
    assert_false(lh_chain_has_computed(&(lh_chain){.epoch = 9}, 9, false));
}

/* ---- Addresses: plain inside a site, TLS between sites where both have it ---- */

static void addresses_follow_the_sites(void **state) {
    (void)state;
    static const struct {
        const char *from_site, *to_site, *to_tls, *to_plain;
        bool from_has_tls;
        const char *expected; /* NULL: refused */
        bool tls;
    } cases[] = {
        {"x", "x", "b:2", "b:1", true, "b:1", false}, {"x", "y", "b:2", "b:1", true, "b:2", true},
        {"x", "y", "", "b:1", true, "b:1", false},    {"x", "y", "b:2", "b:1", false, "b:1", false},
        {"x", "x", "b:2", "", true, "b:2", true},     {"x", "y", "b:2", "", false, NULL, false},
        {"x", "x", "", "", true, NULL, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_worker a = {.report = report_of("a")}, b = {.report = report_of("b")};
        const lh_worker *workers[] = {&a, &b};
        snprintf(a.report.site, sizeof a.report.site, "%s", cases[i].from_site);
        snprintf(b.report.site, sizeof b.report.site, "%s", cases[i].to_site);
        snprintf(a.report.tls_address, sizeof a.report.tls_address, "%s",
                 cases[i].from_has_tls ? "a:2" : "");
        snprintf(b.report.tls_address, sizeof b.report.tls_address, "%s", cases[i].to_tls);
        snprintf(b.report.plain_address, sizeof b.report.plain_address, "%s", cases[i].to_plain);
        lh_layout plan = {.stage_count = 2, .stages = {{0, {0, 2}}, {1, {2, 4}}}};
        lh_chain chain = {.name = "main"};
        lh_chain_origin origin = {.site = "x", .has_tls = false};
        lh_error error;
        lh_status status = lh_chain_form(&chain, &plan, workers, &origin, 1, 0, &error);
        if (!cases[i].expected) {
            assert_int_equal(status, LH_ERR_UNAVAILABLE);
            assert_non_null(strstr(error.message, "a cannot send to worker b: it "));
            assert_non_null(
                strstr(error.message, cases[i].to_tls[0] ? "takes TLS alone" : "has no address"));
            assert_int_equal(chain.stage_count, 0);
            continue;
        }
        assert_int_equal(status, LH_OK);
        assert_string_equal(chain.stages[1].way.address, cases[i].expected);
        assert_int_equal(chain.stages[1].way.tls, cases[i].tls);
    }
}

/* a at home and b and c at the office, where c is behind a relay. */
static void from_another_site_one_goes_through_its_relay(void **state) {
    (void)state;
    lh_worker workers[] = {
        {.report = report_of("a")}, {.report = report_of("c")}, {.report = report_of("b")}};
    lh_worker_report *behind = &workers[1].report, *relay = &workers[2].report;
    const lh_worker *members[] = {&workers[0], &workers[1], &workers[2]};
    const lh_layout plan = {2, {{0, {0, 2}}, {1, {2, 4}}}},
                    inside = {2, {{2, {0, 2}}, {1, {2, 4}}}};
    lh_chain_origin origin = {.site = "home"};
    lh_chain chain = {.name = "main"};
    lh_error error;
    assert_int_equal(lh_relays_create(3000 * MS, &origin.relays, NULL), LH_OK);
    snprintf(behind->site, sizeof behind->site, "office");
    snprintf(relay->site, sizeof relay->site, "office");
    behind->is_behind_relay = relay->relays = true;
    assert_int_equal(lh_chain_form(&chain, &plan, members, &origin, 1, 0, &error),
                     LH_ERR_UNAVAILABLE);
    assert_string_equal(error.message,
                        "a cannot send to worker c: no relay of site office reaches it");
    relay->reach_count = 1;
    relay->reaches[0] = (lh_relay_reach){.name = "c", .hop = {.present = true, .connected = true}};
    lh_relays_note(origin.relays, relay, 0);
    assert_int_equal(lh_chain_form(&chain, &plan, members, &origin, 2, 0, NULL), LH_OK);
    assert_string_equal(chain.stages[0].way.via, "");
    assert_string_equal(chain.stages[1].way.via, "b");
    assert_string_equal(chain.stages[1].way.address, "b:1");
    assert_int_equal(lh_chain_unrelayed(&chain, origin.relays), -1);
    assert_int_equal(lh_chain_unrelayed(&chain, NULL), 1);
    relay->reaches[0].hop.connected = false;
    lh_relays_note(origin.relays, relay, 0);
    assert_int_equal(lh_chain_unrelayed(&chain, origin.relays), 1);
    /* From its own site it is reached as it is. */
    snprintf(workers[0].report.site, sizeof workers[0].report.site, "office");
    assert_int_equal(lh_chain_form(&chain, &inside, members, &origin, 3, 0, NULL), LH_OK);
    assert_string_equal(chain.stages[1].way.via, "");
    assert_string_equal(chain.stages[1].way.address, "c:1");
    assert_int_equal(lh_chain_unrelayed(&chain, origin.relays), -1);
    lh_relays_destroy(origin.relays);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_follow_each_other),
        cmocka_unit_test(it_remembers_when_it_was_planned),
        cmocka_unit_test(renewing_takes_what_workers_say_now),
        cmocka_unit_test(its_plan_names_nobody_for_those_that_are_not_there),
        cmocka_unit_test(it_knows_who_is_missing),
        cmocka_unit_test(it_says_what_it_waits_for),
        cmocka_unit_test(it_loads_while_one_of_its_epoch_does),
        cmocka_unit_test(the_first_hop_that_is_down_is_awaited),
        cmocka_unit_test(caches_are_kept_where_all_before_is_computed_alike),
        cmocka_unit_test(a_chain_of_other_stages_keeps_no_cache),
        cmocka_unit_test(what_is_no_stage_is_not_compared),
        cmocka_unit_test(chains_of_one_split_or_of_exact_hops_give_the_same),
        cmocka_unit_test(what_began_before_a_worker_came_is_not_its_work),
        cmocka_unit_test(addresses_follow_the_sites),
        cmocka_unit_test(from_another_site_one_goes_through_its_relay),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
