/* When the connections to the next hop serve another route, and when they are given up. */
#include "worker/serve/next_hop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000)

static const lh_chain_route present = {.chain = "c", .next = {.worker = "b", .address = "h:1"}};

/* Only whether there are connections matters here. */
static lh_next_hop connected(void) {
    static char client;
    return (lh_next_hop){.client = (lh_worker_client *)(void *)&client};
}

static void test_the_same_way_on(void **state) {
    (void)state;
    lh_next_hop hop = connected(), none = {.client = NULL};
    lh_chain_route route = present;
    route.epoch = 9;
    assert_true(lh_next_hop_is_for(&hop, &present, &route));
    assert_false(lh_next_hop_is_for(&none, &present, &route));
    strcpy(route.chain, "d"); /* the path of its requests */
    assert_false(lh_next_hop_is_for(&hop, &present, &route));
    route = present;
    strcpy(route.next.worker, "d"); /* who would have to show another certificate */
    assert_false(lh_next_hop_is_for(&hop, &present, &route));
    route = present;
    strcpy(route.next.address, "h:2");
    assert_false(lh_next_hop_is_for(&hop, &present, &route));
    route = present;
    route.next.tls = true;
    assert_false(lh_next_hop_is_for(&hop, &present, &route));
}

static void test_a_hop_that_answers_nothing_for_long_is_suspect(void **state) {
    (void)state;
    lh_next_hop hop = connected();
    lh_next_hop_note_answer(&hop, 100 * SECOND);
    lh_next_hop_note_loss(&hop, 96 * SECOND, 105 * SECOND); /* it answered another 5 s ago */
    assert_false(hop.is_suspect);
    lh_next_hop_note_loss(&hop, 105 * SECOND, 110 * SECOND); /* this one is not older than that */
    assert_false(hop.is_suspect);
    lh_next_hop_note_loss(&hop, 104 * SECOND, 110 * SECOND);
    assert_true(hop.is_suspect);
    assert_false(lh_next_hop_is_for(&hop, &present, &present));
    lh_next_hop_use(&hop, hop.client); /* for a new route */
    assert_false(hop.is_suspect);
    assert_true(lh_next_hop_is_for(&hop, &present, &present));
}

static void test_tls_needs_a_certificate(void **state) {
    (void)state;
    lh_next_hop hop = {.client = NULL};
    lh_chain_route route = present;
    lh_worker_client *client;
    lh_error error;
    route.next.tls = true;
    assert_int_equal(lh_next_hop_connect(&hop, &route, &client, &error), LH_ERR_INVALID);
    assert_string_equal(error.message,
                        "the next hop h:1 takes TLS: give --tls-cert, --tls-key and --tls-ca");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_way_on),
        cmocka_unit_test(test_a_hop_that_answers_nothing_for_long_is_suspect),
        cmocka_unit_test(test_tls_needs_a_certificate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
