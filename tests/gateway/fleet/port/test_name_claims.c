/* Who has a name, how long, and who may take it from him. */
#include "gateway/fleet/port/name_claims.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { RENEW_US = 500000, LEASE_US = 3000000 };

static lh_name_claims claims;
static uint64_t standing; /* the one connection that stands */
static lh_error error;
static bool is_news;

static bool has_connection(const void *context, uint64_t connection) {
    assert_null(context);
    return connection == standing;
}

static int set_up(void **state) {
    (void)state;
    claims = (lh_name_claims){.has_connection = has_connection};
    standing = 0;
    return 0;
}

static lh_name_claim claim_of(const char *name, uint64_t instance, const char *peer) {
    lh_name_claim claim = {.instance = instance};
    snprintf(claim.name, sizeof claim.name, "%s", name);
    snprintf(claim.peer, sizeof claim.peer, "%s", peer);
    return claim;
}

static lh_status report(const lh_name_claim *claim, int64_t now_us) {
    lh_status status = lh_name_claims_check(&claims, claim, now_us, &is_news, &error);
    if (status == LH_OK)
        lh_name_claims_hold(&claims, claim, RENEW_US, LEASE_US, now_us);
    return status;
}

static void where_a_name_serves_is_known_for_its_lease(void **state) {
    (void)state;
    const lh_name_claim first = claim_of("attic", 0x11, "10.0.0.1:5000");
    assert_int_equal(lh_name_claims_place(&claims, "attic", "10.0.0.1:4711", 0), LH_NAME_NOWHERE);
    assert_int_equal(report(&first, 0), LH_OK);
    assert_int_equal(lh_name_claims_place(&claims, "attic", "10.0.0.1:4711", LEASE_US - 1),
                     LH_NAME_HERE);
    assert_int_equal(lh_name_claims_place(&claims, "attic", "10.0.0.1:4711", LEASE_US),
                     LH_NAME_NOWHERE);
    assert_int_equal(lh_name_claims_place(&claims, "attic", "10.0.0.11:4711", 1),
                     LH_NAME_ELSEWHERE);
    assert_int_equal(lh_name_claims_place(&claims, "cellar", "10.0.0.1:4711", 1), LH_NAME_NOWHERE);
}

static void a_second_process_does_not_get_the_name(void **state) {
    (void)state;
    const lh_name_claim first = claim_of("attic", 0x11, "10.0.0.1:5000"),
                        second = claim_of("attic", 0x22, "10.0.0.2:5000"),
                        third = claim_of("attic", 0x33, "10.0.0.3:5000");
    for (int64_t now_us = 0; now_us < 10 * RENEW_US; now_us += RENEW_US) {
        assert_int_equal(report(&first, now_us), LH_OK);
        assert_int_equal(report(&second, now_us + RENEW_US / 2), LH_ERR_EXISTS);
        assert_int_equal(is_news, now_us == 0); /* once */
    }
    assert_string_equal(error.message,
                        "a worker named attic is serving from 10.0.0.1:5000 (instance "
                        "0000000000000011); give this one (instance 0000000000000022) another "
                        "--name");
    assert_int_equal(report(&third, 10 * RENEW_US), LH_ERR_EXISTS);
    assert_true(is_news);
    const lh_name_claim other = claim_of("cellar", 0x22, "10.0.0.2:5000");
    assert_int_equal(report(&other, 10 * RENEW_US), LH_OK);
}

/* In the clear: one report is missing, and the time of another one has passed. */
static void who_does_not_report_loses_it(void **state) {
    (void)state;
    const lh_name_claim first = claim_of("attic", 1, "10.0.0.1:5000"),
                        second = claim_of("attic", 2, "10.0.0.1:6000");
    assert_int_equal(report(&first, 0), LH_OK);
    assert_int_equal(report(&second, 2 * RENEW_US - 1), LH_ERR_EXISTS);
    assert_int_equal(report(&second, 2 * RENEW_US), LH_OK);
    assert_int_equal(report(&first, 2 * RENEW_US + 1), LH_ERR_EXISTS); /* it is the second's now */
}

/* Nobody else listens there, so it has been started again. */
static void the_same_address_on_the_same_machine_is_a_restart(void **state) {
    (void)state;
    lh_name_claim first = claim_of("attic", 1, "10.0.0.1:5000"),
                  again = claim_of("attic", 2, "10.0.0.1:6000"),
                  elsewhere = claim_of("attic", 3, "10.0.0.2:6000");
    strcpy(first.address, "10.0.0.1:7101");
    strcpy(again.address, "10.0.0.1:7101");
    strcpy(elsewhere.address, "10.0.0.1:7101");
    assert_int_equal(report(&first, 0), LH_OK);
    assert_int_equal(report(&elsewhere, 1), LH_ERR_EXISTS);
    assert_int_equal(report(&again, 2), LH_OK);
    assert_int_equal(report(&first, 3), LH_OK); /* the system let it listen there */
    strcpy(again.address, "10.0.0.1:7102");
    assert_int_equal(report(&again, 4), LH_ERR_EXISTS);
}

static void with_tls_a_name_goes_with_its_connection(void **state) {
    (void)state;
    lh_name_claim first = claim_of("attic", 1, "10.0.0.1:5000"),
                  again = claim_of("attic", 2, "10.0.0.1:6000");
    first.has_tls = again.has_tls = true;
    first.connection = 7;
    again.connection = 8;
    standing = 7;
    strcpy(first.address, "10.0.0.1:7101");
    strcpy(again.address, "10.0.0.1:7101");
    assert_int_equal(report(&first, 0), LH_OK);
    assert_int_equal(report(&again, LEASE_US - 1), LH_ERR_EXISTS);
    standing = 0;
    assert_int_equal(report(&again, LEASE_US - 1), LH_OK);
    standing = 8;
    assert_int_equal(report(&first, LEASE_US), LH_ERR_EXISTS);
    /* by another connection of its own */
    again.connection = 9;
    assert_int_equal(report(&again, LEASE_US), LH_OK);
    standing = 9;
    assert_int_equal(report(&first, 2 * LEASE_US - 1), LH_ERR_EXISTS);
    assert_int_equal(report(&first, 2 * LEASE_US), LH_OK); /* the lease is over */
}

static lh_status report_numbered(unsigned number, const char *peer, bool has_tls, int64_t now_us) {
    char name[16];
    snprintf(name, sizeof name, "w-%u", number);
    lh_name_claim claim = claim_of(name, number, peer);
    claim.has_tls = has_tls;
    return report(&claim, now_us);
}

/* In the clear; the others have room, and so has who is there already. */
static void an_address_has_its_share_of_names(void **state) {
    (void)state;
    for (unsigned i = 0; i < LH_NAMES_PER_ADDRESS; i++)
        assert_int_equal(report_numbered(i, "10.0.0.1:1", false, 0), LH_OK);
    assert_int_equal(report_numbered(100, "10.0.0.1:2", false, 0), LH_ERR_LIMIT);
    assert_non_null(strstr(error.message, "32 workers report from 10.0.0.1 in the clear"));
    assert_int_equal(report_numbered(5, "10.0.0.1:2", false, 1), LH_OK);
    assert_int_equal(report_numbered(100, "10.0.0.11:2", false, 1), LH_OK);
    assert_int_equal(report_numbered(101, "10.0.0.1:2", true, 1), LH_OK);
    /* whose leases are over make room */
    assert_int_equal(report_numbered(102, "10.0.0.1:2", false, LEASE_US), LH_OK);
}

/* Whoever has one address of IPv6 has 2^64 of them. */
static void a_network_has_its_share_of_names(void **state) {
    (void)state;
    char peer[LH_ADDRESS_TEXT_BYTES];
    for (unsigned i = 0; i < LH_NAMES_PER_ADDRESS; i++) {
        snprintf(peer, sizeof peer, "[2001:db8::%x:1]:1", i + 1);
        assert_int_equal(report_numbered(i, peer, false, 0), LH_OK);
    }
    assert_int_equal(report_numbered(100, "[2001:db8::7:7]:1", false, 0), LH_ERR_LIMIT);
    assert_non_null(strstr(error.message, "32 workers report from 2001:db8::/64 in the clear"));
    assert_int_equal(report_numbered(101, "[2001:db8:0:1::7]:1", false, 0), LH_OK);
}

static void there_are_places_for_all_workers_and_no_more(void **state) {
    (void)state;
    for (unsigned i = 0; i < LH_WORKERS_MAX; i++)
        assert_int_equal(report_numbered(i, "10.0.0.1:1", true, 0), LH_OK);
    assert_int_equal(report_numbered(LH_WORKERS_MAX, "10.0.0.1:1", true, 1), LH_ERR_LIMIT);
    assert_int_equal(report_numbered(63, "10.0.0.1:1", true, 1), LH_OK);
    assert_int_equal(report_numbered(LH_WORKERS_MAX, "10.0.0.1:1", true, LEASE_US), LH_OK);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(where_a_name_serves_is_known_for_its_lease),
        TEST(a_second_process_does_not_get_the_name),
        TEST(who_does_not_report_loses_it),
        TEST(the_same_address_on_the_same_machine_is_a_restart),
        TEST(with_tls_a_name_goes_with_its_connection),
        TEST(an_address_has_its_share_of_names),
        TEST(a_network_has_its_share_of_names),
        TEST(there_are_places_for_all_workers_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
