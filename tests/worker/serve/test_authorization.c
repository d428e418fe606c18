/* Who may ask for what. */
#include "worker/serve/authorization.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static lh_chain_place place_behind(const char *previous) {
    lh_chain_place place = {.is_set = true};
    snprintf(place.route.previous_name, sizeof place.route.previous_name, "%s", previous);
    return place;
}

static lh_status ask(const lh_chain_place *place, lh_tls_identity_kind kind, const char *name,
                     lh_worker_request_kind what, const char *says) {
    lh_tls_identity identity = {.kind = kind, .site = "home"};
    snprintf(identity.name, sizeof identity.name, "%s", name);
    if (kind != LH_TLS_WORKER)
        identity.site[0] = '\0';
    const lh_h2_request http = {.peer = "10.0.0.1:5000", .peer_identity = &identity};
    const lh_worker_request request = {.kind = what};
    lh_error error = {.message = ""};
    lh_status status = lh_authorize(place, &http, &request, &error);
    assert_string_equal(status == LH_OK ? "" : error.message, says);
    return status;
}

static void steps_are_for_the_one_before(void **state) {
    (void)state;
    static const lh_worker_request_kind kinds[] = {LH_REQUEST_STEP, LH_REQUEST_SHARDS};
    const lh_chain_place first = place_behind(""), second = place_behind("attic"), none = {0};
    for (int i = 0; i < 2; i++) {
        lh_worker_request_kind kind = kinds[i];
        assert_int_equal(ask(&first, LH_TLS_GATEWAY, "", kind, ""), LH_OK);
        assert_int_equal(ask(&second, LH_TLS_WORKER, "attic", kind, ""), LH_OK);
        assert_int_equal(ask(&second, LH_TLS_NONE, "", kind, ""), LH_OK);
        assert_int_equal(ask(&second, LH_TLS_GATEWAY, "", kind,
                             "steps are for worker attic, not for the gateway"),
                         LH_ERR_UNAVAILABLE);
        assert_int_equal(ask(&second, LH_TLS_WORKER, "cellar", kind,
                             "steps are for worker attic, not for worker cellar of site home"),
                         LH_ERR_UNAVAILABLE);
        assert_int_equal(ask(&first, LH_TLS_WORKER, "attic", kind,
                             "steps are for the gateway, not for worker attic of site home"),
                         LH_ERR_UNAVAILABLE);
        assert_int_equal(ask(&first, LH_TLS_STRANGER, "", kind,
                             "steps are for the gateway, not for a stranger to the fleet"),
                         LH_ERR_UNAVAILABLE);
        /* which is answered that there is no such chain */
        assert_int_equal(ask(&none, LH_TLS_GATEWAY, "", kind, ""), LH_OK);
        assert_int_equal(ask(&none, LH_TLS_WORKER, "attic", kind,
                             "steps are for the gateway, not for worker attic of site home"),
                         LH_ERR_UNAVAILABLE);
    }
}

static lh_status ask_relayed(const char *relay, lh_tls_identity_kind kind, const char *peer,
                             const char *from, const char *says) {
    lh_chain_place place = place_behind("attic");
    lh_tls_identity identity = {.kind = kind, .site = "home"};
    const lh_h2_header header = {"longhaul-from", from};
    const lh_h2_request http = {.peer = "10.0.0.1:5000",
                                .peer_identity = &identity,
                                .headers = &header,
                                .header_count = from[0] != '\0'};
    const lh_worker_request request = {.kind = LH_REQUEST_STEP};
    lh_error error = {.message = ""};
    snprintf(place.route.previous_relay, sizeof place.route.previous_relay, "%s", relay);
    snprintf(identity.name, sizeof identity.name, "%s", peer);
    lh_status status = lh_authorize(&place, &http, &request, &error);
    assert_string_equal(status == LH_OK ? "" : error.message, says);
    return status;
}

static void steps_through_a_relay_are_its_and_its_senders(void **state) {
    (void)state;
    assert_int_equal(ask_relayed("hut", LH_TLS_WORKER, "hut", "worker attic", ""), LH_OK);
    assert_int_equal(ask_relayed("hut", LH_TLS_NONE, "", "worker attic", ""), LH_OK);
    assert_int_equal(ask_relayed("hut", LH_TLS_NONE, "", "unknown", ""), LH_OK);
    assert_int_equal(ask_relayed("hut", LH_TLS_WORKER, "hut", "unknown",
                                 "steps are for worker attic, not for unknown behind the relay"),
                     LH_ERR_UNAVAILABLE);
    assert_int_equal(
        ask_relayed("hut", LH_TLS_WORKER, "hut", "worker cellar",
                    "steps are for worker attic, not for worker cellar behind the relay"),
        LH_ERR_UNAVAILABLE);
    assert_int_equal(ask_relayed("hut", LH_TLS_NONE, "", "gateway",
                                 "steps are for worker attic, not for gateway behind the relay"),
                     LH_ERR_UNAVAILABLE);
    assert_int_equal(ask_relayed("hut", LH_TLS_WORKER, "attic", "worker attic",
                                 "steps are for worker hut, not for worker attic of site home"),
                     LH_ERR_UNAVAILABLE);
    assert_int_equal(ask_relayed("hut", LH_TLS_WORKER, "attic", "",
                                 "steps come to this worker through relay hut"),
                     LH_ERR_UNAVAILABLE);
    assert_int_equal(ask_relayed("", LH_TLS_WORKER, "attic", "worker attic",
                                 "steps come to this worker through no relay"),
                     LH_ERR_UNAVAILABLE);
}

static void the_status_is_for_the_gateway(void **state) {
    (void)state;
    const lh_chain_place place = place_behind("attic");
    assert_int_equal(ask(&place, LH_TLS_GATEWAY, "", LH_REQUEST_STATUS, ""), LH_OK);
    assert_int_equal(ask(&place, LH_TLS_WORKER, "attic", LH_REQUEST_STATUS,
                         "the status is for the gateway, not for worker attic of site home"),
                     LH_ERR_UNAVAILABLE);
    assert_int_equal(ask(&place, LH_TLS_NONE, "", LH_REQUEST_STATUS,
                         "the status is for this machine, not for a peer without TLS"),
                     LH_ERR_UNAVAILABLE);
    static const char *const here[] = {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1"};
    const lh_tls_identity none = {.kind = LH_TLS_NONE};
    const lh_worker_request request = {.kind = LH_REQUEST_STATUS};
    for (int i = 0; i < 3; i++) {
        const lh_h2_request http = {.peer = here[i], .peer_identity = &none};
        assert_int_equal(lh_authorize(&place, &http, &request, NULL), LH_OK);
    }
}

static void what_changes_nothing_is_for_members(void **state) {
    (void)state;
    static const lh_worker_request_kind kinds[] = {LH_REQUEST_TRIAL, LH_REQUEST_PROBE,
                                                   LH_REQUEST_HEALTH, LH_REQUEST_REFUSED};
    const lh_chain_place place = place_behind("attic");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ask(&place, LH_TLS_WORKER, "cellar", kinds[i], ""), LH_OK);
        assert_int_equal(ask(&place, LH_TLS_GATEWAY, "", kinds[i], ""), LH_OK);
        assert_int_equal(ask(&place, LH_TLS_NONE, "", kinds[i], ""), LH_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_for_the_one_before),
        cmocka_unit_test(steps_through_a_relay_are_its_and_its_senders),
        cmocka_unit_test(the_status_is_for_the_gateway),
        cmocka_unit_test(what_changes_nothing_is_for_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
