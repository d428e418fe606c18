#include "gateway/fleet/passed_list.h"

#include "tests/gateway/support/worker_reports.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void a_worker_is_passed_over_for_longer_each_time(void **state) {
    (void)state;
    lh_passed_list list = {0};
    int64_t ms = 1000;
    assert_null(lh_passed_list_find(&list, "a", 0));
    for (int64_t pause_ms = 10000; pause_ms <= 640000; pause_ms *= 2) {
        int64_t expected_ms = pause_ms < 600000 ? pause_ms : 600000;
        assert_int_equal(lh_passed_list_add(&list, "a", "no route", ms * MS), expected_ms * MS);
        const lh_passed_over *entry = lh_passed_list_find(&list, "a", (ms + expected_ms - 1) * MS);
        assert_non_null(entry);
        assert_string_equal(entry->reason, "no route");
        assert_int_equal(entry->until_us, (ms + expected_ms) * MS);
        assert_null(lh_passed_list_find(&list, "b", ms * MS));
        ms += expected_ms;
        assert_null(lh_passed_list_find(&list, "a", ms * MS));
    }
    lh_passed_list_forget(&list, "a");
    assert_int_equal(lh_passed_list_add(&list, "a", "", ms * MS), 10000 * MS);
}

static void relenting_lets_all_in_and_forgets_nothing(void **state) {
    (void)state;
    lh_passed_list list = {0};
    lh_passed_list_add(&list, "a", "", 1000 * MS);
    lh_passed_list_add(&list, "b", "", 1000 * MS);
    assert_non_null(lh_passed_list_find(&list, "a", 1001 * MS));
    assert_non_null(lh_passed_list_find(&list, "b", 1001 * MS));
    lh_passed_list_relent(&list);
    assert_null(lh_passed_list_find(&list, "a", 1001 * MS));
    assert_null(lh_passed_list_find(&list, "b", 1001 * MS));
    assert_null(lh_passed_list_find(&list, "b", 0));
    assert_null(lh_passed_list_any(&list, 0));
    assert_int_equal(lh_passed_list_add(&list, "b", "", 1001 * MS), 20000 * MS);
    lh_passed_list_forget(&list, "a");
    lh_passed_list_forget(&list, "nobody");
    assert_int_equal(list.count, 1);
    assert_string_equal(list.workers[0].worker, "b");
}

/* The one whose time is over first makes room. */
static void a_full_list_takes_more(void **state) {
    (void)state;
    lh_passed_list list = {0};
    char name[8];
    for (int i = 0; i <= (int)LH_WORKERS_MAX; i++) {
        snprintf(name, sizeof name, "w%d", i);
        lh_passed_list_add(&list, name, "", (1000 + (i == 7 ? -1 : i)) * MS);
    }
    assert_int_equal(list.count, LH_WORKERS_MAX);
    assert_null(lh_passed_list_find(&list, "w7", 2000 * MS));
    assert_non_null(lh_passed_list_find(&list, "w0", 2000 * MS));
    assert_non_null(lh_passed_list_find(&list, name, 2000 * MS));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_is_passed_over_for_longer_each_time),
        cmocka_unit_test(relenting_lets_all_in_and_forgets_nothing),
        cmocka_unit_test(a_full_list_takes_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
