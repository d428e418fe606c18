#include "common/http2/request.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static lh_status add(lh_h2_request_builder *builder, const char *name, const char *value) {
    return lh_h2_request_builder_add(builder, name, strlen(name), value, strlen(value));
}

static lh_status finish(const char *method, const char *path, lh_h2_request *request,
                        lh_h2_request_builder **out) {
    *out = lh_h2_request_builder_create();
    if (method)
        add(*out, ":method", method);
    if (path)
        add(*out, ":path", path);
    return lh_h2_request_builder_finish(*out, request);
}

static void path_and_query_are_split(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"/", "/", ""},        {"/a?b", "/a", "b"},      {"/a?", "/a", ""},
        {"/?x?y", "/", "x?y"}, {"/a%3Fb", "/a%3Fb", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_h2_request request;
        lh_h2_request_builder *builder;
        assert_int_equal(finish("GET", cases[i][0], &request, &builder), LH_OK);
        assert_string_equal(request.path, cases[i][1]);
        assert_string_equal(request.query, cases[i][2]);
        lh_h2_request_builder_destroy(builder);
    }
}

static void absurd_requests_are_invalid(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {NULL, "/"}, {"GET", NULL}, {"OPTIONS", "*"}, {"GET", ""}, {"GET", "?x"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_h2_request request;
        lh_h2_request_builder *builder;
        assert_int_equal(finish(cases[i][0], cases[i][1], &request, &builder), LH_ERR_INVALID);
        lh_h2_request_builder_destroy(builder);
    }
}

/* Many headers, so that the block moves as it grows. */
static void headers_survive_growth(void **state) {
    (void)state;
    lh_h2_request_builder *builder = lh_h2_request_builder_create();
    lh_h2_request request;
    char name[16], value[600];
    memset(value, 'v', sizeof value);
    add(builder, ":method", "GET");
    add(builder, ":path", "/x");
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "x-%d", i);
        assert_int_equal(
            lh_h2_request_builder_add(builder, name, strlen(name), value, (size_t)i * 2), LH_OK);
    }
    assert_int_equal(lh_h2_request_builder_finish(builder, &request), LH_OK);
    assert_int_equal(request.header_count, 300);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "x-%d", i);
        assert_int_equal(strlen(lh_h2_request_header(&request, name)), i * 2);
    }
    assert_null(lh_h2_request_header(&request, ":path"));
    assert_null(lh_h2_request_header(&request, "x-300"));
    lh_h2_request_builder_destroy(builder);
}

static lh_status build(lh_h2_request *request, lh_h2_request_builder **builder) {
    lh_status status = LH_OK;
    *builder = lh_h2_request_builder_create();
    if (!*builder)
        return LH_ERR_NO_MEMORY;
    for (int i = 0; status == LH_OK && i < 40; i++)
        status = lh_h2_request_builder_add(*builder, "a-header", 8, "with a value", 12);
    if (status == LH_OK)
        status = lh_h2_request_builder_add(*builder, ":method", 7, "GET", 3);
    if (status == LH_OK)
        status = lh_h2_request_builder_add(*builder, ":path", 5, "/x", 2);
    return status == LH_OK ? lh_h2_request_builder_finish(*builder, request) : status;
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    lh_status status = LH_ERR_NO_MEMORY;
    for (size_t n = 1; status != LH_OK; n++) {
        lh_h2_request request;
        lh_h2_request_builder *builder;
        failing_malloc_arm(n);
        status = build(&request, &builder);
        assert_int_equal(status, failing_malloc_disarm() ? LH_ERR_NO_MEMORY : LH_OK);
        lh_h2_request_builder_destroy(builder);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_and_query_are_split),
        cmocka_unit_test(absurd_requests_are_invalid),
        cmocka_unit_test(headers_survive_growth),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
