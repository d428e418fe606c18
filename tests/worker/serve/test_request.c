/* What a request to a worker's server asks for. */
#include "worker/serve/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static lh_worker_request read_request(const char *method, const char *path, const char *query) {
    const lh_h2_request http = {.method = method, .path = path, .query = query};
    lh_worker_request request;
    lh_worker_request_read(&http, &request);
    return request;
}

static void test_what_is_known(void **state) {
    (void)state;
    const struct {
        const char *method, *path;
        lh_worker_request_kind kind;
    } rows[] = {{"POST", "/chains/c/steps/7", LH_REQUEST_STEP},
                {"POST", "/chains/c/shards/3/7", LH_REQUEST_SHARDS},
                {"POST", "/chains/c/trials/576", LH_REQUEST_TRIAL},
                {"POST", "/probe", LH_REQUEST_PROBE},
                {"GET", "/health", LH_REQUEST_HEALTH},
                {"GET", "/status", LH_REQUEST_STATUS}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(read_request(rows[i].method, rows[i].path, "").kind, rows[i].kind);
}

static void test_the_parts_of_a_path(void **state) {
    (void)state;
    lh_worker_request request =
        read_request("POST", "/chains/a.b/steps/18446744073709551615", "shards=apart");
    assert_int_equal(request.kind, LH_REQUEST_STEP);
    assert_string_equal(request.chain, "a.b");
    assert_true(request.number == UINT64_MAX);
    assert_true(request.shards_go_apart);
    assert_false(read_request("POST", "/chains/a/steps/0", "shards=apar").shards_go_apart);
    request = read_request("POST", "/chains/c/shards/4294967295/9", "");
    assert_int_equal(request.kind, LH_REQUEST_SHARDS);
    assert_int_equal(request.epoch, UINT32_MAX);
    assert_int_equal(request.number, 9);
    assert_int_equal(read_request("POST", "/chains/c/trials/0", "").number, 0);
    assert_int_equal(read_request("POST", "/chains/c/trials/65537", "").number, 65537);
}

static void expect_refusal(const char *method, const char *path, int http_status,
                           const char *message) {
    lh_worker_request request = read_request(method, path, "");
    assert_int_equal(request.kind, LH_REQUEST_REFUSED);
    assert_int_equal(request.http_status, http_status);
    assert_string_equal(request.message, message);
}

static void test_what_is_refused(void **state) {
    (void)state;
    static const char step[] = "the path's step is not a decimal number",
                      shards[] = "the path's epoch and step are not decimal numbers",
                      none[] = "no such path";
    char longest[96];
    expect_refusal("POST", "/chains/c/steps/", 400, step);
    expect_refusal("POST", "/chains/c/steps/07", 400, step);
    expect_refusal("POST", "/chains/c/steps/-7", 400, step);
    expect_refusal("POST", "/chains/c/steps/7/", 400, step);
    expect_refusal("POST", "/chains/c/steps/18446744073709551616", 400, step);
    expect_refusal("POST", "/chains/c/steps/99999999999999999999", 400, step);
    expect_refusal("POST", "/chains/c/shards/7", 400, shards);
    expect_refusal("POST", "/chains/c/shards//7", 400, shards);
    expect_refusal("POST", "/chains/c/shards/1/", 400, shards);
    expect_refusal("POST", "/chains/c/shards/01/7", 400, shards);
    expect_refusal("POST", "/chains/c/shards/4294967296/7", 400, shards);
    expect_refusal("POST", "/chains/c/trials/", 400, "the path's width is not a decimal number");
    expect_refusal("POST", "/chains/c/trials/576x", 400,
                   "the path's width is not a decimal number");
    expect_refusal("GET", "/chains/c/trials/576", 404, none);
    expect_refusal("PUT", "/chains/c/steps/7", 405, "steps are submitted with POST");
    expect_refusal("PUT", "/chains/c/shards/1/7", 404, none);
    expect_refusal("POST", "/chains//steps/7", 404, none);
    expect_refusal("POST", "/chains/c", 404, none);
    expect_refusal("POST", "/health", 404, none);
    expect_refusal("GET", "/probe", 404, none);
    /* a name of 63 bytes is the longest */
    memset(longest, 0, sizeof longest);
    strcpy(longest, "/chains/");
    memset(longest + 8, 'c', 63);
    strcpy(longest + 71, "/steps/7");
    assert_int_equal(read_request("POST", longest, "").kind, LH_REQUEST_STEP);
    memset(longest + 8, 'c', 64);
    strcpy(longest + 72, "/steps/7");
    expect_refusal("POST", longest, 404, none);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_known),
        cmocka_unit_test(test_the_parts_of_a_path),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
