/* Which requests are refused for their framing, and what the accepted ones announce. */
#include "gateway/http/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct check_row {
    const char *method, *target, *version;
    lh_http_header headers[6];
    unsigned status;
} check_row;

#define HOST {"Host", "a"}

static const check_row table[] = {
    {"GET", "/", "HTTP/1.1", {HOST}, 0},
    {"GET", "/", "HTTP/1.0", {{0}}, 0},
    {"GET", "/", "HTTP/1.1", {{0}}, 400},
    {"GET", "/", "HTTP/1.2", {HOST}, 400},
    {"GET", "", "HTTP/1.1", {HOST}, 400},
    {"GET", "a", "HTTP/1.1", {HOST}, 400},
    {"GET", "*", "HTTP/1.1", {HOST}, 400},
    {"OPTIONS", "*", "HTTP/1.1", {HOST}, 0},
    {"GET", "/a b", "HTTP/1.1", {HOST}, 400},
    {"GET", "/a\tb", "HTTP/1.1", {HOST}, 400},
    {"GET", "/a\x7f", "HTTP/1.1", {HOST}, 400},
    {"GET", "/\xc3\xa9", "HTTP/1.1", {HOST}, 400},
    {"GET", "/a#b", "HTTP/1.1", {HOST}, 400},
    {"GET", "http://a/", "HTTP/1.1", {HOST}, 400},
    {"G T", "/", "HTTP/1.1", {HOST}, 400},
    {"", "/", "HTTP/1.1", {HOST}, 400},
    {"GET", "/", "HTTP/1.1", {HOST, HOST}, 400},
    {"GET", "/", "HTTP/1.1", {{"hOST", "[::1]:80"}}, 0},
    {"GET", "/", "HTTP/1.1", {{"Host", "[::1]"}}, 0},
    {"GET", "/", "HTTP/1.1", {{"Host", "[::1"}}, 400},
    {"GET", "/", "HTTP/1.1", {{"Host", "[]"}}, 400},
    {"GET", "/", "HTTP/1.1", {{"Host", "[::1]a"}}, 400},
    {"GET", "/", "HTTP/1.1", {{"Host", "a:"}}, 0},
    {"GET", "/", "HTTP/1.1", {{"Host", "a:65535"}}, 0},
    {"GET", "/", "HTTP/1.1", {{"Host", "a:100000"}}, 400},
    {"GET", "/", "HTTP/1.1", {{"Host", "a:b"}}, 400},
    {"GET", "/", "HTTP/1.1", {{"Host", "a/?b"}}, 400},
    {"GET", "/", "HTTP/1.1", {{"Host", "a b"}}, 400},
    {"GET", "/", "HTTP/1.1", {HOST, {"X Y", "1"}}, 400},
    {"GET", "/", "HTTP/1.1", {HOST, {"X ", "1"}}, 400},
    {"GET", "/", "HTTP/1.1", {HOST, {"", "1"}}, 400},
    {"GET", "/", "HTTP/1.1", {HOST, {"X", "a\rb"}}, 400},
    {"GET", "/", "HTTP/1.1", {HOST, {"X", "a\nb"}}, 400},
    {"GET", "/", "HTTP/1.1", {HOST, {"X", "a\tb \xff"}}, 0},
    {"POST", "/", "HTTP/1.1", {HOST, {"Content-Length", "5"}}, 0},
    {"POST", "/", "HTTP/1.1", {HOST, {"Content-Length", "05"}}, 0},
    {"POST", "/", "HTTP/1.1", {HOST, {"Content-Length", "+5"}}, 400},
    {"POST", "/", "HTTP/1.1", {HOST, {"Content-Length", "5 "}}, 400},
    {"POST", "/", "HTTP/1.1", {HOST, {"Content-Length", "5,5"}}, 400},
    {"POST", "/", "HTTP/1.1", {HOST, {"Content-Length", ""}}, 400},
    {"POST", "/", "HTTP/1.1", {HOST, {"Content-Length", "9999999999999999999"}}, 400},
    {"POST", "/", "HTTP/1.1", {HOST, {"Content-Length", "5"}, {"content-length", "5"}}, 400},
    {"POST",
     "/",
     "HTTP/1.1",
     {HOST, {"Content-Length", "5"}, {"Transfer-Encoding", "chunked"}},
     400},
    {"POST", "/", "HTTP/1.1", {HOST, {"Transfer-Encoding", "Chunked"}}, 0},
    {"POST", "/", "HTTP/1.0", {HOST, {"Transfer-Encoding", "chunked"}}, 400},
    {"POST", "/", "HTTP/1.1", {HOST, {"Transfer-Encoding", "gzip, chunked"}}, 501},
    {"POST",
     "/",
     "HTTP/1.1",
     {HOST, {"Transfer-Encoding", "chunked"}, {"Transfer-Encoding", "chunked"}},
     400},
    {"POST", "/", "HTTP/1.1", {HOST, {"Authorization", "a"}, {"authorization", "a"}}, 400},
};

static lh_http_request request_of(const check_row *check) {
    lh_http_request request = {.method = check->method,
                               .target = check->target,
                               .version = check->version,
                               .headers = check->headers};
    while (request.header_count < 6 && check->headers[request.header_count].name)
        request.header_count++;
    return request;
}

static void refuses_what_is_ambiguous(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        lh_http_request request = request_of(&table[i]);
        lh_error error;
        unsigned status = lh_http_request_check(&request, &error);
        if (status != table[i].status)
            fail_msg("row %zu: %u instead of %u", i, status, table[i].status);
    }
}

static void tells_what_is_announced(void **state) {
    (void)state;
    check_row sized = {
        "POST", "/", "HTTP/1.1", {HOST, {"Content-Length", "123456789012345678"}}, 0};
    lh_http_request request = request_of(&sized);
    assert_int_equal(lh_http_request_check(&request, NULL), 0);
    assert_int_equal(request.announced_bytes, 123456789012345678);
    assert_false(request.chunked);
    check_row chunked = {"POST", "/", "HTTP/1.1", {HOST, {"Transfer-Encoding", "chunked"}}, 0};
    request = request_of(&chunked);
    assert_int_equal(lh_http_request_check(&request, NULL), 0);
    assert_true(request.chunked);
}

static void refuses_a_long_target(void **state) {
    (void)state;
    char target[LH_HTTP_TARGET_BYTES_MAX + 2];
    memset(target, 'a', sizeof target);
    target[0] = '/';
    target[sizeof target - 1] = '\0';
    check_row long_one = {"GET", target, "HTTP/1.1", {HOST}, 0};
    lh_http_request request = request_of(&long_one);
    assert_int_equal(lh_http_request_check(&request, NULL), 414);
    target[sizeof target - 2] = '\0';
    assert_int_equal(lh_http_request_check(&request, NULL), 0);
}

static void knows_media_types(void **state) {
    (void)state;
    static const struct {
        const char *value;
        bool same;
    } types[] = {{"application/json", true},
                 {"Application/JSON", true},
                 {"application/json; charset=utf-8", true},
                 {"application/json ;", true},
                 {"application/jsonx", false},
                 {"text/json", false},
                 {"", false},
                 {"application/json, a/b", false}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        lh_http_header header = {"content-type", types[i].value};
        lh_http_request request = {.headers = &header, .header_count = 1};
        assert_int_equal(lh_http_request_is_type(&request, "application/json"), types[i].same);
    }
    lh_http_request none = {0};
    assert_false(lh_http_request_is_type(&none, "application/json"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_is_ambiguous),
        cmocka_unit_test(tells_what_is_announced),
        cmocka_unit_test(refuses_a_long_target),
        cmocka_unit_test(knows_media_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
