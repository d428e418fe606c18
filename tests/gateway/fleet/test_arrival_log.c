#include "gateway/fleet/arrival_log.h"
#include "tests/support/log_capture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000)

static uint32_t count(const char *text, const char *words) {
    uint32_t found = 0;
    for (const char *at = text; (at = strstr(at, words)); at++)
        found++;
    return found;
}

static void a_fleet_that_starts_is_told_in_full(void **state) {
    (void)state;
    lh_arrival_log arrivals;
    lh_worker_report report = {.threads = 4};
    lh_arrival_log_init(&arrivals);
    log_capture_begin();
    for (int i = 0; i < 200; i++) {
        snprintf(report.name, sizeof report.name, "worker-%d", i);
        lh_arrival_log_came(&arrivals, &report, LH_REGISTRY_JOINED, SECOND);
        lh_arrival_log_spare(&arrivals, report.name, "nobody needs it", SECOND);
    }
    char *log = log_capture_end();
    assert_int_equal(count(log, "worker joined worker=worker-"), 200);
    assert_int_equal(count(log, "worker is a spare worker=worker-"), 200);
    free(log);
}

static void who_comes_and_goes_without_end_is_left_out(void **state) {
    (void)state;
    lh_arrival_log arrivals;
    lh_worker worker = {.report = {.name = "restless"}};
    lh_arrival_log_init(&arrivals);
    log_capture_begin();
    for (int i = 0; i < 3000; i++) {
        lh_arrival_log_came(&arrivals, &worker.report, LH_REGISTRY_RESTARTED, SECOND);
        lh_arrival_log_gone(&arrivals, &worker, SECOND);
        lh_arrival_log_spare(&arrivals, "restless", "nobody needs it", SECOND);
    }
    lh_arrival_log_came(&arrivals, &worker.report, LH_REGISTRY_RESTARTED, 4 * SECOND);
    char *log = log_capture_end();
    assert_in_range(count(log, "\n"), 3, 1000);
    assert_non_null(strstr(log, "worker was restarted worker=restless"));
    assert_non_null(strstr(log, "worker is gone worker=restless"));
    assert_true(count(log, "left_out=0\n") < count(log, "\n"));
    free(log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fleet_that_starts_is_told_in_full),
        cmocka_unit_test(who_comes_and_goes_without_end_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
