/* The machine's speed: numbers that make sense, and that follow the machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/failing_malloc.h"
#include "worker/control/machine_speed.h"

static double least(double a, double b) {
    return a < b ? a : b;
}

/* The best of some, since the machine may be busy for a while. */
static lh_machine_speed measure(const char *isa, double slowdown) {
    lh_machine_speed speed, best;
    lh_compute compute = lh_cpu_compute(NULL, NULL, LH_ACTIVATION_Q8);
    assert_int_equal(lh_kernels_select(isa, &compute.kernels, NULL), LH_OK);
    assert_int_equal(lh_thread_pool_create(1, &compute.pool, NULL), LH_OK);
    lh_slowdown_set(lh_thread_pool_slowdown(compute.pool), slowdown);
    assert_int_equal(lh_machine_speed_measure(&compute, &best, NULL), LH_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(lh_machine_speed_measure(&compute, &speed, NULL), LH_OK);
        best = (lh_machine_speed){least(best.prompt_us, speed.prompt_us),
                                  least(best.token_us, speed.token_us)};
    }
    lh_thread_pool_destroy(compute.pool);
    return best;
}

static void a_row_alone_costs_no_less_than_one_of_many(void **state) {
    (void)state;
    lh_machine_speed speed = measure("auto", 1);
    /* no core multiplies a MiB of weights, which are two millions, in less than a microsecond */
    assert_true(speed.prompt_us > 1 && speed.prompt_us < 1e6);
    assert_true(speed.token_us > 1 && speed.token_us > 0.5 * speed.prompt_us &&
                speed.token_us < 1e6);
}

/* Eight times as slow, and measured so within what a busy machine does to the two. */
static void a_slower_machine_says_so(void **state) {
    (void)state;
    lh_machine_speed plain = measure("auto", 1), slowed = measure("auto", 8);
    assert_true(slowed.prompt_us > 2 * plain.prompt_us && slowed.token_us > 2 * plain.token_us);
}

static void the_reference_is_slower(void **state) {
    (void)state;
    lh_machine_speed best = measure("auto", 1), reference = measure("reference", 1);
    const lh_kernels *kernels;
    assert_int_equal(lh_kernels_select("auto", &kernels, NULL), LH_OK);
    if (kernels == lh_kernels_at(0))
        skip();
    assert_true(reference.prompt_us > best.prompt_us);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_row_alone_costs_no_less_than_one_of_many),
                                       cmocka_unit_test(a_slower_machine_says_so),
                                       cmocka_unit_test(the_reference_is_slower)};
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
