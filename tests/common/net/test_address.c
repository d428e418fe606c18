#include "common/net/address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void good_addresses(void **state) {
    (void)state;
    static const struct {
        const char *text, *host;
        int port;
        bool literal;
    } cases[] = {
        {"127.0.0.1:80", "127.0.0.1", 80, true},
        {"localhost:0", "localhost", 0, false},
        {"[::1]:65535", "::1", 65535, true},
        {"worker-1.example:4711", "worker-1.example", 4711, false},
        {"0.0.0.0:7", "0.0.0.0", 7, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_address address;
        struct sockaddr_storage target;
        char text[LH_ADDRESS_TEXT_BYTES];
        assert_int_equal(lh_address_parse(cases[i].text, &address, NULL), LH_OK);
        assert_string_equal(address.host, cases[i].host);
        assert_int_equal(address.port, cases[i].port);
        assert_int_equal(lh_address_is_literal(&address, &target), cases[i].literal);
        if (!cases[i].literal)
            continue;
        lh_address_render((struct sockaddr *)&target, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void bad_addresses(void **state) {
    (void)state;
    static const char *const cases[] = {
        "",           ":80",     "host",     "host:",
        "host:65536", "host:-1", "host: 80", "host:80x",
        "::1:80",     "[::1]",   "[::1:80",  "[]:80",
        "host:+1",    ":",       "[:80",     "host:99999999999999999999"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_address address;
        lh_error error;
        if (lh_address_parse(cases[i], &address, &error) != LH_ERR_INVALID)
            fail_msg("\"%s\" was taken", cases[i]);
        assert_non_null(strstr(error.message, "address \""));
    }
    char text[400];
    lh_address address;
    memset(text, 'a', sizeof text);
    snprintf(text + 300, 20, ":80");
    assert_int_equal(lh_address_parse(text, &address, NULL), LH_ERR_INVALID);
}

static void loopback_is_this_machine_alone(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool loopback;
    } cases[] = {
        {"127.0.0.1:1", true},  {"127.9.8.7:1", true},       {"[::1]:1", true},
        {"localhost:1", true},  {"0.0.0.0:1", false},        {"[::]:1", false},
        {"10.0.0.1:1", false},  {"128.0.0.1:1", false},      {"127.0.0.1.example.org:1", false},
        {"[fe80::1]:1", false}, {"localhost.evil:1", false}, {"127.example:1", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_address address;
        assert_int_equal(lh_address_parse(cases[i].text, &address, NULL), LH_OK);
        if (lh_address_is_loopback(&address) != cases[i].loopback)
            fail_msg("%s", cases[i].text);
    }
}

/* A host of IPv6 has all of a network of 64 bits, and one of IPv4 its address, also at a socket
 * that is for both. */
static void an_owner_is_an_address_or_a_network(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"127.0.0.1:80", "127.0.0.1"},
        {"[::ffff:10.1.2.3]:80", "10.1.2.3"},
        {"[::1]:4711", "::/64"},
        {"[2001:db8:1:2:3:4:5:6]:80", "2001:db8:1:2::/64"},
        {"[2001:db8:1:2:ffff::]:81", "2001:db8:1:2::/64"},
        {"[2001:db8:1:3::1]:80", "2001:db8:1:3::/64"},
        {"nonsense", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[LH_ADDRESS_TEXT_BYTES];
        lh_address_render_owner(cases[i][0], text);
        assert_string_equal(text, cases[i][1]);
    }
}

/* Whoever has no key is told apart by it, and 0 would be nobody. */
static void every_address_has_a_key(void **state) {
    (void)state;
    static const char *const hosts[] = {"::1", "::ffff:10.1.2.3", "10.1.2.3", "2001:db8:1:2::9",
                                        "2001:db8:1:3::9"};
    uint64_t keys[5];
    for (size_t i = 0; i < 5; i++) {
        lh_address address = {.port = 80};
        struct sockaddr_storage target;
        strcpy(address.host, hosts[i]);
        assert_true(lh_address_is_literal(&address, &target));
        keys[i] = lh_address_key((const struct sockaddr *)&target);
        assert_true(keys[i] > 0);
    }
    assert_true(keys[1] == keys[2] && keys[0] != keys[1] && keys[3] != keys[4]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_addresses),
        cmocka_unit_test(bad_addresses),
        cmocka_unit_test(loopback_is_this_machine_alone),
        cmocka_unit_test(an_owner_is_an_address_or_a_network),
        cmocka_unit_test(every_address_has_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
