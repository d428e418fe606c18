#include "common/base/stray_signals.h"
#include "tests/common/support/child.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static volatile sig_atomic_t taken;

static void take(int number) {
    taken = number;
}

static int raise_one(void *context) {
    lh_stray_signals_ignore();
    raise(*(const int *)context);
    return 0;
}

static void strays_end_nobody(void **state) {
    (void)state;
    const int strays[] = {SIGQUIT, SIGALRM, SIGUSR1, SIGUSR2,   SIGVTALRM,
                          SIGPROF, SIGIO,   SIGPWR,  SIGSTKFLT, SIGXFSZ};
    for (size_t i = 0; i < sizeof strays / sizeof strays[0]; i++)
        assert_int_equal(child_outcome(raise_one, (void *)&strays[i]), 0);
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
        assert_int_equal(child_outcome(raise_one, &number), 0);
}

static void those_with_a_meaning_keep_it(void **state) {
    (void)state;
    const int ends[] = {SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        assert_int_equal(child_outcome(raise_one, (void *)&ends[i]), -ends[i]);
}

static int take_one(void *context) {
    signal(SIGUSR1, take);
    raise_one(context);
    return taken;
}

static void what_somebody_handles_stays_his(void **state) {
    (void)state;
    int number = SIGUSR1;
    assert_int_equal(child_outcome(take_one, &number), SIGUSR1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strays_end_nobody),
        cmocka_unit_test(those_with_a_meaning_keep_it),
        cmocka_unit_test(what_somebody_handles_stays_his),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
