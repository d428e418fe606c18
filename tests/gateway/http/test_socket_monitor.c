/* Hang-ups and deadlines are told once, in time, and not after a removal. */
#include "common/base/clock.h"
#include "gateway/http/socket_monitor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct watched_pair {
    int ours, theirs;
    uint64_t id;
    atomic_int hang_ups, deadlines;
    _Atomic int64_t told_us;
    lh_socket_monitor *monitor;
    int64_t rearm_us; /* the callback arms again, so much later */
} watched_pair;

static void on_signal(void *context, lh_http_signal signal) {
    watched_pair *pair = context;
    pair->told_us = lh_clock_us();
    atomic_fetch_add(signal == LH_HTTP_HUNG_UP ? &pair->hang_ups : &pair->deadlines, 1);
    if (pair->rearm_us)
        lh_socket_monitor_arm(pair->monitor, pair->id, false, lh_clock_us() + pair->rearm_us);
}

static void open_pair(lh_socket_monitor *monitor, watched_pair *pair) {
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    *pair = (watched_pair){.ours = fds[0], .theirs = fds[1], .monitor = monitor};
    assert_int_equal(lh_socket_monitor_add(monitor, pair->ours, on_signal, pair, &pair->id, NULL),
                     LH_OK);
}

static void close_pair(lh_socket_monitor *monitor, watched_pair *pair) {
    lh_socket_monitor_remove(monitor, pair->id);
    close(pair->ours);
    if (pair->theirs >= 0)
        close(pair->theirs);
}

static void wait_for(atomic_int *count, int wanted) {
    int64_t deadline_us = lh_clock_us() + 5000000;
    while (atomic_load(count) < wanted && lh_clock_us() < deadline_us)
        usleep(200);
    assert_int_equal(atomic_load(count), wanted);
}

static void tells_a_hang_up_once(void **state) {
    watched_pair pair;
    open_pair(*state, &pair);
    lh_socket_monitor_arm(*state, pair.id, true, 0);
    usleep(5000);
    assert_int_equal(pair.hang_ups, 0);
    close(pair.theirs);
    pair.theirs = -1;
    wait_for(&pair.hang_ups, 1);
    usleep(5000);
    assert_int_equal(pair.hang_ups, 1);
    lh_socket_monitor_arm(*state, pair.id, true, 0); /* asked again, told again */
    wait_for(&pair.hang_ups, 2);
    close_pair(*state, &pair);
}

static void tells_a_half_close_with_bytes_before_it(void **state) {
    watched_pair pair;
    open_pair(*state, &pair);
    assert_int_equal(write(pair.theirs, "abc", 3), 3);
    shutdown(pair.theirs, SHUT_WR);
    lh_socket_monitor_arm(*state, pair.id, true, 0); /* it has happened already */
    wait_for(&pair.hang_ups, 1);
    close_pair(*state, &pair);
}

static void is_silent_where_nothing_is_asked(void **state) {
    watched_pair pair;
    open_pair(*state, &pair);
    close(pair.theirs);
    pair.theirs = -1;
    usleep(10000);
    lh_socket_monitor_arm(*state, pair.id, false, 0);
    usleep(10000);
    assert_int_equal(pair.hang_ups, 0);
    close_pair(*state, &pair);
}

/* Those that are armed and not due take longer than the test waits. */
static void tells_the_nearest_deadline_and_never_early(void **state) {
    enum { COUNT = 3, FAR_US = 60000000 };
    static const int order[COUNT] = {1, 2, 0};
    watched_pair pairs[COUNT];
    for (int i = 0; i < COUNT; i++) {
        open_pair(*state, &pairs[i]);
        lh_socket_monitor_arm(*state, pairs[i].id, false, lh_clock_us() + FAR_US);
    }
    for (int i = 0; i < COUNT; i++) {
        watched_pair *next = &pairs[order[i]];
        int64_t due_us = lh_clock_us() + 20000;
        lh_socket_monitor_arm(*state, next->id, false, due_us);
        wait_for(&next->deadlines, 1);
        assert_true(next->told_us >= due_us);
        for (int later = i + 1; later < COUNT; later++)
            assert_int_equal(pairs[order[later]].deadlines, 0);
    }
    for (int i = 0; i < COUNT; i++)
        close_pair(*state, &pairs[i]);
}

/* Where the test itself is late, it was told of the first deadline, and rightly. */
static void a_later_deadline_takes_the_place_of_an_earlier(void **state) {
    watched_pair pair;
    open_pair(*state, &pair);
    int64_t early_us = lh_clock_us() + 50000, late_us = early_us + 100000;
    lh_socket_monitor_arm(*state, pair.id, false, early_us);
    lh_socket_monitor_arm(*state, pair.id, false, late_us);
    bool is_in_time = lh_clock_us() < early_us;
    while (pair.told_us < late_us && lh_clock_us() < late_us + 5000000)
        usleep(200);
    assert_true(pair.told_us >= late_us);
    assert_true(pair.deadlines == 1 || !is_in_time);
    int before = pair.deadlines;
    early_us = lh_clock_us() + 20000;
    lh_socket_monitor_arm(*state, pair.id, false, early_us);
    lh_socket_monitor_arm(*state, pair.id, false, 0);
    is_in_time = lh_clock_us() < early_us;
    usleep(60000);
    assert_true(pair.deadlines == before || !is_in_time);
    close_pair(*state, &pair);
}

static void may_be_armed_by_its_callback(void **state) {
    watched_pair pair;
    open_pair(*state, &pair);
    pair.rearm_us = 2000;
    lh_socket_monitor_arm(*state, pair.id, true, lh_clock_us() + 2000);
    int64_t deadline_us = lh_clock_us() + 5000000;
    while (pair.deadlines < 5 && lh_clock_us() < deadline_us)
        usleep(500);
    assert_true(pair.deadlines >= 5);
    close_pair(*state, &pair);
}

/* The number of a removed socket is used again at once; what was under way for the old one must not
 * reach the new. */
static void a_number_used_again_is_another_socket(void **state) {
    for (int i = 0; i < 500; i++) {
        watched_pair first, second;
        open_pair(*state, &first);
        lh_socket_monitor_arm(*state, first.id, true, 0);
        close(first.theirs);
        first.theirs = -1;
        close_pair(*state, &first);
        open_pair(*state, &second);
        assert_int_equal(second.ours, first.ours);
        assert_true(second.id != first.id);
        lh_socket_monitor_arm(*state, second.id, true, 0);
        assert_int_equal(second.hang_ups, 0);
        close_pair(*state, &second);
        assert_int_equal(second.hang_ups, 0);
    }
}

static void watches_many(void **state) {
    enum { COUNT = 200 };
    watched_pair *pairs = calloc(COUNT, sizeof *pairs);
    for (int i = 0; i < COUNT; i++) {
        open_pair(*state, &pairs[i]);
        lh_socket_monitor_arm(*state, pairs[i].id, true, 0);
    }
    for (int i = 0; i < COUNT; i++) {
        close(pairs[i].theirs);
        pairs[i].theirs = -1;
    }
    for (int i = 0; i < COUNT; i++) {
        wait_for(&pairs[i].hang_ups, 1);
        close_pair(*state, &pairs[i]);
    }
    free(pairs);
}

static int start(void **state) {
    lh_socket_monitor *monitor;
    if (lh_socket_monitor_create(&monitor, NULL))
        return -1;
    *state = monitor;
    return 0;
}

static int stop(void **state) {
    lh_socket_monitor_destroy(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_a_hang_up_once),
        cmocka_unit_test(tells_a_half_close_with_bytes_before_it),
        cmocka_unit_test(is_silent_where_nothing_is_asked),
        cmocka_unit_test(tells_the_nearest_deadline_and_never_early),
        cmocka_unit_test(a_later_deadline_takes_the_place_of_an_earlier),
        cmocka_unit_test(may_be_armed_by_its_callback),
        cmocka_unit_test(a_number_used_again_is_another_socket),
        cmocka_unit_test(watches_many),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
