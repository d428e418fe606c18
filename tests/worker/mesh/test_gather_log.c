/* What is told of the latest gathers. */
#include "worker/mesh/gather_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void gathers_are_told_once_they_are_complete(void **state) {
    (void)state;
    lh_mesh_gather_log *log = calloc(1, sizeof *log);
    lh_gather_times times[4];
    lh_mesh_gather_log_post(log, 70, 1000, 0, 10);
    lh_mesh_gather_log_post(log, 71, 2000, 0, 20);
    assert_int_equal(lh_mesh_gather_log_read(log, 0, times, 4), 0);
    lh_mesh_gather_log_come(log, 1, 35);
    lh_mesh_gather_log_wait(log, 70, 30, 35);
    lh_mesh_gather_log_wait(log, 70, 36, 38); /* of another member */
    lh_mesh_gather_log_come(log, 3, 40);      /* the others are ahead */
    lh_mesh_gather_log_wait(log, 71, 50, 50);
    lh_mesh_gather_log_post(log, 72, 3000, 3, 60);
    assert_int_equal(lh_mesh_gather_log_read(log, 0, times, 4), 3);
    const lh_gather_times expected[] = {
        {1000, 10, 35, 30, 7}, {2000, 20, 40, 50, 0}, {3000, 60, 60, 0, 0}};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(times[i].bytes, expected[i].bytes);
        assert_int_equal(times[i].posted_us, expected[i].posted_us);
        assert_int_equal(times[i].there_us, expected[i].there_us);
        assert_int_equal(times[i].taken_us, expected[i].taken_us);
        assert_int_equal(times[i].waited_us, expected[i].waited_us);
    }
    assert_int_equal(lh_mesh_gather_log_read(log, 1, times, 1), 1);
    assert_int_equal(times[0].bytes, 2000);
    free(log);
}

static void the_latest_are_kept(void **state) {
    (void)state;
    enum { MANY = 3 * LH_MESH_GATHERS_LOGGED + 5 };
    lh_mesh_gather_log *log = calloc(1, sizeof *log);
    lh_gather_times *times = calloc(MANY, sizeof *times);
    for (uint32_t i = 0; i < MANY; i++) {
        lh_mesh_gather_log_post(log, i, i, i, i);
        lh_mesh_gather_log_come(log, i + 1, i);
    }
    assert_int_equal(lh_mesh_gather_log_read(log, 0, times, MANY), LH_MESH_GATHERS_LOGGED);
    assert_int_equal(times[0].bytes, MANY - LH_MESH_GATHERS_LOGGED);
    assert_int_equal(lh_mesh_gather_log_read(log, MANY - 2, times, MANY), 2);
    assert_int_equal(times[1].bytes, MANY - 1);
    assert_int_equal(lh_mesh_gather_log_read(log, MANY, times, MANY), 0);
    free(times);
    free(log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gathers_are_told_once_they_are_complete),
        cmocka_unit_test(the_latest_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
