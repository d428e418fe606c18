/* Who relays to whom, for how long, and what is said where nobody does. */
#include "gateway/fleet/relays.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/gateway/support/worker_reports.h"

typedef struct bench {
    lh_relays *relays;
    lh_worker_report hut, attic; /* of one site: the relay, and one behind */
} bench;

static void reach(lh_worker_report *relay, const char *worker, bool is_connected) {
    lh_relay_reach *added = &relay->reaches[relay->reach_count++];
    *added =
        (lh_relay_reach){.hop = {.present = true, .connected = is_connected, .round_trip_us = 200}};
    snprintf(added->name, sizeof added->name, "%s", worker);
}

static lh_worker_report relay_called(const char *name, const char *site) {
    lh_worker_report report = report_of(name);
    snprintf(report.site, sizeof report.site, "%s", site);
    report.relays = true;
    return report;
}

static lh_worker_report behind_called(const char *name, const char *site) {
    lh_worker_report report = report_of(name);
    snprintf(report.site, sizeof report.site, "%s", site);
    report.is_behind_relay = true;
    return report;
}

static bench create(void) {
    bench b = {.hut = relay_called("hut", "office"), .attic = behind_called("attic", "office")};
    assert_int_equal(lh_relays_create(3000 * MS, &b.relays, NULL), LH_OK);
    return b;
}

static const char *find(const bench *b) {
    const lh_worker_report *found = lh_relays_find(b->relays, &b->attic);
    return found ? found->name : "";
}

static void a_relay_is_told_of_those_behind_and_says_whom_it_reaches(void **state) {
    (void)state;
    bench b = create();
    const lh_way *listed;
    lh_worker_report elsewhere = behind_called("cellar", "home");
    lh_relays_note(b.relays, &b.attic, 0);
    lh_relays_note(b.relays, &elsewhere, 0);
    assert_int_equal(lh_relays_list(b.relays, &b.hut, &listed), 0); /* it has not said so yet */
    lh_relays_note(b.relays, &b.hut, 100 * MS);
    assert_int_equal(lh_relays_list(b.relays, &b.hut, &listed), 1);
    assert_string_equal(listed[0].worker, "attic");
    assert_string_equal(listed[0].address, "attic:1");
    assert_false(listed[0].tls);
    assert_string_equal(find(&b), "");
    reach(&b.hut, "attic", false);
    lh_relays_note(b.relays, &b.hut, 200 * MS);
    assert_string_equal(find(&b), "");
    assert_false(lh_relays_serves(b.relays, "hut", "attic"));
    b.hut.reaches[0].hop.connected = true;
    lh_relays_note(b.relays, &b.hut, 300 * MS);
    assert_string_equal(find(&b), "hut");
    assert_true(lh_relays_serves(b.relays, "hut", "attic"));
    assert_false(lh_relays_serves(b.relays, "hut", "cellar"));
    lh_hop_profile hop;
    assert_true(lh_relays_read_hop(b.relays, "hut", "attic", &hop));
    assert_int_equal(hop.round_trip_us, 200);
    assert_false(lh_relays_read_hop(b.relays, "hut", "cellar", &hop));
    lh_relays_destroy(b.relays);
}

static void addresses_inside_take_tls_where_there_is_no_other(void **state) {
    (void)state;
    bench b = create();
    const lh_way *listed;
    snprintf(b.attic.tls_address, sizeof b.attic.tls_address, "attic:2");
    b.attic.plain_address[0] = '\0';
    lh_relays_note(b.relays, &b.attic, 0);
    lh_relays_note(b.relays, &b.hut, 0);
    assert_int_equal(lh_relays_list(b.relays, &b.hut, &listed), 0); /* it has no certificate */
    snprintf(b.hut.tls_address, sizeof b.hut.tls_address, "hut:2");
    lh_relays_note(b.relays, &b.hut, 0);
    assert_int_equal(lh_relays_list(b.relays, &b.hut, &listed), 1);
    assert_string_equal(listed[0].address, "attic:2");
    assert_true(listed[0].tls);
    lh_relays_destroy(b.relays);
}

static void the_first_by_name_that_reaches_it_relays(void **state) {
    (void)state;
    bench b = create();
    lh_worker_report barn = relay_called("barn", "office"), far = relay_called("alp", "home");
    reach(&b.hut, "attic", true);
    reach(&barn, "attic", true);
    reach(&far, "attic", true); /* another site's: it is not asked */
    lh_relays_note(b.relays, &b.hut, 0);
    lh_relays_note(b.relays, &barn, 0);
    lh_relays_note(b.relays, &far, 0);
    assert_string_equal(find(&b), "barn");
    barn.leaving = true;
    lh_relays_note(b.relays, &barn, 100 * MS);
    assert_string_equal(find(&b), "hut");
    barn.leaving = false;
    barn.relays = false;
    lh_relays_note(b.relays, &barn, 200 * MS);
    assert_string_equal(find(&b), "hut");
    lh_relays_destroy(b.relays);
}

static void what_is_not_renewed_ends(void **state) {
    (void)state;
    bench b = create();
    const lh_way *listed;
    reach(&b.hut, "attic", true);
    lh_relays_note(b.relays, &b.hut, 0);
    lh_relays_note(b.relays, &b.attic, 1000 * MS);
    lh_relays_tick(b.relays, 2000 * MS);
    assert_string_equal(find(&b), "hut");
    lh_relays_tick(b.relays, 3000 * MS);
    assert_string_equal(find(&b), "");
    lh_relays_note(b.relays, &b.hut, 3900 * MS);
    assert_int_equal(lh_relays_list(b.relays, &b.hut, &listed), 1);
    lh_relays_note(b.relays, &b.hut, 4000 * MS);
    assert_int_equal(lh_relays_list(b.relays, &b.hut, &listed), 0);
    lh_relays_suspect(b.relays, "hut", 4500 * MS);
    lh_relays_suspect(b.relays, "hut", 9000 * MS); /* never lengthens it */
    lh_relays_suspect(b.relays, "nobody", 0);
    assert_int_equal(lh_relays_renewed_us(b.relays, "hut"), 4000 * MS);
    lh_relays_tick(b.relays, 4500 * MS);
    assert_string_equal(find(&b), "");
    assert_int_equal(lh_relays_renewed_us(b.relays, "hut"), INT64_MAX);
    lh_relays_destroy(b.relays);
}

static void the_gateways_own_absence_counts_against_nobody(void **state) {
    (void)state;
    bench b = create();
    reach(&b.hut, "attic", true);
    lh_relays_note(b.relays, &b.hut, 1000 * MS);
    lh_relays_tick(b.relays, 60000 * MS);
    assert_string_equal(find(&b), "hut");
    lh_relays_tick(b.relays, 61000 * MS);
    lh_relays_tick(b.relays, 62000 * MS);
    lh_relays_tick(b.relays, 63000 * MS);
    assert_string_equal(find(&b), "");
    lh_relays_destroy(b.relays);
}

static void assert_explained(const bench *b, const char *text) {
    char found[LH_ERROR_MESSAGE_BYTES];
    lh_relays_explain(b->relays, &b->attic, found);
    assert_string_equal(found, text);
}

static void it_is_said_what_would_help(void **state) {
    (void)state;
    bench b = create();
    assert_explained(&b, "it is behind a relay, and no worker of site office relays: start one "
                         "there with --relay that other sites reach");
    lh_relays_note(b.relays, &b.hut, 0);
    assert_explained(&b, "it is behind a relay, and relay hut does not reach it yet");
    lh_worker_report full = b.hut;
    while (full.reach_count < LH_RELAY_REACHES_MAX)
        reach(&full, "another", true);
    lh_relays_note(b.relays, &full, 0);
    assert_explained(&b, "it is behind a relay, and relay hut has 32 workers of its site already, "
                         "which is the most");
    lh_relays_note(b.relays, &b.hut, 0);
    reach(&b.hut, "attic", false);
    snprintf(b.hut.reaches[0].error, sizeof b.hut.reaches[0].error, "connection refused");
    lh_relays_note(b.relays, &b.hut, 0);
    assert_explained(&b,
                     "it is behind a relay, and relay hut does not reach it: connection refused");
    lh_relays_destroy(b.relays);
    assert_null(lh_relays_find(NULL, &b.attic));
    assert_false(lh_relays_serves(NULL, "hut", "attic"));
}

static void there_is_an_end_of_places(void **state) {
    (void)state;
    bench b = create();
    const lh_way *listed;
    char name[16];
    for (unsigned i = 0; i <= LH_BEHIND_RELAYS_MAX; i++) {
        snprintf(name, sizeof name, "b%u", i);
        lh_worker_report behind = behind_called(name, "office");
        lh_relays_note(b.relays, &behind, 0);
    }
    for (unsigned i = 0; i < LH_RELAYS_MAX; i++) {
        snprintf(name, sizeof name, "r%u", i);
        lh_worker_report relay = relay_called(name, "office");
        lh_relays_note(b.relays, &relay, 0);
        assert_int_equal(lh_relays_list(b.relays, &relay, &listed), LH_RELAY_REACHES_MAX);
    }
    lh_relays_note(b.relays, &b.hut, 0);
    assert_int_equal(lh_relays_list(b.relays, &b.hut, &listed), 0);
    lh_relays_destroy(b.relays);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_relay_is_told_of_those_behind_and_says_whom_it_reaches),
        cmocka_unit_test(addresses_inside_take_tls_where_there_is_no_other),
        cmocka_unit_test(the_first_by_name_that_reaches_it_relays),
        cmocka_unit_test(what_is_not_renewed_ends),
        cmocka_unit_test(the_gateways_own_absence_counts_against_nobody),
        cmocka_unit_test(it_is_said_what_would_help),
        cmocka_unit_test(there_is_an_end_of_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
