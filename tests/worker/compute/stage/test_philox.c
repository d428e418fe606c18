/* Known answers of the authors' library Random123 (kat_vectors, philox4x32 10). */
#include "worker/compute/stage/philox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t out[4];
        lh_philox(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

static void test_uniform(void **state) {
    (void)state;
    double sum = 0;
    assert_true(lh_philox_uniform(1, 2) == lh_philox_uniform(1, 2));
    assert_true(lh_philox_uniform(1, 2) != lh_philox_uniform(2, 1));
    assert_true(lh_philox_uniform(1, 2) != lh_philox_uniform(1, 2 | (uint64_t)1 << 32));
    assert_true(lh_philox_uniform(1, 2) != lh_philox_uniform(1 | (uint64_t)1 << 32, 2));
    for (uint64_t i = 0; i < 10000; i++) {
        double u = lh_philox_uniform(42, i);
        assert_true(u >= 0 && u < 1);
        sum += u;
    }
    assert_true(sum > 4900 && sum < 5100); /* 3.5 standard deviations */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_known_answers),
                                       cmocka_unit_test(test_uniform)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
