/* What one side renders the other one reads, and what is out of bounds is refused by its name. */
#include "common/protocol/join/join_messages_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PEM "-----BEGIN X-----\nAAAA\r\n-----END X-----\n"
#define ID  "0123456789abcdef"

static void a_request_comes_through(void **state) {
    (void)state;
    static lh_join_request sent = {.token = ID,
                                   .name = "office-1",
                                   .csr = PEM,
                                   .addresses = {"192.0.2.1", "fd00::1", "box.example"},
                                   .address_count = 3,
                                   .time_s = 1793000000,
                                   .version = "0.1.0"};
    lh_join_request taken;
    memset(sent.secret, 0xa5, sizeof sent.secret);
    for (int named = 0; named < 2; named++) {
        char *text = lh_join_request_render(&sent);
        assert_int_equal(lh_join_request_parse(text, strlen(text), &taken, NULL), LH_OK);
        assert_memory_equal(&taken, &sent, sizeof sent);
        assert_true(strlen(text) < LH_JOIN_REQUEST_BYTES_MAX);
        free(text);
        memset(sent.name, 0, sizeof sent.name);
    }
}

static void a_renewal_comes_through(void **state) {
    (void)state;
    static const lh_join_renewal sent = {
        .csr = PEM, .addresses = {"192.0.2.1"}, .address_count = 1, .time_s = 1793000000};
    lh_join_renewal taken;
    char *text = lh_join_renewal_render(&sent);
    assert_int_equal(lh_join_renewal_parse(text, strlen(text), &taken, NULL), LH_OK);
    assert_memory_equal(&taken, &sent, sizeof sent);
    free(text);
}

static void a_grant_comes_through(void **state) {
    (void)state;
    static const lh_join_grant sent = {.name = "office-1",
                                       .site = "office",
                                       .certificate = PEM,
                                       .trust = PEM PEM,
                                       .time_s = 1793000000,
                                       .observed = "2001:db8::7"};
    lh_join_grant taken;
    char *text = lh_join_grant_render(&sent);
    assert_int_equal(lh_join_grant_parse(text, strlen(text), &taken, NULL), LH_OK);
    assert_memory_equal(&taken, &sent, sizeof sent);
    free(text);
}

static void every_refusal_comes_through(void **state) {
    (void)state;
    for (int code = 0; code < LH_JOIN_OTHER; code++) {
        const lh_join_refusal sent = {.code = (lh_join_refusal_code)code, .message = "so it is"};
        lh_join_refusal taken;
        char *text = lh_join_refusal_render(&sent);
        assert_int_equal(lh_join_refusal_parse(text, strlen(text), &taken, NULL), LH_OK);
        assert_memory_equal(&taken, &sent, sizeof sent);
        assert_true(lh_join_refusal_http_status(sent.code) >= 400);
        free(text);
    }
}

static void a_refusal_of_a_later_version_is_read(void **state) {
    (void)state;
    const char text[] = "{\"error\": {\"code\": \"moon_full\", \"message\": \"wait\\na week\"}}";
    lh_join_refusal taken;
    assert_int_equal(lh_join_refusal_parse(text, strlen(text), &taken, NULL), LH_OK);
    assert_int_equal(taken.code, LH_JOIN_OTHER);
    assert_string_equal(taken.message, "wait?a week");
}

static void reach_comes_through(void **state) {
    (void)state;
    char address[LH_JOIN_ADDRESS_BYTES], *text = lh_join_reach_request_render("[fd00::1]:7101");
    assert_int_equal(lh_join_reach_request_parse(text, strlen(text), address, NULL), LH_OK);
    assert_string_equal(address, "[fd00::1]:7101");
    free(text);
    static const lh_join_reach sent[] = {{.is_reached = true, .us = 1234},
                                         {.is_reached = false, .error = "connection refused"}};
    for (size_t i = 0; i < 2; i++) {
        lh_join_reach taken;
        text = lh_join_reach_render(&sent[i]);
        assert_int_equal(lh_join_reach_parse(text, strlen(text), &taken, NULL), LH_OK);
        assert_memory_equal(&taken, &sent[i], sizeof taken);
        free(text);
    }
}

/* ---- Refusals ---- */

static void request_refused(const char *text, lh_status wanted, const char *phrase) {
    lh_join_request request;
    lh_error error;
    assert_int_equal(lh_join_request_parse(text, strlen(text), &request, &error), wanted);
    if (!strstr(error.message, phrase))
        fail_msg("\"%s\" does not say \"%s\"", error.message, phrase);
}

/* A request whose field has another value. */
static void field_refused(const char *field, const char *value) {
    static const char *const good[][2] = {
        {"token", "\"" ID "\""},
        {"secret", "\"ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8\""},
        {"csr", "\""
                "-----BEGIN"
                "\""},
        {"addresses", "[\"192.0.2.1\"]"},
        {"time", "1793000000"},
        {"version", "\"0.1.0\""},
        {"name", "null"},
    };
    char text[9000];
    size_t used = (size_t)snprintf(text, sizeof text, "{\"protocol\":1");
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, ",\"%s\":%s", good[i][0],
                                 strcmp(good[i][0], field) == 0 ? value : good[i][1]);
    snprintf(text + used, sizeof text - used, "}");
    lh_join_request request;
    if (field[0] == '\0')
        assert_int_equal(lh_join_request_parse(text, strlen(text), &request, NULL), LH_OK);
    else
        request_refused(text, LH_ERR_MALFORMED, field);
}

static void fields_out_of_bounds_are_named(void **state) {
    (void)state;
    char long_text[8300];
    memset(long_text, 'a', sizeof long_text);
    long_text[0] = '"';
    memcpy(long_text + sizeof long_text - 2, "\"", 2);
    field_refused("", ""); /* what the others begin with is taken */
    field_refused("token", "\"0123456789ABCDEF\"");
    field_refused("token", "\"0123\"");
    field_refused("secret", "\"ICEi\"");
    field_refused("secret", "12");
    field_refused("csr", "\"\"");
    field_refused("csr", "null");
    field_refused("csr", "\"a\\u0007b\"");
    field_refused("csr", "\"\xc3\xa4\"");
    field_refused("csr", long_text);
    field_refused("addresses", "{}");
    field_refused("addresses", "[1]");
    field_refused("addresses", "[\"a b\"]");
    field_refused("addresses", "[\"\"]");
    field_refused("addresses", "[\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\"]");
    field_refused("time", "-1");
    field_refused("time", "1e9");
    field_refused("time", "999999999999999");
    field_refused("version", "\"\"");
    field_refused("version", "\"a\\nb\"");
    field_refused("name", "\"a/b\"");
    field_refused("name", "\"\"");
}

static void another_protocol_is_told_from_nonsense(void **state) {
    (void)state;
    request_refused("{\"protocol\": 2}", LH_ERR_UNSUPPORTED, "protocol 2");
    request_refused("{\"protocol\": \"1\"}", LH_ERR_MALFORMED, "protocol");
    request_refused("{}", LH_ERR_MALFORMED, "protocol");
    request_refused("[]", LH_ERR_MALFORMED, "the request to join");
}

static void a_grant_must_be_whole(void **state) {
    (void)state;
    lh_join_grant grant = {
        .name = "a", .site = "b", .certificate = PEM, .trust = PEM, .time_s = 1, .observed = "::1"};
    char *text = lh_join_grant_render(&grant);
    static const char *const fields[] = {"name",  "site", "certificate",
                                         "trust", "time", "observed"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char quoted[32], *copy = strdup(text), *at;
        lh_error error;
        snprintf(quoted, sizeof quoted, "\"%s\"", fields[i]);
        at = strstr(copy, quoted);
        at[1] = 'X';
        assert_int_equal(lh_join_grant_parse(copy, strlen(copy), &grant, &error), LH_ERR_MALFORMED);
        assert_non_null(strstr(error.message, fields[i]));
        free(copy);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_comes_through),
        cmocka_unit_test(a_renewal_comes_through),
        cmocka_unit_test(a_grant_comes_through),
        cmocka_unit_test(every_refusal_comes_through),
        cmocka_unit_test(a_refusal_of_a_later_version_is_read),
        cmocka_unit_test(reach_comes_through),
        cmocka_unit_test(fields_out_of_bounds_are_named),
        cmocka_unit_test(another_protocol_is_told_from_nonsense),
        cmocka_unit_test(a_grant_must_be_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
