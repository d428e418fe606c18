/* When chains are planned, formed and formed again; addresses and epochs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/log.h"
#include "gateway/fleet/fleet.h"

#include <stdio.h>
#include <string.h>

#define MS 1000

static uint64_t layer_bytes[] = {100, 100, 100, 100};
static const lh_model_profile model = {.layers = 4, .context = 64, .width = 576, .layer_bytes = layer_bytes};

static lh_fleet *create_with_wire(uint32_t workers_expected, lh_wire_policy wire) {
    const lh_fleet_options options = {.chain_name = "main",
                                      .origin = {"home", true},
                                      .workers_expected = workers_expected,
                                      .context = 64,
                                      .rows_max = 16,
                                      .wire = wire,
                                      .plan_delay_us = 1500 * MS,
                                      .renew_us = 500 * MS,
                                      .lease_us = 3000 * MS,
                                      .probation_us = 1000 * MS,
                                      .first_epoch = 1000};
    lh_fleet *fleet;
    lh_log_set_level(LH_LOG_ERROR);
    assert_int_equal(lh_fleet_create(&options, &model, 0, &fleet, NULL), LH_OK);
    return fleet;
}

static lh_fleet *create(uint32_t workers_expected) {
    return create_with_wire(workers_expected, (lh_wire_policy){.type = LH_WIRE_F32});
}

static lh_worker_report report_of(const char *name) {
    lh_worker_report report = {.instance = 1, .threads = 1, .memory_bytes = 1000};
    snprintf(report.name, sizeof report.name, "%s", name);
    snprintf(report.site, sizeof report.site, "home");
    snprintf(report.plain_address, sizeof report.plain_address, "%s:1", name);
    return report;
}

static lh_fleet_answer put(lh_fleet *fleet, const lh_worker_report *report, int64_t now_us) {
    lh_fleet_answer answer;
    assert_int_equal(lh_fleet_put(fleet, report, now_us, &answer, NULL), LH_OK);
    return answer;
}

static void make_ready(lh_worker_report *report, uint32_t epoch) {
    report->assignment.state = LH_WORKER_READY;
    report->assignment.generation = epoch;
    report->next.present = report->next.connected = true;
    report->kv.present = true;
    report->kv.pages_total = 10;
    report->kv.page_positions = 16;
}

static lh_chain_state state_of(const lh_fleet *fleet) {
    return lh_fleet_chain(fleet)->state;
}

/* a and b, ready at 2,000 ms. */
static lh_fleet *create_ready(lh_worker_report *a, lh_worker_report *b) {
    lh_fleet *fleet = create(2);
    *a = report_of("a");
    *b = report_of("b");
    put(fleet, a, 1000 * MS);
    put(fleet, b, 1000 * MS);
    uint32_t epoch = lh_fleet_chain(fleet)->epoch;
    lh_fleet_first_hop(fleet, true, false, 1500 * MS, "");
    make_ready(a, epoch);
    make_ready(b, epoch);
    put(fleet, a, 2000 * MS);
    put(fleet, b, 2000 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    assert_string_equal(lh_fleet_reason(fleet), "");
    return fleet;
}

static void the_first_plan_waits_until_the_workers_are_stable(void **state) {
    (void)state;
    lh_fleet *fleet = create(0);
    lh_worker_report a = report_of("a"), b = report_of("b");
    assert_false(put(fleet, &a, 0).has_assignment);
    assert_int_equal(lh_fleet_deadline_us(fleet), 1500 * MS);
    put(fleet, &b, 1000 * MS);
    lh_fleet_tick(fleet, 1500 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_NONE);
    assert_int_equal(lh_fleet_deadline_us(fleet), 2500 * MS);
    lh_fleet_tick(fleet, 2500 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    assert_int_equal(lh_fleet_chain(fleet)->stage_count, 2);
    lh_fleet_destroy(fleet);
}

static void expected_workers_are_waited_for_and_then_planned_at_once(void **state) {
    (void)state;
    lh_fleet *fleet = create(2);
    lh_worker_report a = report_of("a"), b = report_of("b");
    for (int second = 0; second < 30; second++)
        put(fleet, &a, second * 1000 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_NONE);
    assert_string_equal(lh_fleet_reason(fleet), "1 of 2 expected workers are registered");
    lh_fleet_answer answer = put(fleet, &b, 30000 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    assert_true(answer.has_assignment);
    assert_int_equal(answer.assignment.first_layer, 2);
    assert_int_equal(answer.assignment.last_layer, 4);
    assert_null(answer.assignment.next);
    assert_int_equal(answer.assignment.epoch, 1030);
    assert_false(answer.is_urgent);
    lh_fleet_note_load(fleet, 1);
    answer = put(fleet, &a, 30100 * MS);
    assert_true(answer.is_urgent);
    assert_string_equal(answer.assignment.next->address, "b:1");
    lh_fleet_destroy(fleet);
}

static void one_that_never_comes_is_not_waited_for_for_ever(void **state) {
    (void)state;
    lh_fleet *fleet = create(2);
    lh_worker_report a = report_of("a");
    for (int second = 0; second <= 59; second++)
        put(fleet, &a, second * 1000 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_NONE);
    put(fleet, &a, 60000 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    lh_fleet_destroy(fleet);
}

static void a_chain_is_ready_when_all_is(void **state) {
    (void)state;
    lh_fleet *fleet = create(2);
    lh_worker_report a = report_of("a"), b = report_of("b");
    put(fleet, &a, 1000 * MS);
    put(fleet, &b, 1000 * MS);
    uint32_t epoch = lh_fleet_chain(fleet)->epoch;
    put(fleet, &a, 1100 * MS);
    assert_string_equal(lh_fleet_reason(fleet), "worker a has not taken its assignment yet");
    a.assignment.state = LH_WORKER_LOADING;
    a.assignment.generation = epoch;
    a.assignment.done_bytes = 1;
    a.assignment.total_bytes = 4;
    put(fleet, &a, 1200 * MS);
    assert_string_equal(lh_fleet_reason(fleet), "worker a loads its layers: 25 %");
    make_ready(&a, epoch);
    a.next.connected = false;
    make_ready(&b, epoch);
    put(fleet, &a, 1300 * MS);
    put(fleet, &b, 1300 * MS);
    assert_string_equal(lh_fleet_reason(fleet), "worker a is not connected to b yet");
    a.next.connected = true;
    put(fleet, &a, 1400 * MS);
    assert_string_equal(lh_fleet_reason(fleet), "the gateway is not connected to worker a yet");
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    lh_fleet_first_hop(fleet, true, false, 1500 * MS, "");
    lh_fleet_tick(fleet, 1500 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    assert_int_equal(lh_fleet_chain(fleet)->epoch, epoch);
    lh_fleet_destroy(fleet);
}

static void a_report_of_an_older_generation_is_not_ready(void **state) {
    (void)state;
    lh_worker_report a, b;
    lh_fleet *fleet = create_ready(&a, &b);
    uint32_t epoch = lh_fleet_chain(fleet)->epoch;
    lh_fleet_fault(fleet, epoch - 1, 2100 * MS, "old news");
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    lh_fleet_fault(fleet, epoch, 2100 * MS, "broken");
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    lh_fleet_tick(fleet, 2100 * MS);
    assert_true(lh_fleet_chain(fleet)->epoch > epoch);
    put(fleet, &a, 2200 * MS);
    put(fleet, &b, 2200 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    make_ready(&a, lh_fleet_chain(fleet)->epoch);
    make_ready(&b, lh_fleet_chain(fleet)->epoch);
    put(fleet, &a, 2300 * MS);
    put(fleet, &b, 2300 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    lh_fleet_destroy(fleet);
}

/* After a fault a worker that keeps silent is given up after the probation, not after its lease. */
static void a_silent_worker_is_given_up_soon_after_a_fault(void **state) {
    (void)state;
    lh_worker_report a, b;
    lh_fleet *fleet = create_ready(&a, &b);
    lh_fleet_fault(fleet, lh_fleet_chain(fleet)->epoch, 2100 * MS, "broken");
    lh_fleet_tick(fleet, 2100 * MS);
    put(fleet, &a, 2500 * MS);
    lh_fleet_tick(fleet, 3099 * MS);
    assert_int_equal(lh_fleet_chain(fleet)->stage_count, 2);
    assert_int_equal(lh_fleet_deadline_us(fleet), 3100 * MS);
    lh_fleet_tick(fleet, 3100 * MS);
    assert_int_equal(lh_fleet_chain(fleet)->stage_count, 1);
    assert_int_equal(lh_chain_find(lh_fleet_chain(fleet), "a"), 0);
    lh_fleet_destroy(fleet);
}

/* A chain that keeps failing with the same workers is formed once a second, and its epochs grow no faster. */
static void a_failing_chain_backs_off(void **state) {
    (void)state;
    lh_worker_report a, b;
    lh_fleet *fleet = create_ready(&a, &b);
    uint32_t last = lh_fleet_chain(fleet)->epoch;
    for (int64_t ms = 2000; ms < 20000; ms += 100) {
        make_ready(&a, lh_fleet_chain(fleet)->epoch);
        make_ready(&b, lh_fleet_chain(fleet)->epoch);
        put(fleet, &a, ms * MS);
        put(fleet, &b, ms * MS);
        lh_fleet_fault(fleet, lh_fleet_chain(fleet)->epoch, ms * MS, "again");
        lh_fleet_tick(fleet, ms * MS);
        uint32_t epoch = lh_fleet_chain(fleet)->epoch;
        assert_true(epoch >= last);
        assert_true(epoch <= 1000 + ms / 1000);
        last = epoch;
    }
    assert_true(last > 1010);
    lh_fleet_destroy(fleet);
}

/* A worker still has what an earlier gateway gave it, whose clock was ahead. */
static void epochs_go_on_from_what_workers_report(void **state) {
    (void)state;
    lh_fleet *fleet = create(2);
    lh_worker_report a = report_of("a"), b = report_of("b");
    make_ready(&a, 5000);
    put(fleet, &a, 0);
    put(fleet, &b, 0);
    assert_int_equal(lh_fleet_chain(fleet)->epoch, 5001);
    lh_fleet_destroy(fleet);
    fleet = create(2);
    make_ready(&a, UINT32_MAX);
    put(fleet, &a, 0);
    put(fleet, &b, 0);
    assert_int_equal(lh_fleet_chain(fleet)->epoch, 1000);
    lh_fleet_destroy(fleet);
}

static void a_spare_changes_nothing(void **state) {
    (void)state;
    lh_worker_report a, b, c = report_of("c");
    lh_fleet *fleet = create_ready(&a, &b);
    uint32_t epoch = lh_fleet_chain(fleet)->epoch;
    assert_false(put(fleet, &c, 2100 * MS).has_assignment);
    for (int ms = 2200; ms < 10000; ms += 500) {
        put(fleet, &a, ms * MS);
        put(fleet, &b, ms * MS);
        put(fleet, &c, ms * MS);
    }
    assert_int_equal(lh_fleet_chain(fleet)->epoch, epoch);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    lh_fleet_destroy(fleet);
}

static void a_worker_that_cannot_load_is_left_out(void **state) {
    (void)state;
    lh_fleet *fleet = create(2);
    lh_worker_report a = report_of("a"), b = report_of("b");
    put(fleet, &a, 1000 * MS);
    put(fleet, &b, 1000 * MS);
    b.assignment.state = LH_WORKER_FAILED;
    b.assignment.generation = lh_fleet_chain(fleet)->epoch;
    put(fleet, &b, 3000 * MS);
    assert_int_equal(lh_fleet_chain(fleet)->stage_count, 1);
    assert_int_equal(lh_chain_find(lh_fleet_chain(fleet), "b"), -1);
    lh_fleet_destroy(fleet);
}

static void nothing_is_planned_while_held(void **state) {
    (void)state;
    lh_fleet *fleet = create(1);
    lh_worker_report a = report_of("a");
    lh_fleet_hold(fleet, "digests");
    put(fleet, &a, 0);
    assert_string_equal(lh_fleet_reason(fleet), "digests");
    assert_int_equal(lh_fleet_deadline_us(fleet), 3000 * MS);
    lh_fleet_hold(fleet, NULL);
    lh_fleet_tick(fleet, 10 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    lh_fleet_destroy(fleet);
}

/* While a plan does not fit it is not tried at every moment. */
static void a_plan_that_does_not_fit_is_tried_again_later(void **state) {
    (void)state;
    lh_fleet *fleet = create(1);
    lh_worker_report a = report_of("a");
    a.memory_bytes = 399;
    put(fleet, &a, 0);
    assert_non_null(strstr(lh_fleet_reason(fleet), "no split fits"));
    assert_true(lh_fleet_deadline_us(fleet) >= 1000 * MS);
    a.memory_bytes = 400;
    put(fleet, &a, 1000 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    lh_fleet_destroy(fleet);
}

/* ---- Wire types: those that measurements call for, before the first step ----------------------------------------- */

static const lh_wire_policy with_q8 = {.is_auto = true, .allows_q8 = true};

/* a and b hold their stages and are connected; nothing is measured. */
static lh_fleet *create_unmeasured(lh_worker_report *a, lh_worker_report *b) {
    lh_fleet *fleet = create_with_wire(2, with_q8);
    *a = report_of("a");
    *b = report_of("b");
    put(fleet, a, 1000 * MS);
    assert_int_equal(put(fleet, b, 1000 * MS).assignment.wire, LH_WIRE_F16);
    lh_fleet_first_hop(fleet, true, false, 1500 * MS, "");
    make_ready(a, lh_fleet_chain(fleet)->epoch);
    make_ready(b, lh_fleet_chain(fleet)->epoch);
    put(fleet, a, 2000 * MS);
    put(fleet, b, 2000 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    assert_string_equal(lh_fleet_reason(fleet), "its stages and hops are being measured");
    return fleet;
}

/* A row takes 1 ms; over the hop, in f16, 1170 us / rate. */
static void measure(lh_worker_report *report, double bytes_per_us) {
    report->compute = (lh_compute_profile){.point_count = 1, .points = {{64, 64000}}};
    report->next.bytes_per_us = bytes_per_us;
}

static void put_ready(lh_fleet *fleet, lh_worker_report *a, lh_worker_report *b, int64_t now_us) {
    make_ready(a, lh_fleet_chain(fleet)->epoch);
    make_ready(b, lh_fleet_chain(fleet)->epoch);
    put(fleet, a, now_us);
    put(fleet, b, now_us);
}

static void a_slow_hop_gets_q8_before_the_first_step(void **state) {
    (void)state;
    lh_worker_report a, b;
    lh_fleet *fleet = create_unmeasured(&a, &b);
    uint32_t epoch = lh_fleet_chain(fleet)->epoch;
    measure(&a, 0.5);
    measure(&b, 0);
    put_ready(fleet, &a, &b, 2500 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    assert_true(lh_fleet_chain(fleet)->epoch > epoch);
    assert_int_equal(put(fleet, &a, 2600 * MS).assignment.wire, LH_WIRE_Q8);
    put_ready(fleet, &a, &b, 2700 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    epoch = lh_fleet_chain(fleet)->epoch;
    a.next.bytes_per_us = 100; /* fixed for the epoch */
    put_ready(fleet, &a, &b, 4000 * MS);
    assert_int_equal(lh_fleet_chain(fleet)->epoch, epoch);
    assert_int_equal(lh_fleet_chain(fleet)->stages[0].wire, LH_WIRE_Q8);
    lh_fleet_fault(fleet, epoch, 4100 * MS, "broken"); /* it forms again anyway: once is enough */
    lh_fleet_tick(fleet, 4100 * MS);
    assert_int_equal(lh_fleet_chain(fleet)->stages[0].wire, LH_WIRE_F16);
    epoch = lh_fleet_chain(fleet)->epoch;
    put_ready(fleet, &a, &b, 4200 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    assert_int_equal(lh_fleet_chain(fleet)->epoch, epoch);
    lh_fleet_destroy(fleet);
}

static void a_fast_hop_needs_no_second_epoch(void **state) {
    (void)state;
    lh_worker_report a, b;
    lh_fleet *fleet = create_unmeasured(&a, &b);
    uint32_t epoch = lh_fleet_chain(fleet)->epoch;
    measure(&a, 12.5);
    measure(&b, 0);
    put_ready(fleet, &a, &b, 2500 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    assert_int_equal(lh_fleet_chain(fleet)->epoch, epoch);
    assert_int_equal(lh_fleet_chain(fleet)->stages[0].wire, LH_WIRE_F16);
    lh_fleet_destroy(fleet);
}

static void measurements_are_not_waited_for_for_ever(void **state) {
    (void)state;
    lh_worker_report a, b, c = report_of("c");
    lh_fleet *fleet = create_unmeasured(&a, &b);
    for (int64_t ms = 2500; ms < 7000; ms += 500)
        put_ready(fleet, &a, &b, ms * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    put_ready(fleet, &a, &b, 7000 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    /* Another worker takes over from b: its hop is not waited for, since sequences are. */
    put(fleet, &c, 7100 * MS);
    for (int64_t ms = 7500; ms <= 10000; ms += 500) {
        put(fleet, &a, ms * MS);
        put(fleet, &c, ms * MS);
    }
    assert_int_equal(lh_chain_find(lh_fleet_chain(fleet), "c"), 1);
    put_ready(fleet, &a, &c, 10100 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    lh_fleet_destroy(fleet);
}

/* ---- Addresses: plain inside a site, TLS between sites where both have it ---------------------------------------- */

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
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_worker a = {.report = report_of("a")}, b = {.report = report_of("b")};
        const lh_worker *workers[] = {&a, &b};
        snprintf(a.report.site, sizeof a.report.site, "%s", cases[i].from_site);
        snprintf(b.report.site, sizeof b.report.site, "%s", cases[i].to_site);
        snprintf(a.report.tls_address, sizeof a.report.tls_address, "%s", cases[i].from_has_tls ? "a:2" : "");
        snprintf(b.report.tls_address, sizeof b.report.tls_address, "%s", cases[i].to_tls);
        snprintf(b.report.plain_address, sizeof b.report.plain_address, "%s", cases[i].to_plain);
        lh_plan plan = {.stage_count = 2, .stages = {{0, 0, 2}, {1, 2, 4}}};
        lh_chain chain = {.name = "main"};
        lh_chain_origin origin = {"x", false};
        lh_error error;
        lh_status status = lh_chain_form(&chain, &plan, workers, &origin, 1, 0, &error);
        if (!cases[i].expected) {
            assert_int_equal(status, LH_ERR_UNAVAILABLE);
            assert_non_null(strstr(error.message, "b"));
            assert_int_equal(chain.stage_count, 0);
            continue;
        }
        assert_int_equal(status, LH_OK);
        assert_string_equal(chain.stages[1].address, cases[i].expected);
        assert_int_equal(chain.stages[1].tls, cases[i].tls);
    }
}

/* Whoever is the same, at its place of the same split, keeps its cache, as far as all after it do. */
static void caches_are_kept_from_one_epoch_to_the_next(void **state) {
    (void)state;
    lh_worker_report a, b;
    lh_fleet *fleet = create_ready(&a, &b);
    const lh_chain *chain = lh_fleet_chain(fleet);
    uint32_t first = chain->epoch;
    assert_int_equal(chain->stages[0].kv_epoch, first);
    assert_int_equal(chain->stages[1].kv_epoch, first);
    lh_fleet_fault(fleet, first, 2100 * MS, "broken");
    lh_fleet_tick(fleet, 2100 * MS);
    assert_true(chain->epoch > first);
    assert_int_equal(chain->stages[0].kv_epoch, first);
    assert_int_equal(put(fleet, &b, 2200 * MS).assignment.kv_epoch, first);
    a.instance++;
    put(fleet, &a, 4000 * MS);
    assert_int_equal(chain->stages[0].kv_epoch, chain->epoch);
    assert_int_equal(chain->stages[1].kv_epoch, first);
    b.instance++;
    put(fleet, &b, 6000 * MS);
    assert_int_equal(chain->stages[0].kv_epoch, chain->epoch);
    assert_int_equal(chain->stages[1].kv_epoch, chain->epoch);
    lh_fleet_destroy(fleet);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_plan_waits_until_the_workers_are_stable),
        cmocka_unit_test(expected_workers_are_waited_for_and_then_planned_at_once),
        cmocka_unit_test(one_that_never_comes_is_not_waited_for_for_ever),
        cmocka_unit_test(a_chain_is_ready_when_all_is),
        cmocka_unit_test(a_report_of_an_older_generation_is_not_ready),
        cmocka_unit_test(a_silent_worker_is_given_up_soon_after_a_fault),
        cmocka_unit_test(a_failing_chain_backs_off),
        cmocka_unit_test(epochs_go_on_from_what_workers_report),
        cmocka_unit_test(a_spare_changes_nothing),
        cmocka_unit_test(a_worker_that_cannot_load_is_left_out),
        cmocka_unit_test(nothing_is_planned_while_held),
        cmocka_unit_test(a_plan_that_does_not_fit_is_tried_again_later),
        cmocka_unit_test(a_slow_hop_gets_q8_before_the_first_step),
        cmocka_unit_test(a_fast_hop_needs_no_second_epoch),
        cmocka_unit_test(measurements_are_not_waited_for_for_ever),
        cmocka_unit_test(addresses_follow_the_sites),
        cmocka_unit_test(caches_are_kept_from_one_epoch_to_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
