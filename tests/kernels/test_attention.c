/* Attention over pages: the reference against softmax in double, each set against the reference,
 * chunks of rows against all at once, and what lies behind the mask or before the window. */
#include "tests/kernels/support/arrays.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A cache of one sequence and the queries on it. */
typedef struct cache {
    uint32_t kv_heads, group, head_dim, context, pages, window;
    size_t q_stride, kv_stride;
    float *q, *keys, *values; /* [context][...] as the model makes them */
    const float *sinks;       /* [kv_heads * group]; NULL: none */
    float *key_pages[8], *value_pages[8];
} cache;

static lh_kv_view view_of(const cache *c) {
    return (lh_kv_view){c->key_pages, c->value_pages, c->kv_heads, c->head_dim};
}

static cache make_cache(test_random *random, uint32_t kv_heads, uint32_t group, uint32_t head_dim,
                        uint32_t context) {
    cache c = {.kv_heads = kv_heads, .group = group, .head_dim = head_dim, .context = context};
    c.window = LH_ATTENTION_ALL;
    c.q_stride = (size_t)kv_heads * group * head_dim + 3;
    c.kv_stride = (size_t)kv_heads * head_dim + 1;
    c.q = random_floats(random, context * c.q_stride);
    c.keys = random_floats(random, context * c.kv_stride);
    c.values = random_floats(random, context * c.kv_stride);
    c.pages = (context + LH_KV_PAGE_POSITIONS - 1) / LH_KV_PAGE_POSITIONS;
    size_t floats = lh_kv_page_floats(kv_heads, head_dim);
    for (uint32_t p = 0; p < c.pages; p++) {
        c.key_pages[p] = test_alloc(floats * sizeof(float));
        c.value_pages[p] = test_alloc(floats * sizeof(float));
        for (size_t i = 0; i < floats; i++) /* what nobody stored must not count */
            c.key_pages[p][i] = c.value_pages[p][i] = i % 2 ? NAN : 1e30f;
    }
    return c;
}

static void free_cache(cache *c) {
    free(c->q);
    free(c->keys);
    free(c->values);
    for (uint32_t p = 0; p < c->pages; p++) {
        free(c->key_pages[p]);
        free(c->value_pages[p]);
    }
}

static void store(const lh_kernels *kernels, const cache *c, uint32_t first, uint32_t rows) {
    lh_kv_view view = view_of(c);
    kernels->kv_store(&view, first, rows, c->keys + first * c->kv_stride,
                      c->values + first * c->kv_stride, c->kv_stride);
}

static void attend(const lh_kernels *kernels, const cache *c, uint32_t first, uint32_t rows,
                   float *y) {
    lh_kv_view view = view_of(c);
    size_t bytes = lh_attention_scratch_bytes(rows, c->group, first + rows);
    void *scratch = test_alloc(bytes);
    memset(scratch, 0xff, bytes);
    for (uint32_t head = 0; head < c->kv_heads; head++)
        kernels->attention(y + first * c->q_stride, c->q_stride, c->q + first * c->q_stride,
                           c->q_stride, &view, head, c->group, first, rows, c->window, 0.125f,
                           c->sinks ? c->sinks + head * c->group : NULL, scratch);
    free(scratch);
}

/* All rows, stored and attended in chunks of at most `chunk` (0: at once). */
static float *run(const lh_kernels *kernels, const cache *c, uint32_t chunk) {
    float *y = test_alloc(c->context * c->q_stride * sizeof(float));
    memset(y, 0, c->context * c->q_stride * sizeof(float));
    for (uint32_t first = 0; first < c->context;) {
        uint32_t rows = chunk == 0 || chunk > c->context - first ? c->context - first : chunk;
        store(kernels, c, first, rows);
        attend(kernels, c, first, rows, y);
        first += rows;
    }
    return y;
}

/* Of six heads, below and far above what is scored. */
static const float some_sinks[] = {0.3f, -2, 9, 0, -60, 1.5f};

static void check_softmax(uint32_t window, const float *sinks) {
    test_random random = {31};
    cache c = make_cache(&random, 2, 3, 20, 70);
    c.window = window;
    c.sinks = sinks;
    float *y = run(lh_kernels_at(0), &c, 0);
    for (uint32_t row = 0; row < c.context; row++)
        for (uint32_t head = 0; head < c.kv_heads * c.group; head++) {
            const float *q = c.q + row * c.q_stride + head * c.head_dim;
            size_t kv = (size_t)head / c.group * c.head_dim;
            double z = sinks ? exp((double)sinks[head]) : 0, sum[20] = {0};
            for (uint32_t t = row < window ? 0 : row - window + 1; t <= row; t++) {
                double s = 0;
                for (uint32_t d = 0; d < 20; d++)
                    s += (double)q[d] * c.keys[t * c.kv_stride + kv + d];
                double p = exp(s * 0.125);
                z += p;
                for (uint32_t d = 0; d < 20; d++)
                    sum[d] += p * c.values[t * c.kv_stride + kv + d];
            }
            for (uint32_t d = 0; d < 20; d++)
                assert_true(fabs(y[row * c.q_stride + head * 20 + d] - sum[d] / z) < 1e-6);
        }
    free(y);
    free_cache(&c);
}

static void test_reference_is_softmax(void **state) {
    (void)state;
    check_softmax(LH_ATTENTION_ALL, NULL);
    check_softmax(70, NULL);
    check_softmax(7, NULL);
    check_softmax(1, NULL);
    check_softmax(LH_ATTENTION_ALL, some_sinks);
    check_softmax(7, some_sinks);
}

/* context: not NULL, with windows. */
static void check_shapes(const lh_kernels *set, void *context) {
    static const uint32_t dims[] = {2, 16, 20, 32, 48, 64, 80, 100, 128};
    test_random random = {32};
    for (int i = 0; i < 60; i++) {
        cache c = make_cache(&random, random_between(&random, 1, 2), random_between(&random, 1, 9),
                             dims[i % 9], random_between(&random, 1, i % 4 ? 40 : 200));
        if (context)
            c.window = random_between(&random, 1, i % 3 ? 12 : 150);
        float *sinks = random_floats(&random, (size_t)c.kv_heads * c.group);
        c.sinks = i % 2 ? sinks : NULL;
        float *expected = run(lh_kernels_at(0), &c, 0), *y = run(set, &c, 0);
        float *chunks = run(set, &c, random_between(&random, 1, 13));
        assert_same_floats(y, expected, c.context * c.q_stride, set->name);
        assert_same_floats(chunks, expected, c.context * c.q_stride, set->name);
        free(y);
        free(chunks);
        free(expected);
        free(sinks);
        free_cache(&c);
    }
}

static void test_any_shape_and_chunk(void **state) {
    (void)state;
    for_each_set(check_shapes, NULL);
}

static void test_any_shape_chunk_and_window(void **state) {
    (void)state;
    for_each_set(check_shapes, "windows");
}

/* Pages that no row's window reaches may be gone. */
static void check_pages_before_the_window(const lh_kernels *kernels, void *context) {
    (void)context;
    enum { FIRST = 3 * LH_KV_PAGE_POSITIONS, ROWS = 9 };
    test_random random = {34};
    cache c = make_cache(&random, 1, 3, 32, FIRST + ROWS);
    size_t floats = c.context * c.q_stride;
    float *expected = test_alloc(floats * 4), *y = test_alloc(floats * 4);
    memset(y, 0, floats * 4);
    memset(expected, 0, floats * 4);
    c.window = LH_KV_PAGE_POSITIONS + 1; /* the first row's begins with the page 2 */
    store(kernels, &c, 0, c.context);
    attend(lh_kernels_at(0), &c, FIRST, ROWS, expected);
    for (uint32_t p = 0; p < 2; p++) {
        free(c.key_pages[p]);
        free(c.value_pages[p]);
        c.key_pages[p] = c.value_pages[p] = NULL;
    }
    attend(kernels, &c, FIRST, ROWS, y);
    assert_same_floats(y, expected, floats, kernels->name);
    free(y);
    free(expected);
    free_cache(&c);
}

static void test_pages_before_the_window_are_not_read(void **state) {
    (void)state;
    for_each_set(check_pages_before_the_window, NULL);
}

/* Decoding: one row at a far position. */
static void check_decode(const lh_kernels *set, void *context) {
    (void)context;
    test_random random = {33};
    for (uint32_t group = 1; group <= 9; group++) {
        cache c = make_cache(&random, 1, group, 64, random_between(&random, 300, 500));
        size_t floats = c.context * c.q_stride;
        float *expected = test_alloc(floats * 4), *y = test_alloc(floats * 4);
        memset(y, 0, floats * 4);
        memset(expected, 0, floats * 4);
        store(set, &c, 0, c.context);
        attend(lh_kernels_at(0), &c, c.context - 1, 1, expected);
        attend(set, &c, c.context - 1, 1, y);
        assert_same_floats(y, expected, floats, set->name);
        free(y);
        free(expected);
        free_cache(&c);
    }
}

static void test_decoding_at_a_far_position(void **state) {
    (void)state;
    for_each_set(check_decode, NULL);
}

static void test_scratch_does_not_grow_with_rows(void **state) {
    (void)state;
    assert_int_equal(lh_attention_scratch_bytes(1, 1, 1), 64 * 4);
    assert_int_equal(lh_attention_scratch_bytes(512, 9, 2048),
                     lh_attention_scratch_bytes(64, 3, 2048));
    assert_true(lh_attention_scratch_bytes(UINT32_MAX, UINT32_MAX, 64) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_is_softmax),
        cmocka_unit_test(test_any_shape_and_chunk),
        cmocka_unit_test(test_any_shape_chunk_and_window),
        cmocka_unit_test(test_pages_before_the_window_are_not_read),
        cmocka_unit_test(test_decoding_at_a_far_position),
        cmocka_unit_test(test_scratch_does_not_grow_with_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
