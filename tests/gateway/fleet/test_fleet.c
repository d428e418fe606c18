/* When chains are planned, formed and formed again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/log_capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lh_fleet *create_with_wire(uint32_t workers_expected, lh_wire_policy wire) {
    lh_fleet_options options = fleet_of_four_layers(workers_expected);
    lh_fleet *fleet;
    options.wire = wire;
    lh_log_set_level(LH_LOG_ERROR);
    assert_int_equal(lh_fleet_create(&options, 0, &fleet, NULL), LH_OK);
    return fleet;
}

static lh_fleet *create(uint32_t workers_expected) {
    return create_with_wire(workers_expected, (lh_wire_policy){.type = LH_WIRE_F32});
}

static lh_chain_state state_of(const lh_fleet *fleet) {
    return lh_fleet_chain(fleet)->state;
}

static const lh_chain *successor_of(const lh_fleet *fleet) {
    const char *cause;
    return lh_fleet_successor(fleet, &cause);
}

/* a and b, ready at 2,000 ms. */
static lh_fleet *create_ready(lh_worker_report *a, lh_worker_report *b) {
    lh_fleet *fleet = create(2);
    *a = report_of("a");
    *b = report_of("b");
    put_report(fleet, a, 1000 * MS);
    put_report(fleet, b, 1000 * MS);
    uint32_t epoch = lh_fleet_chain(fleet)->epoch;
    lh_fleet_first_hop(fleet, true, false, 1500 * MS, "");
    make_ready(a, epoch);
    make_ready(b, epoch);
    put_report(fleet, a, 2000 * MS);
    put_report(fleet, b, 2000 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    assert_string_equal(lh_fleet_reason(fleet), "");
    return fleet;
}

static void the_first_plan_waits_until_the_workers_are_stable(void **state) {
    (void)state;
    lh_fleet *fleet = create(0);
    lh_worker_report a = report_of("a"), b = report_of("b");
    assert_false(put_report(fleet, &a, 0).has_assignment);
    assert_int_equal(lh_fleet_deadline_us(fleet), 1500 * MS);
    put_report(fleet, &b, 1000 * MS);
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
        put_report(fleet, &a, second * 1000 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_NONE);
    assert_string_equal(lh_fleet_reason(fleet), "1 of 2 expected workers are registered");
    lh_fleet_answer answer = put_report(fleet, &b, 30000 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    assert_true(answer.has_assignment);
    assert_int_equal(answer.assignment.stage.first_layer, 2);
    assert_int_equal(answer.assignment.stage.last_layer, 4);
    assert_true(answer.assignment.next.is_gateway);
    assert_int_equal(answer.assignment.epoch, 1030);
    assert_false(answer.is_urgent);
    lh_fleet_note_load(fleet, &(lh_fleet_load){.sequences = 1});
    answer = put_report(fleet, &a, 30100 * MS);
    assert_true(answer.is_urgent);
    assert_string_equal(answer.assignment.next.address, "b:1");
    lh_fleet_destroy(fleet);
}

static void one_that_never_comes_is_not_waited_for_for_ever(void **state) {
    (void)state;
    lh_fleet *fleet = create(2);
    lh_worker_report a = report_of("a");
    for (int second = 0; second <= 59; second++)
        put_report(fleet, &a, second * 1000 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_NONE);
    put_report(fleet, &a, 60000 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    lh_fleet_destroy(fleet);
}

static void a_chain_is_ready_when_all_is(void **state) {
    (void)state;
    lh_fleet *fleet = create(2);
    lh_worker_report a = report_of("a"), b = report_of("b");
    put_report(fleet, &a, 1000 * MS);
    put_report(fleet, &b, 1000 * MS);
    uint32_t epoch = lh_fleet_chain(fleet)->epoch;
    put_report(fleet, &a, 1100 * MS);
    assert_string_equal(lh_fleet_reason(fleet), "worker a has not taken its assignment yet");
    a.assignment.state = LH_WORKER_LOADING;
    a.assignment.generation = epoch;
    a.assignment.done_bytes = 1;
    a.assignment.total_bytes = 4;
    put_report(fleet, &a, 1200 * MS);
    assert_string_equal(lh_fleet_reason(fleet), "worker a loads its layers: 25 %");
    make_ready(&a, epoch);
    a.next.connected = false;
    make_ready(&b, epoch);
    put_report(fleet, &a, 1300 * MS);
    put_report(fleet, &b, 1300 * MS);
    assert_string_equal(lh_fleet_reason(fleet), "worker a is not connected to b");
    snprintf(a.next_error, sizeof a.next_error, "b:1: connection refused");
    put_report(fleet, &a, 1350 * MS);
    assert_string_equal(lh_fleet_reason(fleet),
                        "worker a is not connected to b: b:1: connection refused");
    a.next_error[0] = 0;
    a.next.connected = true;
    put_report(fleet, &a, 1400 * MS);
    assert_string_equal(lh_fleet_reason(fleet), "the gateway is not connected to worker a");
    lh_log_set_level(LH_LOG_WARN);
    log_capture_begin();
    lh_fleet_first_hop(fleet, false, false, 1400 * MS, "a:1: no answer in time");
    lh_fleet_tick(fleet, 1400 * MS);
    lh_fleet_tick(fleet, 1450 * MS);
    char *told = log_capture_end();
    char *line =
        strstr(told, "the chain waits for a hop chain=main epoch=1001 reason=\"the gateway "
                     "is not connected to worker a: a:1: no answer in time\"");
    assert_non_null(line);
    assert_null(strstr(line + 1, "the chain waits")); /* once */
    free(told);
    lh_log_set_level(LH_LOG_ERROR);
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
    put_report(fleet, &a, 2200 * MS);
    put_report(fleet, &b, 2200 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    make_ready(&a, lh_fleet_chain(fleet)->epoch);
    make_ready(&b, lh_fleet_chain(fleet)->epoch);
    put_report(fleet, &a, 2300 * MS);
    put_report(fleet, &b, 2300 * MS);
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
    put_report(fleet, &a, 2500 * MS);
    lh_fleet_tick(fleet, 3099 * MS);
    assert_int_equal(lh_fleet_chain(fleet)->stage_count, 2);
    assert_int_equal(lh_fleet_deadline_us(fleet), 3100 * MS);
    lh_fleet_tick(fleet, 3100 * MS);
    assert_int_equal(lh_fleet_chain(fleet)->stage_count, 1);
    assert_int_equal(lh_chain_find(lh_fleet_chain(fleet), "a"), 0);
    lh_fleet_destroy(fleet);
}

/* A chain that keeps failing with the same workers is formed once a second, and its epochs grow no
 * faster. */
static void a_failing_chain_backs_off(void **state) {
    (void)state;
    lh_worker_report a, b;
    lh_fleet *fleet = create_ready(&a, &b);
    uint32_t last = lh_fleet_chain(fleet)->epoch;
    for (int64_t ms = 2000; ms < 20000; ms += 100) {
        make_ready(&a, lh_fleet_chain(fleet)->epoch);
        make_ready(&b, lh_fleet_chain(fleet)->epoch);
        put_report(fleet, &a, ms * MS);
        put_report(fleet, &b, ms * MS);
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
    put_report(fleet, &a, 0);
    put_report(fleet, &b, 0);
    assert_int_equal(lh_fleet_chain(fleet)->epoch, 5001);
    lh_fleet_destroy(fleet);
    fleet = create(2);
    make_ready(&a, UINT32_MAX);
    put_report(fleet, &a, 0);
    put_report(fleet, &b, 0);
    assert_int_equal(lh_fleet_chain(fleet)->epoch, 1000);
    lh_fleet_destroy(fleet);
}

static void a_spare_changes_nothing(void **state) {
    (void)state;
    lh_worker_report a, b, c = report_of("c");
    lh_fleet *fleet = create_ready(&a, &b);
    uint32_t epoch = lh_fleet_chain(fleet)->epoch;
    assert_false(put_report(fleet, &c, 2100 * MS).has_assignment);
    for (int ms = 2200; ms < 10000; ms += 500) {
        put_report(fleet, &a, ms * MS);
        put_report(fleet, &b, ms * MS);
        put_report(fleet, &c, ms * MS);
    }
    assert_int_equal(lh_fleet_chain(fleet)->epoch, epoch);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    lh_fleet_destroy(fleet);
}

static void a_worker_that_cannot_load_is_left_out(void **state) {
    (void)state;
    lh_fleet *fleet = create(2);
    lh_worker_report a = report_of("a"), b = report_of("b");
    put_report(fleet, &a, 1000 * MS);
    put_report(fleet, &b, 1000 * MS);
    b.assignment.state = LH_WORKER_FAILED;
    b.assignment.generation = lh_fleet_chain(fleet)->epoch;
    snprintf(b.assignment.error, sizeof b.assignment.error, "the disk is full");
    lh_log_set_level(LH_LOG_INFO);
    log_capture_begin();
    put_report(fleet, &b, 3000 * MS);
    char *log = log_capture_end();
    lh_log_set_level(LH_LOG_ERROR);
    assert_int_equal(lh_fleet_chain(fleet)->stage_count, 1);
    assert_int_equal(lh_chain_find(lh_fleet_chain(fleet), "b"), -1);
    assert_non_null(strstr(log, "worker is a spare worker=b reason=\"it could not load its stage: "
                                "the disk is full"));
    free(log);
    lh_fleet_destroy(fleet);
}

static void nothing_is_planned_while_held(void **state) {
    (void)state;
    lh_fleet *fleet = create(1);
    lh_worker_report a = report_of("a");
    lh_fleet_hold(fleet, "digests");
    put_report(fleet, &a, 0);
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
    lh_log_set_level(LH_LOG_WARN);
    log_capture_begin();
    put_report(fleet, &a, 0);
    lh_fleet_tick(fleet, 1500 * MS); /* the same is said once */
    char *log = log_capture_end(), *line = strstr(log, "no chain can be formed");
    lh_log_set_level(LH_LOG_ERROR);
    assert_non_null(line);
    assert_null(strstr(line + 1, "no chain can be formed"));
    free(log);
    assert_non_null(strstr(lh_fleet_reason(fleet), "no split fits"));
    assert_non_null(strstr(lh_fleet_reason(fleet), "--memory-bytes: a 0 MiB"));
    assert_non_null(strstr(lh_fleet_shortfall(fleet), "no split fits"));
    assert_null(strstr(lh_fleet_shortfall(fleet), ": a"));
    assert_true(lh_fleet_deadline_us(fleet) >= 2500 * MS);
    a.memory_bytes = 400;
    put_report(fleet, &a, 2500 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    assert_string_equal(lh_fleet_shortfall(fleet), "");
    lh_fleet_destroy(fleet);
}

static void the_last_one_takes_its_problem_along(void **state) {
    (void)state;
    lh_fleet *fleet = create(1);
    lh_worker_report a = report_of("a");
    a.memory_bytes = 399;
    put_report(fleet, &a, 0);
    assert_non_null(strstr(lh_fleet_reason(fleet), "no split fits"));
    lh_fleet_forget(fleet, "a", 1000 * MS);
    assert_string_equal(lh_fleet_reason(fleet), "0 of 1 expected workers are registered");
    lh_fleet_destroy(fleet);
    fleet = create(0);
    put_report(fleet, &a, 0);
    lh_fleet_tick(fleet, 1500 * MS);
    assert_non_null(strstr(lh_fleet_reason(fleet), "no split fits"));
    lh_fleet_forget(fleet, "a", 2500 * MS);
    assert_string_equal(lh_fleet_reason(fleet), "no worker is registered");
    lh_fleet_destroy(fleet);
}

static void without_memory_there_is_no_fleet(void **state) {
    (void)state;
    lh_fleet_options options = fleet_of_four_layers(1);
    for (size_t n = 1;; n++) {
        lh_fleet *fleet = NULL;
        failing_malloc_arm(n);
        lh_status status = lh_fleet_create(&options, 0, &fleet, NULL);
        if (!failing_malloc_disarm()) {
            assert_int_equal(status, LH_OK);
            lh_fleet_destroy(fleet);
            break;
        }
        assert_int_equal(status, LH_ERR_NO_MEMORY);
        assert_null(fleet);
    }
}

/* ---- Wire types: those that measurements call for, before the first step ---- */

static const lh_wire_policy with_q8 = {.is_auto = true, .allows_q8 = true};

/* a and b hold their stages and are connected; nothing is measured. */
static lh_fleet *create_unmeasured(lh_worker_report *a, lh_worker_report *b) {
    lh_fleet *fleet = create_with_wire(2, with_q8);
    *a = report_of("a");
    *b = report_of("b");
    put_report(fleet, a, 1000 * MS);
    assert_int_equal(put_report(fleet, b, 1000 * MS).assignment.stage.wire, LH_WIRE_F16);
    lh_fleet_first_hop(fleet, true, false, 1500 * MS, "");
    make_ready(a, lh_fleet_chain(fleet)->epoch);
    make_ready(b, lh_fleet_chain(fleet)->epoch);
    put_report(fleet, a, 2000 * MS);
    put_report(fleet, b, 2000 * MS);
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
    put_report(fleet, a, now_us);
    put_report(fleet, b, now_us);
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
    assert_int_equal(put_report(fleet, &a, 2600 * MS).assignment.stage.wire, LH_WIRE_Q8);
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
    a.next.bytes_per_us = 0.5; /* again; but they are settled once for these stages */
    put_ready(fleet, &a, &b, 4200 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    assert_int_equal(lh_fleet_chain(fleet)->epoch, epoch);
    assert_int_equal(lh_fleet_chain(fleet)->stages[0].wire, LH_WIRE_F16);
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
    put_report(fleet, &c, 7100 * MS);
    for (int64_t ms = 7500; ms <= 10000; ms += 500) {
        put_report(fleet, &a, ms * MS);
        put_report(fleet, &c, ms * MS);
    }
    assert_int_equal(lh_chain_find(lh_fleet_chain(fleet), "c"), 1);
    put_ready(fleet, &a, &c, 10100 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    lh_fleet_destroy(fleet);
}

/* c takes over from b, and a's hop to it is slow, as is known already. */
static void other_stages_settle_their_wires_anew(void **state) {
    (void)state;
    lh_worker_report a, b, c = report_of("c");
    lh_fleet *fleet = create_unmeasured(&a, &b);
    measure(&a, 12.5);
    measure(&b, 0);
    put_ready(fleet, &a, &b, 2500 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    put_report(fleet, &c, 2600 * MS);
    lh_fleet_forget(fleet, "b", 2600 * MS);
    assert_int_equal(lh_chain_find(lh_fleet_chain(fleet), "c"), 1);
    uint32_t epoch = lh_fleet_chain(fleet)->epoch;
    a.next.bytes_per_us = 0.5;
    measure(&c, 0);
    put_ready(fleet, &a, &c, 2700 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    assert_true(lh_fleet_chain(fleet)->epoch > epoch);
    assert_int_equal(lh_fleet_chain(fleet)->stages[0].wire, LH_WIRE_Q8);
    lh_fleet_destroy(fleet);
}

/* The same while the first one of all is still being measured: five seconds for this one. */
static void other_stages_are_measured_for_as_long(void **state) {
    (void)state;
    lh_worker_report a, b, c = report_of("c");
    lh_fleet *fleet = create_unmeasured(&a, &b);
    for (int64_t ms = 2500; ms <= 6500; ms += 500)
        put_ready(fleet, &a, &b, ms * MS);
    put_report(fleet, &c, 6600 * MS);
    lh_fleet_forget(fleet, "b", 6600 * MS);
    for (int64_t ms = 6700; ms < 11700; ms += 500) {
        put_ready(fleet, &a, &c, ms * MS);
        assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    }
    put_ready(fleet, &a, &c, 11700 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    lh_fleet_destroy(fleet);
}

/* It was planned before the first chain became ready: sequences may be waiting all the same. */
static void a_successor_does_not_wait_for_measurements(void **state) {
    (void)state;
    lh_fleet *fleet = create_with_wire(2, with_q8);
    lh_worker_report a = report_of("a"), b = report_of("b"), c = report_of("c");
    a.memory_bytes = 399;
    put_report(fleet, &a, 1000 * MS);
    put_report(fleet, &b, 1000 * MS);
    lh_fleet_first_hop(fleet, true, false, 1000 * MS, "");
    make_ready(&b, lh_fleet_chain(fleet)->epoch);
    measure(&b, 0);
    b.leaving = true;
    put_report(fleet, &c, 1100 * MS);
    put_report(fleet, &b, 1100 * MS);
    a.trial = trial_of_hop(successor_of(fleet), 1, LH_HOP_TRIAL_PROVEN);
    c.trial = trial_of_hop(successor_of(fleet), 2, LH_HOP_TRIAL_PROVEN);
    put_report(fleet, &a, 1100 * MS);
    assert_true(put_report(fleet, &c, 1100 * MS).has_prepare);
    make_ready(&a, lh_fleet_chain(fleet)->epoch);
    measure(&a, 12.5);
    put_report(fleet, &a, 1200 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    c.prepared.state = LH_WORKER_READY;
    c.prepared.first_layer = 2;
    c.prepared.last_layer = 4;
    c.prepared.holds = true;
    put_report(fleet, &c, 1300 * MS);
    assert_int_equal(lh_chain_find(lh_fleet_chain(fleet), "c"), 1);
    put_ready(fleet, &a, &c, 1400 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    lh_fleet_destroy(fleet);
}

/* Whoever is the same, at its place of the same split, keeps its cache, as far as all after it do.
 */
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
    assert_int_equal(put_report(fleet, &b, 2200 * MS).assignment.stage.kv_epoch, first);
    a.instance++;
    put_report(fleet, &a, 4000 * MS);
    assert_int_equal(chain->stages[0].kv_epoch, chain->epoch);
    assert_int_equal(chain->stages[1].kv_epoch, first);
    b.instance++;
    put_report(fleet, &b, 6000 * MS);
    assert_int_equal(chain->stages[0].kv_epoch, chain->epoch);
    assert_int_equal(chain->stages[1].kv_epoch, chain->epoch);
    lh_fleet_destroy(fleet);
}

/* ---- Who is in the chain ---- */

static bool has_member(const lh_fleet *fleet, const char *worker) {
    return lh_chain_find(lh_fleet_chain(fleet), worker) >= 0;
}

/* What it says of an assignment that it no longer has. */
static void a_stale_failure_excludes_nobody(void **state) {
    (void)state;
    lh_worker_report a, b;
    lh_fleet *fleet = create_ready(&a, &b);
    uint32_t old = lh_fleet_chain(fleet)->epoch;
    lh_fleet_fault(fleet, old, 2100 * MS, "broken");
    lh_fleet_tick(fleet, 2100 * MS);
    uint32_t epoch = lh_fleet_chain(fleet)->epoch;
    b.assignment.state = LH_WORKER_FAILED;
    b.assignment.generation = old;
    put_report(fleet, &b, 2200 * MS);
    put_report(fleet, &a, 3200 * MS);
    assert_int_equal(lh_fleet_chain(fleet)->epoch, epoch);
    assert_true(has_member(fleet, "b"));
    assert_int_equal(lh_registry_find(lh_fleet_registry(fleet), "b")->excluded_until_us, 0);
    lh_fleet_destroy(fleet);
}

static void note_failed(const lh_fleet *fleet, lh_worker_report *report, const char *error) {
    report->assignment.state = LH_WORKER_FAILED;
    report->assignment.generation = lh_fleet_chain(fleet)->epoch;
    snprintf(report->assignment.error, sizeof report->assignment.error, "%s", error);
}

static int64_t excluded_until_us(const lh_fleet *fleet, const char *worker) {
    return lh_registry_find(lh_fleet_registry(fleet), worker)->excluded_until_us;
}

/* For half a minute. */
static void a_failure_excludes_for_a_while(void **state) {
    (void)state;
    lh_worker_report a, b;
    lh_fleet *fleet = create_ready(&a, &b);
    note_failed(fleet, &b, "no room");
    put_report(fleet, &b, 2500 * MS);
    assert_int_equal(excluded_until_us(fleet, "b"), 32500 * MS);
    put_report(fleet, &a, 3500 * MS);
    assert_false(has_member(fleet, "b"));
    assert_true(has_member(fleet, "a"));
    for (int64_t now_us = 4000 * MS; now_us < 32500 * MS; now_us += 1000 * MS) {
        put_report(fleet, &b, now_us);
        put_report(fleet, &a, now_us);
        assert_int_equal(excluded_until_us(fleet, "b"), 32500 * MS);
    }
    lh_fleet_destroy(fleet);
}

/* The model fits nobody else: the chain waits, and the worker, which tries again, is told nothing
 * new; the log has it once. */
static void one_that_cannot_be_spared_is_waited_for(void **state) {
    (void)state;
    lh_fleet *fleet = create(1);
    lh_worker_report a = report_of("a");
    put_report(fleet, &a, 1000 * MS);
    uint32_t epoch = lh_fleet_chain(fleet)->epoch;
    note_failed(fleet, &a, "no room");
    log_capture_begin();
    for (int64_t now_us = 1500 * MS; now_us < 60000 * MS; now_us += 500 * MS)
        put_report(fleet, &a, now_us);
    char *lines = log_capture_end(), *told = strstr(lines, "no plan without it worker=a");
    assert_non_null(told);
    assert_null(strstr(told + 1, "no plan without it"));
    free(lines);
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    assert_int_equal(lh_fleet_chain(fleet)->epoch, epoch);
    assert_int_equal(excluded_until_us(fleet, "a"), 0);
    assert_string_equal(lh_fleet_reason(fleet), "worker a cannot load its layers: no room");
    lh_fleet_first_hop(fleet, true, false, 60000 * MS, "");
    make_ready(&a, epoch);
    put_report(fleet, &a, 60500 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    lh_fleet_destroy(fleet);
}

/* Its software is older than the model: it is not asked again until it is another process. */
static void one_that_cannot_compute_the_model_is_left_out_for_good(void **state) {
    (void)state;
    lh_worker_report a, b;
    char role[LH_ERROR_MESSAGE_BYTES];
    lh_fleet *fleet = create_ready(&a, &b);
    assert_string_equal(lh_fleet_refusal(fleet), "");
    note_failed(fleet, &b, "no such architecture");
    b.assignment.is_final = true;
    put_report(fleet, &b, 2500 * MS);
    put_report(fleet, &a, 3500 * MS);
    assert_false(has_member(fleet, "b"));
    assert_int_equal(excluded_until_us(fleet, "b"), INT64_MAX);
    for (int64_t now_us = 4000 * MS; now_us < 90000 * MS; now_us += 1000 * MS) {
        put_report(fleet, &a, now_us);
        assert_false(put_report(fleet, &b, now_us).has_assignment);
    }
    lh_role_inquiry roles = lh_fleet_ask_roles(fleet, 90000 * MS);
    lh_worker_role_of(&roles, lh_registry_find(lh_fleet_registry(fleet), "b"), role);
    assert_non_null(strstr(role, "cannot compute the model: no such architecture"));
    b.instance++;
    put_report(fleet, &b, 90000 * MS);
    assert_int_equal(excluded_until_us(fleet, "b"), 0);
    lh_fleet_destroy(fleet);
}

/* a and b, ready, whose last worker is responsible for results; the record is empty. */
static lh_fleet *create_responsible(lh_misconduct *misconduct, lh_worker_report *a,
                                    lh_worker_report *b) {
    lh_fleet_options options = fleet_of_four_layers(2);
    lh_fleet *fleet;
    *misconduct = (lh_misconduct){0};
    options.misconduct = misconduct;
    assert_int_equal(lh_fleet_create(&options, 0, &fleet, NULL), LH_OK);
    *a = report_of("a");
    *b = report_of("b");
    put_report(fleet, a, 1000 * MS);
    put_report(fleet, b, 1000 * MS);
    lh_fleet_first_hop(fleet, true, false, 1500 * MS, "");
    return fleet;
}

/* Reports that the chain is ready, and then what its last worker did. */
static void make_ready_and_blame(lh_fleet *fleet, lh_worker_report *a, lh_worker_report *b,
                                 int64_t now_us) {
    uint32_t epoch = lh_fleet_chain(fleet)->epoch;
    make_ready(a, epoch);
    make_ready(b, epoch);
    put_report(fleet, a, now_us);
    put_report(fleet, b, now_us);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    lh_fleet_blame_last(fleet, epoch - 1, LH_WORKER_FAULT_BAD_RESULT, now_us, "stale");
    lh_fleet_blame_last(fleet, epoch, LH_WORKER_FAULT_BAD_RESULT, now_us, "an impossible token");
    lh_fleet_tick(fleet, now_us);
}

static int64_t suspended_until_us(const lh_fleet *fleet, const char *worker) {
    return lh_registry_find(lh_fleet_registry(fleet), worker)->suspended_until_us;
}

/* The second time, and at once: another set of workers needs no back-off. */
static void one_whose_results_are_refused_is_left_out(void **state) {
    (void)state;
    lh_misconduct misconduct;
    lh_worker_report a, b;
    char role[LH_ERROR_MESSAGE_BYTES];
    lh_fleet *fleet = create_responsible(&misconduct, &a, &b);
    make_ready_and_blame(fleet, &a, &b, 3000 * MS);
    assert_true(has_member(fleet, "b"));
    assert_int_equal(suspended_until_us(fleet, "b"), 0);
    make_ready_and_blame(fleet, &a, &b, 3400 * MS);
    assert_false(has_member(fleet, "b"));
    assert_true(has_member(fleet, "a"));
    assert_int_equal(suspended_until_us(fleet, "b"), 33400 * MS);
    lh_role_inquiry roles = lh_fleet_ask_roles(fleet, 3400 * MS);
    lh_worker_role_of(&roles, lh_registry_find(lh_fleet_registry(fleet), "b"), role);
    assert_string_equal(role,
                        "its results were refused: an impossible token; it is tried again in 30 s");
    assert_int_equal(misconduct.records[0].faults[LH_WORKER_FAULT_BAD_RESULT], 2);
    b.instance++;
    put_report(fleet, &b, 3500 * MS);
    assert_int_equal(suspended_until_us(fleet, "b"), 33400 * MS);
    lh_fleet_forget(fleet, "b", 3600 * MS); /* nor is it cleared when it comes again */
    put_report(fleet, &b, 3700 * MS);
    assert_int_equal(suspended_until_us(fleet, "b"), 33400 * MS);
    lh_fleet_destroy(fleet);
}

/* Three times, each in an epoch of its own. Gives the time of the last one. */
static int64_t refuse_steps(lh_fleet *fleet, lh_worker_report *a, lh_worker_report *b,
                            const char *worker) {
    int64_t now_us = 3000 * MS;
    for (int refusals = 0; refusals < 3; now_us += 200 * MS) {
        uint32_t epoch = lh_fleet_chain(fleet)->epoch;
        make_ready(a, epoch);
        make_ready(b, epoch);
        put_report(fleet, a, now_us);
        put_report(fleet, b, now_us);
        if (state_of(fleet) != LH_CHAIN_READY || lh_fleet_chain(fleet)->epoch != epoch)
            continue; /* it is formed again once a second */
        assert_true(has_member(fleet, "a") && has_member(fleet, "b"));
        lh_fleet_blame_hop(fleet, epoch, worker, now_us, "step 7 failed: invalid");
        lh_fleet_tick(fleet, now_us);
        refusals++;
    }
    return now_us - 200 * MS;
}

/* Both ends of the hop are held responsible; of two workers the one that refuses is left out. */
static void one_that_refuses_step_after_step_is_left_out(void **state) {
    (void)state;
    lh_misconduct misconduct;
    lh_worker_report a, b;
    lh_fleet *fleet = create_responsible(&misconduct, &a, &b);
    char second[LH_WORKER_NAME_BYTES];
    strcpy(second, lh_fleet_chain(fleet)->stages[1].name);
    int64_t now_us = refuse_steps(fleet, &a, &b, second);
    assert_int_equal(misconduct.count, 2);
    assert_int_equal(misconduct.records[0].faults[LH_WORKER_FAULT_REFUSAL], 3);
    assert_int_equal(misconduct.records[1].faults[LH_WORKER_FAULT_REFUSAL], 3);
    assert_int_not_equal(has_member(fleet, "a"), has_member(fleet, "b"));
    assert_string_equal(misconduct.records[0].worker, second);
    assert_int_equal(suspended_until_us(fleet, second), now_us + 30000 * MS);
    assert_false(has_member(fleet, second));
    lh_fleet_destroy(fleet);
}

/* What the gateway sends is as it should be. */
static void the_first_one_that_refuses_is_alone_responsible(void **state) {
    (void)state;
    lh_misconduct misconduct;
    lh_worker_report a, b;
    lh_fleet *fleet = create_responsible(&misconduct, &a, &b);
    char first[LH_WORKER_NAME_BYTES];
    strcpy(first, lh_fleet_chain(fleet)->stages[0].name);
    refuse_steps(fleet, &a, &b, first);
    assert_int_equal(misconduct.count, 1);
    assert_string_equal(misconduct.records[0].worker, first);
    assert_false(has_member(fleet, first));
    lh_fleet_destroy(fleet);
}

/* The one that was left out is all there is, once the other one has gone. */
static void a_suspended_one_is_planned_with_where_nobody_else_is(void **state) {
    (void)state;
    lh_misconduct misconduct;
    lh_worker_report a, b;
    lh_fleet *fleet = create_responsible(&misconduct, &a, &b);
    make_ready_and_blame(fleet, &a, &b, 3000 * MS);
    make_ready_and_blame(fleet, &a, &b, 3400 * MS);
    assert_false(has_member(fleet, "b"));
    lh_fleet_forget(fleet, "a", 3500 * MS);
    assert_true(has_member(fleet, "b"));
    lh_fleet_forget(fleet, "b", 3600 * MS); /* and when it comes again */
    assert_int_equal(state_of(fleet), LH_CHAIN_NONE);
    put_report(fleet, &b, 5000 * MS);
    assert_true(has_member(fleet, "b"));
    lh_fleet_destroy(fleet);
}

/* Where another chain serves, this one waits. */
static void a_suspended_one_is_not_needed_where_another_chain_serves(void **state) {
    (void)state;
    lh_misconduct misconduct;
    lh_worker_report a, b;
    lh_fleet *fleet = create_responsible(&misconduct, &a, &b);
    lh_fleet_note_load(fleet, &(lh_fleet_load){.has_stand_in = true});
    make_ready_and_blame(fleet, &a, &b, 3000 * MS);
    make_ready_and_blame(fleet, &a, &b, 3400 * MS);
    lh_fleet_forget(fleet, "a", 3500 * MS);
    for (int64_t now_us = 4000 * MS; now_us < 33400 * MS; now_us += 500 * MS) {
        put_report(fleet, &b, now_us);
        assert_int_equal(state_of(fleet), LH_CHAIN_NONE);
    }
    assert_non_null(strstr(lh_fleet_reason(fleet), "worker b is suspended"));
    put_report(fleet, &b, 34500 * MS);
    put_report(fleet, &b, 35600 * MS);
    assert_true(has_member(fleet, "b"));
    lh_fleet_destroy(fleet);
}

/* Where nobody else is there, whoever asks the gateway hears why. */
static void what_a_worker_cannot_compute_is_the_refusal(void **state) {
    (void)state;
    lh_fleet *fleet = create(1);
    lh_worker_report a = report_of("a");
    put_report(fleet, &a, 1000 * MS);
    note_failed(fleet, &a, "no room");
    put_report(fleet, &a, 1500 * MS);
    assert_string_equal(lh_fleet_refusal(fleet), ""); /* it tries again */
    note_failed(fleet, &a, "no such architecture");
    a.assignment.is_final = true;
    put_report(fleet, &a, 2000 * MS);
    assert_string_equal(lh_fleet_refusal(fleet), "no such architecture");
    lh_fleet_destroy(fleet);
}

/* Both fail at once, as where the network between them and the weights is down: one of them is left
 * out, the other one is waited for. */
static void the_last_that_can_serve_is_never_excluded(void **state) {
    (void)state;
    lh_worker_report a, b;
    lh_fleet *fleet = create_ready(&a, &b);
    note_failed(fleet, &a, "no byte for 10000 ms");
    put_report(fleet, &a, 2500 * MS);
    assert_int_equal(excluded_until_us(fleet, "a"), 32500 * MS);
    put_report(fleet, &b, 3500 * MS);
    assert_int_equal(lh_fleet_chain(fleet)->stage_count, 1);
    note_failed(fleet, &b, "no byte for 10000 ms");
    put_report(fleet, &b, 4500 * MS);
    assert_int_equal(excluded_until_us(fleet, "b"), 0);
    assert_true(has_member(fleet, "b"));
    lh_fleet_destroy(fleet);
}

/* The one that was left out is all there is, once the other one has gone. */
static void who_is_left_is_planned_with_again(void **state) {
    (void)state;
    lh_worker_report a, b;
    lh_fleet *fleet = create_ready(&a, &b);
    note_failed(fleet, &a, "no byte for 10000 ms");
    put_report(fleet, &a, 2500 * MS);
    put_report(fleet, &b, 3500 * MS);
    assert_false(has_member(fleet, "a"));
    put_report(fleet, &a, 6000 * MS);
    put_report(fleet, &a, 9000 * MS); /* b's lease is over */
    assert_int_equal(lh_registry_count(lh_fleet_registry(fleet)), 1);
    assert_true(has_member(fleet, "a"));
    assert_int_equal(excluded_until_us(fleet, "a"), 0);
    lh_fleet_destroy(fleet);
}

/* Of those that are there one that said why it failed is quoted. */
static void the_reason_quotes_who_cannot_load(void **state) {
    (void)state;
    lh_fleet *fleet = create(3);
    lh_worker_report a = report_of("a"), b = report_of("b"), c = report_of("c");
    a.memory_bytes = c.memory_bytes = 199;
    put_report(fleet, &a, 1000 * MS);
    put_report(fleet, &b, 1000 * MS);
    put_report(fleet, &c, 1000 * MS);
    note_failed(fleet, &b, "no room");
    snprintf(c.assignment.error, sizeof c.assignment.error, "an old story");
    b.memory_bytes = 199;
    put_report(fleet, &b, 2000 * MS);
    put_report(fleet, &c, 3500 * MS);
    put_report(fleet, &b, 4400 * MS); /* a's lease is over */
    assert_int_equal(state_of(fleet), LH_CHAIN_NONE);
    assert_non_null(strstr(lh_fleet_reason(fleet), "the model needs 0 MiB"));
    assert_non_null(strstr(lh_fleet_reason(fleet), "; worker b: no room"));
    lh_fleet_destroy(fleet);
}

static void a_worker_that_was_restarted_has_its_stage_again(void **state) {
    (void)state;
    lh_worker_report a, b;
    lh_fleet *fleet = create_ready(&a, &b);
    uint32_t epoch = lh_fleet_chain(fleet)->epoch;
    lh_fleet_fault(fleet, epoch++, 2005 * MS, "broken");
    lh_fleet_tick(fleet, 2005 * MS);
    b.instance = 2;
    b.assignment.state = LH_WORKER_IDLE;
    put_report(fleet, &b, 2010 * MS); /* no back-off: it is another process */
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    assert_int_equal(lh_fleet_chain(fleet)->epoch, epoch + 1);
    assert_int_equal(lh_fleet_chain(fleet)->stage_count, 2);
    assert_int_equal(lh_fleet_chain(fleet)->stages[1].instance, 2);
    lh_fleet_destroy(fleet);
}

static void one_that_belongs_to_another_fleet_is_gone_at_once(void **state) {
    (void)state;
    lh_worker_report a, b;
    lh_fleet *fleet = create_ready(&a, &b);
    lh_fleet_forget(fleet, "b", 2010 * MS);
    assert_int_equal(lh_registry_count(lh_fleet_registry(fleet)), 1);
    assert_int_equal(lh_fleet_chain(fleet)->stage_count, 1);
    assert_true(has_member(fleet, "a"));
    lh_fleet_destroy(fleet);
}

/* The expected one has not come, but they hold a whole chain: from an earlier gateway, say. */
static void those_that_hold_a_chain_are_not_kept_waiting(void **state) {
    (void)state;
    lh_fleet *fleet = create(3);
    lh_worker_report a = report_of("a"), b = report_of("b");
    a.loaded.present = b.loaded.present = true;
    snprintf(a.loaded.model, sizeof a.loaded.model, "ours");
    snprintf(b.loaded.model, sizeof b.loaded.model, "ours");
    b.loaded.last_layer = a.loaded.first_layer = 2;
    a.loaded.last_layer = 4;
    put_report(fleet, &a, 0);
    assert_int_equal(state_of(fleet), LH_CHAIN_NONE);
    put_report(fleet, &b, 100 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    assert_string_equal(lh_fleet_chain(fleet)->stages[0].name, "b");
    lh_fleet_destroy(fleet);
}

/* Sequences may be waiting. */
static void who_comes_after_a_chain_was_down_is_used_at_once(void **state) {
    (void)state;
    lh_worker_report a, b, c = report_of("c");
    lh_fleet *fleet = create_ready(&a, &b);
    lh_fleet_tick(fleet, 5000 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_NONE);
    assert_string_equal(lh_fleet_reason(fleet), "no worker is registered");
    put_report(fleet, &c, 5010 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    lh_fleet_destroy(fleet);
}

static void its_times_count_from_its_creation(void **state) {
    (void)state;
    lh_fleet_options options = fleet_of_four_layers(2);
    lh_worker_report a = report_of("a");
    lh_fleet *fleet;
    options.epoch_stride = 3;
    options.epoch_offset = 1;
    assert_int_equal(lh_fleet_create(&options, 100000 * MS, &fleet, NULL), LH_OK);
    for (int second = 100; second < 160; second++)
        put_report(fleet, &a, second * 1000 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_NONE);
    put_report(fleet, &a, 160000 * MS);
    assert_int_equal(lh_fleet_chain(fleet)->epoch, 1060); /* 3 * 353 + 1 */
    lh_fleet_destroy(fleet);
}

/* ---- Hops ---- */

static void a_lost_first_hop_breaks_the_chain(void **state) {
    (void)state;
    lh_worker_report a, b;
    lh_fleet *fleet = create_ready(&a, &b);
    lh_fleet_first_hop(fleet, false, false, 2100 * MS, "reset");
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    assert_string_equal(lh_fleet_reason(fleet), "the connection to worker a is down: reset");
    lh_fleet_destroy(fleet);
}

static void a_lost_inner_hop_breaks_the_chain(void **state) {
    (void)state;
    lh_worker_report a, b;
    lh_fleet *fleet = create_ready(&a, &b);
    a.next.connected = false;
    put_report(fleet, &a, 2100 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_FORMING);
    assert_string_equal(lh_fleet_reason(fleet), "worker a is not connected to b");
    lh_fleet_destroy(fleet);
}

/* a and b hold their stages, and the hop between them does not come up. */
static lh_fleet *create_torn(lh_worker_report *a, lh_worker_report *b) {
    lh_fleet *fleet = create(2);
    put_report(fleet, a, 0);
    put_report(fleet, b, 0);
    make_ready(a, lh_fleet_chain(fleet)->epoch);
    make_ready(b, lh_fleet_chain(fleet)->epoch);
    a->next.connected = false;
    lh_fleet_first_hop(fleet, true, false, 0, "");
    for (int ms = 100; ms < 5100; ms += 500) {
        put_report(fleet, a, ms * MS);
        put_report(fleet, b, ms * MS);
    }
    assert_int_equal(lh_fleet_chain(fleet)->stage_count, 2);
    return fleet;
}

static void a_hop_that_does_not_come_up_is_planned_around(void **state) {
    (void)state;
    for (int far_is_needed = 0; far_is_needed < 2; far_is_needed++) {
        lh_worker_report a = report_of("a"), b = report_of("b");
        a.memory_bytes = far_is_needed ? 200 : 400;
        lh_fleet *fleet = create_torn(&a, &b);
        put_report(fleet, &b, 5200 * MS);
        assert_int_equal(lh_fleet_chain(fleet)->stage_count, 1);
        assert_true(has_member(fleet, far_is_needed ? "b" : "a"));
        assert_string_equal(lh_fleet_reason(fleet), ""); /* not what the other one waited for */
        /* Whoever is passed over is needed when the others are gone. */
        lh_fleet_forget(fleet, far_is_needed ? "b" : "a", 5300 * MS);
        assert_int_equal(has_member(fleet, far_is_needed ? "a" : "b"), !far_is_needed);
        lh_fleet_destroy(fleet);
    }
}

static void where_both_ends_are_needed_the_hop_is_waited_for(void **state) {
    (void)state;
    lh_worker_report a = report_of("a"), b = report_of("b");
    a.memory_bytes = b.memory_bytes = 399;
    lh_fleet *fleet = create_torn(&a, &b);
    uint32_t epoch = lh_fleet_chain(fleet)->epoch;
    for (int i = 0; i < 2; i++) { /* also when another plan has just been tried in vain */
        put_report(fleet, i == 0 ? &a : &b, 5200 * MS);
        assert_int_equal(lh_fleet_chain(fleet)->epoch, epoch);
        assert_string_equal(lh_fleet_reason(fleet), "worker a is not connected to b");
    }
    a.next.connected = true;
    put_report(fleet, &a, 5300 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    lh_fleet_destroy(fleet);
}

/* ---- One chain after another ---- */

/* The hops of the successor that lead from these two workers are proven. */
static void prove_hops(lh_fleet *fleet, lh_worker_report *a, lh_worker_report *c, int64_t now_us) {
    a->trial = trial_of_hop(successor_of(fleet), 1, LH_HOP_TRIAL_PROVEN);
    c->trial = trial_of_hop(successor_of(fleet), 2, LH_HOP_TRIAL_PROVEN);
    put_report(fleet, a, now_us);
    put_report(fleet, c, now_us);
}

/* b is to leave, and c is to have its stage. */
static lh_fleet *create_leaving(lh_worker_report *a, lh_worker_report *b, lh_worker_report *c) {
    lh_fleet *fleet = create_ready(a, b);
    *c = report_of("c");
    a->memory_bytes = 399;
    put_report(fleet, c, 2100 * MS);
    put_report(fleet, a, 2100 * MS);
    b->leaving = true;
    put_report(fleet, b, 2200 * MS);
    assert_non_null(successor_of(fleet));
    prove_hops(fleet, a, c, 2300 * MS);
    lh_fleet_answer answer = put_report(fleet, c, 2300 * MS);
    assert_true(answer.has_prepare);
    c->prepared.state = LH_WORKER_READY;
    c->prepared.first_layer = answer.prepare.stage.first_layer;
    c->prepared.last_layer = answer.prepare.stage.last_layer;
    c->prepared.holds = answer.prepare_holds;
    return fleet;
}

static void a_prepared_chain_takes_over(void **state) {
    (void)state;
    lh_worker_report a, b, c;
    lh_fleet *fleet = create_leaving(&a, &b, &c);
    uint32_t epoch = lh_fleet_chain(fleet)->epoch;
    assert_false(lh_fleet_is_changing_over(fleet, 2400 * MS));
    put_report(fleet, &c, 2400 * MS);
    assert_true(lh_fleet_chain(fleet)->epoch > epoch);
    assert_int_equal(lh_fleet_chain(fleet)->planned_epoch, lh_fleet_chain(fleet)->epoch);
    for (int stage = 0; stage < 2; stage++)
        assert_int_equal(lh_fleet_chain(fleet)->stages[stage].kv_epoch,
                         lh_fleet_chain(fleet)->epoch);
    assert_true(has_member(fleet, "c"));
    assert_false(has_member(fleet, "b"));
    assert_null(successor_of(fleet));
    assert_true(put_report(fleet, &b, 2400 * MS).may_go);
    assert_true(lh_fleet_is_changing_over(fleet, 3399 * MS));
    assert_false(lh_fleet_is_changing_over(fleet, 3400 * MS));
    make_ready(&a, lh_fleet_chain(fleet)->epoch);
    make_ready(&c, lh_fleet_chain(fleet)->epoch);
    put_report(fleet, &a, 2500 * MS);
    put_report(fleet, &c, 2500 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    assert_false(lh_fleet_is_changing_over(fleet, 2500 * MS));
    lh_fleet_destroy(fleet);
}

/* A failure, not a pause. */
static void one_that_breaks_after_it_took_over_is_down(void **state) {
    (void)state;
    lh_worker_report a, b, c;
    lh_fleet *fleet = create_leaving(&a, &b, &c);
    put_report(fleet, &c, 2400 * MS);
    put_ready(fleet, &a, &c, 2500 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    lh_fleet_fault(fleet, lh_fleet_chain(fleet)->epoch, 2600 * MS, "broken");
    assert_false(lh_fleet_is_changing_over(fleet, 2600 * MS));
    lh_fleet_tick(fleet, 3400 * MS);
    assert_int_equal(lh_fleet_chain(fleet)->formed_us, 3400 * MS);
    assert_false(lh_fleet_is_changing_over(fleet, 3400 * MS));
    lh_fleet_destroy(fleet);
}

static void one_that_is_planned_anew_is_not_changing_over(void **state) {
    (void)state;
    lh_worker_report a, b, c;
    lh_fleet *fleet = create_leaving(&a, &b, &c);
    put_report(fleet, &c, 2400 * MS);
    b.leaving = false;
    put_report(fleet, &b, 2500 * MS);
    c.leaving = true;
    c.assignment.state = LH_WORKER_LOADING;
    put_report(fleet, &c, 2500 * MS);
    assert_true(lh_fleet_is_changing_over(fleet, 3399 * MS));
    put_report(fleet, &a, 3400 * MS); /* c is replaced at once */
    assert_true(has_member(fleet, "b"));
    assert_false(lh_fleet_is_changing_over(fleet, 3400 * MS));
    lh_fleet_destroy(fleet);
}

static void without_a_chain_there_is_no_successor(void **state) {
    (void)state;
    lh_worker_report a, b, c;
    lh_fleet *fleet = create_leaving(&a, &b, &c);
    c.memory_bytes = 399;
    c.prepared.state = LH_WORKER_LOADING;
    put_report(fleet, &c, 2400 * MS);
    assert_non_null(successor_of(fleet));
    lh_fleet_forget(fleet, "a", 2500 * MS);
    assert_int_equal(state_of(fleet), LH_CHAIN_NONE);
    assert_null(successor_of(fleet));
    lh_fleet_destroy(fleet);
}

/* The chain is planned around the hop to b, which leaves: that is its successor's plan too. */
static void a_plan_around_a_hop_needs_no_successor(void **state) {
    (void)state;
    lh_worker_report a = report_of("a"), b = report_of("b"), c = report_of("c");
    a.memory_bytes = 399;
    lh_fleet *fleet = create(2);
    put_report(fleet, &a, 0);
    put_report(fleet, &b, 0);
    put_report(fleet, &c, 0);
    make_ready(&a, lh_fleet_chain(fleet)->epoch);
    make_ready(&b, lh_fleet_chain(fleet)->epoch);
    a.next.connected = false;
    b.leaving = true;
    lh_fleet_first_hop(fleet, true, false, 0, "");
    for (int ms = 100; ms < 5100; ms += 500) {
        put_report(fleet, &a, ms * MS);
        put_report(fleet, &b, ms * MS);
        put_report(fleet, &c, ms * MS);
    }
    assert_true(has_member(fleet, "b"));
    assert_non_null(successor_of(fleet));
    put_report(fleet, &a, 5200 * MS);
    assert_true(has_member(fleet, "c"));
    assert_null(successor_of(fleet));
    lh_fleet_destroy(fleet);
}

/* At the very moment at which the chain loses the one that leaves. */
static void it_takes_over_in_need_too(void **state) {
    (void)state;
    lh_worker_report a, b, c;
    lh_fleet *fleet = create_leaving(&a, &b, &c);
    put_report(fleet, &a, 4000 * MS);
    c.prepared.state = LH_WORKER_LOADING;
    put_report(fleet, &c, 5199 * MS);
    assert_non_null(successor_of(fleet));
    c.prepared.state = LH_WORKER_READY;
    put_report(fleet, &c, 5200 * MS); /* b's lease ends */
    assert_false(has_member(fleet, "b"));
    assert_true(has_member(fleet, "c"));
    assert_true(lh_fleet_is_changing_over(fleet, 5200 * MS));
    lh_fleet_destroy(fleet);
}

/* Nobody can reach it any more: the present chain goes on. */
static void one_that_cannot_be_formed_is_given_up(void **state) {
    (void)state;
    lh_worker_report a, b, c;
    lh_fleet *fleet = create_leaving(&a, &b, &c);
    uint32_t epoch = lh_fleet_chain(fleet)->epoch;
    c.plain_address[0] = 0;
    put_report(fleet, &c, 2400 * MS);
    assert_null(successor_of(fleet));
    assert_int_equal(lh_fleet_chain(fleet)->epoch, epoch);
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    lh_fleet_destroy(fleet);
}

static void one_that_fails_to_prepare_is_left_out(void **state) {
    (void)state;
    lh_worker_report a, b, c;
    lh_fleet *fleet = create_leaving(&a, &b, &c);
    lh_fleet_note_load(fleet, &(lh_fleet_load){.sequences = 1});
    c.prepared.state = LH_WORKER_FAILED;
    put_report(fleet, &c, 2400 * MS);
    assert_int_equal(lh_registry_find(lh_fleet_registry(fleet), "c")->excluded_until_us,
                     32400 * MS);
    assert_null(successor_of(fleet)); /* a holds too little for both */
    assert_int_equal(state_of(fleet), LH_CHAIN_READY);
    lh_fleet_destroy(fleet);
}

/* c cannot be reached: b, which is to leave, serves on, and c is passed over for longer and longer.
 */
static void nobody_leaves_for_one_who_cannot_be_reached(void **state) {
    (void)state;
    lh_worker_report a, b, c = report_of("c");
    lh_fleet *fleet = create_ready(&a, &b);
    a.memory_bytes = 399;
    lh_fleet_note_load(fleet, &(lh_fleet_load){.sequences = 1});
    put_report(fleet, &c, 2100 * MS);
    put_report(fleet, &a, 2100 * MS);
    b.leaving = true;
    int64_t ms = 2200;
    for (int64_t pause_ms = 10000; pause_ms < 100000; pause_ms *= 2) {
        put_report(fleet, &b, ms * MS);
        assert_non_null(successor_of(fleet));
        assert_true(put_report(fleet, &a, ms * MS).has_trial);
        a.trial = trial_of_hop(successor_of(fleet), 1, LH_HOP_TRIAL_FAILED);
        assert_false(put_report(fleet, &a, (ms + 100) * MS).has_trial);
        assert_false(put_report(fleet, &c, (ms + 100) * MS).has_prepare);
        a.trial = (lh_hop_trial_report){0};
        int64_t until_ms = ms + 100 + pause_ms;
        while (ms < until_ms) {
            assert_null(successor_of(fleet));
            ms = ms + 1000 < until_ms ? ms + 1000 : until_ms;
            assert_false(put_report(fleet, &a, ms * MS).has_prepare);
            put_report(fleet, &c, ms * MS);
            lh_fleet_answer answer = put_report(fleet, &b, ms * MS);
            assert_true(answer.is_leaving && !answer.may_go);
            if (ms >= until_ms - pause_ms + 1000 && ms < until_ms)
                assert_non_null(strstr(answer.leave_reason, "; worker a does not reach worker c at "
                                                            "c:1: connection refused"));
            assert_int_equal(state_of(fleet), LH_CHAIN_READY);
        }
        ms += 1000;
    }
    lh_fleet_destroy(fleet);
}

/* Which comes to two chances: a alone, and whoever is passed over. */
static void who_is_passed_over_is_used_in_need(void **state) {
    (void)state;
    lh_worker_report a, b, c = report_of("c");
    lh_fleet *fleet = create_ready(&a, &b);
    a.memory_bytes = c.memory_bytes = 399;
    lh_fleet_note_load(fleet, &(lh_fleet_load){.sequences = 1});
    put_report(fleet, &c, 2100 * MS);
    put_report(fleet, &a, 2100 * MS);
    b.leaving = true;
    put_report(fleet, &b, 2200 * MS);
    a.trial = trial_of_hop(successor_of(fleet), 1, LH_HOP_TRIAL_FAILED);
    put_report(fleet, &a, 2300 * MS);
    assert_null(successor_of(fleet));
    lh_fleet_forget(fleet, "b", 2400 * MS);
    assert_true(has_member(fleet, "a") && has_member(fleet, "c"));
    lh_fleet_destroy(fleet);
}

/* Without a sequence that needs it; and what cannot be planned is not tried at every tick. */
static void one_that_nobody_needs_goes_and_the_chain_with_it(void **state) {
    (void)state;
    lh_worker_report a, b;
    lh_fleet *fleet = create_ready(&a, &b);
    a.memory_bytes = 399;
    put_report(fleet, &a, 2100 * MS);
    lh_fleet_note_load(fleet, &(lh_fleet_load){.sequences = 1});
    b.leaving = true;
    assert_false(put_report(fleet, &b, 2200 * MS).may_go);
    lh_fleet_note_load(fleet, &(lh_fleet_load){.sequences = 0});
    assert_false(put_report(fleet, &b, 2300 * MS).may_go);
    assert_true(put_report(fleet, &b, 3200 * MS).may_go);
    assert_int_equal(state_of(fleet), LH_CHAIN_NONE);
    assert_int_equal(lh_fleet_deadline_us(fleet), 4200 * MS);
    lh_fleet_destroy(fleet);
}

/* It has not even loaded what it was given. */
static void a_leaver_is_replaced_at_once_while_the_chain_forms(void **state) {
    (void)state;
    lh_fleet *fleet = create(2);
    lh_worker_report a = report_of("a"), b = report_of("b");
    put_report(fleet, &a, 1000 * MS);
    put_report(fleet, &b, 1000 * MS);
    b.leaving = true;
    b.assignment.state = LH_WORKER_LOADING;
    put_report(fleet, &b, 1999 * MS);
    assert_true(has_member(fleet, "b"));
    assert_true(put_report(fleet, &b, 2000 * MS).may_go);
    assert_int_equal(lh_fleet_chain(fleet)->stage_count, 1);
    lh_fleet_destroy(fleet);
}

/* a at home, b at the office behind the relays r and s of its site. */
typedef struct relayed_fleet {
    lh_fleet *fleet;
    lh_relays *relays;
    lh_worker_report a, b, relay[2];
} relayed_fleet;

static void note_relay(relayed_fleet *f, int relay, bool is_connected, int64_t now_us) {
    f->relay[relay].reaches[0].hop.connected = is_connected;
    lh_relays_note(f->relays, &f->relay[relay], now_us);
}

static relayed_fleet create_relayed(void) {
    relayed_fleet f = {.a = report_of("a"), .b = report_of("b")};
    lh_fleet_options options = fleet_of_four_layers(2);
    lh_log_set_level(LH_LOG_ERROR);
    assert_int_equal(lh_relays_create(3000 * MS, &f.relays, NULL), LH_OK);
    options.origin.relays = f.relays;
    options.aim.sites = "home,office";
    assert_int_equal(lh_fleet_create(&options, 0, &f.fleet, NULL), LH_OK);
    snprintf(f.b.site, sizeof f.b.site, "office");
    f.b.is_behind_relay = true;
    for (int i = 0; i < 2; i++) {
        f.relay[i] = report_of(i == 0 ? "r" : "s");
        snprintf(f.relay[i].site, sizeof f.relay[i].site, "office");
        f.relay[i].relays = true;
        f.relay[i].reach_count = 1;
        f.relay[i].reaches[0] = (lh_relay_reach){.name = "b", .hop = {.present = true}};
    }
    return f;
}

static void destroy_relayed(relayed_fleet *f) {
    lh_fleet_destroy(f->fleet);
    lh_relays_destroy(f->relays);
}

static void put_relayed_ready(relayed_fleet *f, int64_t now_us) {
    uint32_t epoch = lh_fleet_chain(f->fleet)->epoch;
    make_ready(&f->a, epoch);
    make_ready(&f->b, epoch);
    put_report(f->fleet, &f->a, now_us);
    put_report(f->fleet, &f->b, now_us);
    lh_fleet_first_hop(f->fleet, true, false, now_us, "");
    lh_fleet_tick(f->fleet, now_us);
    assert_int_equal(state_of(f->fleet), LH_CHAIN_READY);
}

static void a_worker_behind_a_relay_is_reached_through_it(void **state) {
    (void)state;
    relayed_fleet f = create_relayed();
    for (int second = 0; second <= 60; second++) /* nobody can send to it */
        put_report(f.fleet, &f.b, second * 1000 * MS);
    assert_int_equal(state_of(f.fleet), LH_CHAIN_NONE);
    note_relay(&f, 0, true, 60100 * MS);
    put_report(f.fleet, &f.a, 60100 * MS);
    lh_fleet_answer answer = put_report(f.fleet, &f.b, 60100 * MS);
    assert_int_equal(state_of(f.fleet), LH_CHAIN_FORMING);
    assert_int_equal(lh_fleet_chain(f.fleet)->stage_count, 2);
    assert_string_equal(answer.assignment.stage.way.via, "r");
    assert_string_equal(put_report(f.fleet, &f.a, 60100 * MS).assignment.next.via, "r");
    put_relayed_ready(&f, 60200 * MS);
    destroy_relayed(&f);
}

static void a_lost_relay_is_replaced_and_else_the_worker_is_left_out(void **state) {
    (void)state;
    relayed_fleet f = create_relayed();
    char reason[LH_ERROR_MESSAGE_BYTES];
    note_relay(&f, 0, true, 1000 * MS);
    note_relay(&f, 1, true, 1000 * MS);
    put_report(f.fleet, &f.a, 1000 * MS);
    put_report(f.fleet, &f.b, 1000 * MS);
    put_relayed_ready(&f, 1100 * MS);
    const lh_chain *chain = lh_fleet_chain(f.fleet);
    uint32_t epoch = chain->epoch;
    assert_string_equal(chain->stages[1].way.via, "r");
    note_relay(&f, 0, false, 1500 * MS);
    lh_fleet_tick(f.fleet, 1500 * MS);
    assert_int_equal(state_of(f.fleet), LH_CHAIN_FORMING);
    assert_true(chain->epoch > epoch);
    assert_string_equal(chain->stages[1].way.via, "s");
    put_relayed_ready(&f, 1600 * MS);
    note_relay(&f, 1, false, 2500 * MS);
    lh_fleet_tick(f.fleet, 2500 * MS);
    assert_int_equal(chain->stage_count, 1);
    assert_string_equal(chain->stages[0].name, "a");
    const lh_worker *b = lh_registry_find(lh_fleet_registry(f.fleet), "b");
    lh_role_inquiry roles = lh_fleet_ask_roles(f.fleet, 2500 * MS);
    assert_int_equal(lh_worker_role_of(&roles, b, reason), LH_ROLE_SPARE);
    assert_string_equal(reason, "it is behind a relay, and relay r does not reach it yet");
    destroy_relayed(&f);
}

static void a_fleet_without_its_relay_says_what_it_lacks(void **state) {
    (void)state;
    relayed_fleet f = create_relayed();
    f.a.memory_bytes = 250; /* half of the model */
    note_relay(&f, 0, true, 1000 * MS);
    put_report(f.fleet, &f.a, 1000 * MS);
    put_report(f.fleet, &f.b, 1000 * MS);
    put_relayed_ready(&f, 1100 * MS);
    lh_relays_suspect(f.relays, "r", 1200 * MS);
    lh_fleet_tick(f.fleet, 1200 * MS);
    assert_int_equal(state_of(f.fleet), LH_CHAIN_NONE);
    assert_non_null(strstr(lh_fleet_reason(f.fleet),
                           "worker b: it is behind a relay, and no worker of site office relays"));
    note_relay(&f, 1, true, 1300 * MS);
    put_report(f.fleet, &f.b, 1300 * MS);
    lh_fleet_tick(f.fleet, 1300 * MS);
    assert_int_equal(lh_fleet_chain(f.fleet)->stage_count, 2);
    assert_string_equal(lh_fleet_chain(f.fleet)->stages[1].way.via, "s");
    destroy_relayed(&f);
}

/* A step fails as soon as there is one, three times; each time the chain is there again a second
 * later. */
static int64_t break_three_times(relayed_fleet *f, int64_t ms) {
    for (int i = 0; i < 3; i++, ms += 1100) {
        put_relayed_ready(f, ms * MS);
        lh_fleet_fault(f->fleet, lh_fleet_chain(f->fleet)->epoch, ms * MS, "CRC32C differs");
        note_relay(f, 0, true, (ms + 500) * MS);
        note_relay(f, 1, true, (ms + 500) * MS);
        put_report(f->fleet, &f->a, (ms + 500) * MS);
        put_report(f->fleet, &f->b, (ms + 500) * MS);
        lh_fleet_tick(f->fleet, (ms + 1000) * MS);
        assert_int_equal(state_of(f->fleet), LH_CHAIN_FORMING);
    }
    return ms;
}

static void a_relay_through_which_chains_break_is_not_used(void **state) {
    (void)state;
    relayed_fleet f = create_relayed();
    char reason[LH_ERROR_MESSAGE_BYTES];
    note_relay(&f, 0, true, 1000 * MS);
    note_relay(&f, 1, true, 1000 * MS);
    put_report(f.fleet, &f.a, 1000 * MS);
    put_report(f.fleet, &f.b, 1000 * MS);
    const lh_chain *chain = lh_fleet_chain(f.fleet);
    assert_string_equal(chain->stages[1].way.via, "r");
    int64_t ms = break_three_times(&f, 1100);
    assert_int_equal(chain->stage_count, 2);
    assert_string_equal(chain->stages[1].way.via, "s");
    ms = break_three_times(&f, ms);
    assert_int_equal(chain->stage_count, 1);
    const lh_worker *b = lh_registry_find(lh_fleet_registry(f.fleet), "b");
    lh_role_inquiry roles = lh_fleet_ask_roles(f.fleet, ms * MS);
    assert_int_equal(lh_worker_role_of(&roles, b, reason), LH_ROLE_SPARE);
    assert_string_equal(reason,
                        "it is behind a relay, and chains through relay r break again and again");
    destroy_relayed(&f);
}

static void relays_that_are_needed_are_used(void **state) {
    (void)state;
    relayed_fleet f = create_relayed();
    f.a.memory_bytes = 250; /* half of the model */
    note_relay(&f, 0, true, 1000 * MS);
    note_relay(&f, 1, true, 1000 * MS);
    put_report(f.fleet, &f.a, 1000 * MS);
    put_report(f.fleet, &f.b, 1000 * MS);
    break_three_times(&f, break_three_times(&f, 1100));
    assert_int_equal(lh_fleet_chain(f.fleet)->stage_count, 2);
    destroy_relayed(&f);
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
        cmocka_unit_test(one_whose_results_are_refused_is_left_out),
        cmocka_unit_test(one_that_refuses_step_after_step_is_left_out),
        cmocka_unit_test(the_first_one_that_refuses_is_alone_responsible),
        cmocka_unit_test(a_suspended_one_is_planned_with_where_nobody_else_is),
        cmocka_unit_test(a_suspended_one_is_not_needed_where_another_chain_serves),
        cmocka_unit_test(a_plan_that_does_not_fit_is_tried_again_later),
        cmocka_unit_test(the_last_one_takes_its_problem_along),
        cmocka_unit_test(without_memory_there_is_no_fleet),
        cmocka_unit_test(a_slow_hop_gets_q8_before_the_first_step),
        cmocka_unit_test(a_fast_hop_needs_no_second_epoch),
        cmocka_unit_test(measurements_are_not_waited_for_for_ever),
        cmocka_unit_test(other_stages_settle_their_wires_anew),
        cmocka_unit_test(other_stages_are_measured_for_as_long),
        cmocka_unit_test(a_successor_does_not_wait_for_measurements),
        cmocka_unit_test(caches_are_kept_from_one_epoch_to_the_next),
        cmocka_unit_test(a_stale_failure_excludes_nobody),
        cmocka_unit_test(a_failure_excludes_for_a_while),
        cmocka_unit_test(one_that_cannot_be_spared_is_waited_for),
        cmocka_unit_test(one_that_cannot_compute_the_model_is_left_out_for_good),
        cmocka_unit_test(what_a_worker_cannot_compute_is_the_refusal),
        cmocka_unit_test(the_last_that_can_serve_is_never_excluded),
        cmocka_unit_test(who_is_left_is_planned_with_again),
        cmocka_unit_test(the_reason_quotes_who_cannot_load),
        cmocka_unit_test(a_worker_that_was_restarted_has_its_stage_again),
        cmocka_unit_test(one_that_belongs_to_another_fleet_is_gone_at_once),
        cmocka_unit_test(those_that_hold_a_chain_are_not_kept_waiting),
        cmocka_unit_test(who_comes_after_a_chain_was_down_is_used_at_once),
        cmocka_unit_test(its_times_count_from_its_creation),
        cmocka_unit_test(a_lost_first_hop_breaks_the_chain),
        cmocka_unit_test(a_lost_inner_hop_breaks_the_chain),
        cmocka_unit_test(a_hop_that_does_not_come_up_is_planned_around),
        cmocka_unit_test(where_both_ends_are_needed_the_hop_is_waited_for),
        cmocka_unit_test(a_prepared_chain_takes_over),
        cmocka_unit_test(one_that_breaks_after_it_took_over_is_down),
        cmocka_unit_test(one_that_is_planned_anew_is_not_changing_over),
        cmocka_unit_test(without_a_chain_there_is_no_successor),
        cmocka_unit_test(a_plan_around_a_hop_needs_no_successor),
        cmocka_unit_test(nobody_leaves_for_one_who_cannot_be_reached),
        cmocka_unit_test(who_is_passed_over_is_used_in_need),
        cmocka_unit_test(it_takes_over_in_need_too),
        cmocka_unit_test(one_that_cannot_be_formed_is_given_up),
        cmocka_unit_test(one_that_fails_to_prepare_is_left_out),
        cmocka_unit_test(one_that_nobody_needs_goes_and_the_chain_with_it),
        cmocka_unit_test(a_leaver_is_replaced_at_once_while_the_chain_forms),
        cmocka_unit_test(a_worker_behind_a_relay_is_reached_through_it),
        cmocka_unit_test(a_lost_relay_is_replaced_and_else_the_worker_is_left_out),
        cmocka_unit_test(a_relay_through_which_chains_break_is_not_used),
        cmocka_unit_test(relays_that_are_needed_are_used),
        cmocka_unit_test(a_fleet_without_its_relay_says_what_it_lacks),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
