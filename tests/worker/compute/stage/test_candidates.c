/* What top-k, top-p and min-p leave, against sorting everything, to the token. */
#include "tests/support/gguf_writer.h"
#include "worker/compute/stage/candidates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_MAX 3000u

static float probabilities[COUNT_MAX];
static uint32_t order[COUNT_MAX]; /* of all that are not 0 */

static int best_first(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (probabilities[x] != probabilities[y])
        return probabilities[x] < probabilities[y] ? 1 : -1;
    return x < y ? -1 : 1;
}

static uint64_t mass_of(uint32_t token) {
    return (uint64_t)((double)probabilities[token] * 0x1p40);
}

/* How many of order[sorted] are left, as candidates.h says it. */
static uint32_t expected_left(uint32_t sorted, const lh_truncation *cut) {
    uint32_t left = sorted;
    if (cut->top_k > 0 && cut->top_k < left)
        left = cut->top_k;
    if (cut->top_p < 1) {
        unsigned __int128 total = 0, sum = 0;
        for (uint32_t i = 0; i < left; i++)
            total += mass_of(order[i]);
        total = total * (uint64_t)((double)cut->top_p * 0x1p32) >> 32;
        uint32_t taken = 0;
        while (taken < left && (taken == 0 || sum < total))
            sum += mass_of(order[taken++]);
        left = taken;
    }
    while (left > 1 && probabilities[order[left - 1]] < cut->min_p)
        left--;
    return left;
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void check(uint32_t count, const lh_truncation *cut) {
    static uint32_t tokens[COUNT_MAX];
    void *scratch = malloc(lh_candidates_bytes(count));
    uint32_t sorted = 0;
    for (uint32_t i = 0; i < count; i++)
        if (probabilities[i] > 0)
            order[sorted++] = i;
    qsort(order, sorted, sizeof *order, best_first);
    uint32_t expected = expected_left(sorted, cut);
    assert_int_equal(lh_candidates_left(probabilities, count, cut, tokens, scratch), expected);
    qsort(tokens, expected, sizeof *tokens, by_number);
    qsort(order, expected, sizeof *order, by_number);
    assert_memory_equal(tokens, order, expected * sizeof *tokens);
    free(scratch);
}

/* Few values with many equals, or all kinds down to subnormals and 0; one is 1. */
static void fill(uint32_t count, uint64_t *random) {
    bool few = test_random(random) % 2;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)(test_random(random) % 0x3f800001u);
        if (few)
            bits = 0x3f800000u - (uint32_t)(test_random(random) % 5) * 0x480000u;
        else if (test_random(random) % 4)
            bits = 0x3f800000u - (uint32_t)(test_random(random) % 0x4000000u);
        if (test_random(random) % 16 == 0)
            bits = 0;
        memcpy(&probabilities[i], &bits, sizeof bits);
    }
    probabilities[test_random(random) % count] = 1;
}

static void test_the_cuts_are_those_of_a_full_sort(void **state) {
    (void)state;
    uint64_t random = 12;
    for (int round = 0; round < 3000; round++) {
        uint32_t count = 1 + (uint32_t)(test_random(&random) % (round % 10 ? 60 : COUNT_MAX));
        lh_truncation cut = {.top_p = 1};
        fill(count, &random);
        if (test_random(&random) % 2)
            cut.top_k = (uint32_t)(test_random(&random) % (count + 3));
        if (test_random(&random) % 2)
            cut.top_p = (float)(test_random(&random) % 1001) * 1e-3f;
        if (test_random(&random) % 3 == 0)
            cut.min_p = (float)(test_random(&random) % 1001) * 1e-3f;
        check(count, &cut);
    }
}

/* What has nearly no mass is cut, too, and the share of a great total does not overflow. */
static void test_the_ends_of_top_p(void **state) {
    (void)state;
    const float ends[] = {0, 1e-30f, 0x1p-33f, 0x1p-32f, 0.5f, 0x1.fffffep-1f};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const lh_truncation cut = {.top_p = ends[i]};
        for (uint32_t token = 0; token < COUNT_MAX; token++)
            probabilities[token] = token % 2 ? 1 : 0x1p-41f;
        check(COUNT_MAX, &cut);
        probabilities[0] = 1;
        check(1, &cut);
    }
}

/* A cut among many that have next to nothing each. */
static void test_a_tail_has_its_mass(void **state) {
    (void)state;
    const lh_truncation cut = {.top_p = 0x1.fffffep-1f};
    for (uint32_t token = 0; token < COUNT_MAX; token++)
        probabilities[token] = token == 700 ? 1 : 0x1p-33f;
    check(COUNT_MAX, &cut);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_cuts_are_those_of_a_full_sort),
        cmocka_unit_test(test_the_ends_of_top_p),
        cmocka_unit_test(test_a_tail_has_its_mass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
