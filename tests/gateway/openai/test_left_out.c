/* What is left out of requests: noted once, bounded, and told once for each client. */
#include "gateway/openai/body_reader.h"
#include "gateway/openai/left_out_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_kind_is_noted_once_without_indexes(void **state) {
    (void)state;
    lh_openai_error error = {0};
    lh_left_out left_out = {.count = 0};
    lh_body_reader body = {NULL, "messages[12].", &error, NULL, &left_out};
    lh_body_leave_out(&body, "content[3]", "redacted_thinking");
    body.path = "messages[0].";
    lh_body_leave_out(&body, "content[3]", "redacted_thinking");
    body.path = "";
    lh_body_leave_out(&body, "tools[7]", "web_search_20250305");
    lh_body_leave_out(&body, "speed", NULL);
    lh_body_leave_out(&body, "odd[[9]", NULL);
    body.left_out = NULL;
    lh_body_leave_out(&body, "nowhere", NULL);
    assert_int_equal(left_out.count, 4);
    assert_string_equal(left_out.kinds[0], "messages[].content[] of type redacted_thinking");
    assert_string_equal(left_out.kinds[1], "tools[] of type web_search_20250305");
    assert_string_equal(left_out.kinds[2], "speed");
    assert_string_equal(left_out.kinds[3], "odd[[]");
}

static void the_list_is_bounded(void **state) {
    (void)state;
    lh_left_out left_out = {.count = 0};
    char name[300];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    lh_left_out_note(&left_out, "%s", name);
    assert_int_equal(strlen(left_out.kinds[0]), LH_LEFT_OUT_KIND_BYTES - 1);
    for (int i = 0; i < 100; i++)
        lh_left_out_note(&left_out, "kind %d", i);
    assert_int_equal(left_out.count, LH_LEFT_OUT_KINDS_MAX);
    assert_string_equal(left_out.kinds[1], "kind 0");
}

static lh_left_out_log marks;

static void a_kind_is_told_once_of_each_client(void **state) {
    (void)state;
    lh_log_limit limit = {.at_once = 1000};
    unsigned long long more;
    memset(&marks, 0, sizeof marks);
    for (int round = 0; round < 3; round++)
        for (uint64_t client = 0; client < 10; client++)
            for (int kind = 0; kind < 20; kind++) {
                char name[16];
                snprintf(name, sizeof name, "kind %d", kind);
                assert_int_equal(lh_left_out_log_take(&marks, client, name, &limit, 1000, &more),
                                 round == 0);
            }
}

/* What the limit of lines has hidden is not taken for told. */
static void what_could_not_be_told_is_told_later(void **state) {
    (void)state;
    lh_log_limit limit = {.at_once = 1};
    unsigned long long more;
    memset(&marks, 0, sizeof marks);
    assert_true(lh_left_out_log_take(&marks, 1, "a", &limit, 1000, &more));
    assert_false(lh_left_out_log_take(&marks, 1, "b", &limit, 1000, &more));
    assert_true(lh_left_out_log_take(&marks, 1, "b", &limit, 60000000, &more));
    assert_int_equal(more, 1);
    assert_false(lh_left_out_log_take(&marks, 1, "a", &limit, 120000000, &more));
}

/* Far more than are remembered: memory stays what it is, and nothing fails. */
static void very_many_are_told_again(void **state) {
    (void)state;
    lh_log_limit limit = {.at_once = 1000000};
    unsigned long long more;
    memset(&marks, 0, sizeof marks);
    for (uint64_t client = 0; client < 20 * LH_LEFT_OUT_LOG_MARKS; client++)
        lh_left_out_log_take(&marks, client, "a", &limit, 1000, &more);
    assert_true(lh_left_out_log_take(&marks, 0, "a", &limit, 1000, &more));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kind_is_noted_once_without_indexes),
        cmocka_unit_test(the_list_is_bounded),
        cmocka_unit_test(a_kind_is_told_once_of_each_client),
        cmocka_unit_test(what_could_not_be_told_is_told_later),
        cmocka_unit_test(very_many_are_told_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
