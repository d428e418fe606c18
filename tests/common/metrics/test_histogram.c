/* Which bucket a value counts in. */
#include "common/metrics/histogram.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const double bounds[] = {0.001, 0.5, 2};

static void values_count_in_the_first_bucket_that_they_are_not_over(void **state) {
    (void)state;
    static const struct {
        int64_t us;
        uint32_t bucket;
    } samples[] = {{-5, 0}, {0, 0}, {1000, 0}, {1001, 1}, {500000, 1}, {500001, 2}, {2000001, 3}};
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        lh_histogram histogram;
        lh_histogram_init(&histogram, bounds, 3);
        lh_histogram_observe_us(&histogram, samples[i].us);
        assert_int_equal(lh_counter_read(&histogram.buckets[samples[i].bucket]), 1);
        assert_int_equal(lh_histogram_count(&histogram), 1);
        assert_int_equal(lh_counter_read(&histogram.sum), samples[i].us > 0 ? samples[i].us : 0);
    }
}

static void things_are_counted_as_wholes(void **state) {
    (void)state;
    lh_histogram histogram;
    lh_histogram_init(&histogram, bounds, 3);
    lh_histogram_observe_count(&histogram, 2);
    lh_histogram_observe_count(&histogram, 3);
    assert_int_equal(lh_counter_read(&histogram.buckets[2]), 1);
    assert_int_equal(lh_counter_read(&histogram.buckets[3]), 1);
    assert_int_equal(lh_counter_read(&histogram.sum), 5 * LH_HISTOGRAM_UNIT);
}

#define OBSERVATIONS 20000

static void *observe_many(void *histogram) {
    for (int i = 0; i < OBSERVATIONS; i++)
        lh_histogram_observe_us(histogram, 1000000);
    return NULL;
}

static void nothing_is_lost_between_threads(void **state) {
    (void)state;
    lh_histogram histogram;
    pthread_t threads[4];
    lh_histogram_init(&histogram, bounds, 3);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, observe_many, &histogram), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(lh_histogram_count(&histogram), 4 * OBSERVATIONS);
    assert_int_equal(lh_counter_read(&histogram.sum), 4ll * OBSERVATIONS * 1000000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_count_in_the_first_bucket_that_they_are_not_over),
        cmocka_unit_test(things_are_counted_as_wholes),
        cmocka_unit_test(nothing_is_lost_between_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
