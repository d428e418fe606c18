/* Attention over pages: the reference against softmax in double, each set against the reference,
 * chunks of rows against all at once, blocks of keys one by one against all at once, and what lies
 * behind the mask or before the window. */
#include "tests/kernels/support/arrays.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PAGES = 13 }; /* 4 blocks, the last one begun */

/* A cache of one sequence and the queries on it. */
typedef struct cache {
    lh_kv_shape shape;
    uint32_t group, context, pages, window;
    size_t q_stride, y_stride, key_stride, value_stride;
    float *q, *keys, *values; /* [context][...] as the model makes them */
    const float *sinks;       /* [kv_heads * group]; NULL: none */
    void *key_pages[PAGES], *value_pages[PAGES];
} cache;

static lh_kv_view view_of(const cache *c) {
    return (lh_kv_view){c->key_pages, c->value_pages, c->shape};
}

/* What nobody stored must not count: numbers that are huge or none, in any type. */
static void *spoilt_page(size_t bytes) {
    uint8_t *page = test_alloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        page[i] = i % 4 < 2 ? 0xff : 0x7f;
    return page;
}

static cache make_cache(test_random *random, const lh_kv_shape *shape, uint32_t group,
                        uint32_t context) {
    cache c = {.shape = *shape, .group = group, .context = context, .window = LH_ATTENTION_ALL};
    c.q_stride = (size_t)shape->kv_heads * group * shape->key_dim + 3;
    c.y_stride = (size_t)shape->kv_heads * group * shape->value_dim + 2;
    c.key_stride = (size_t)shape->kv_heads * shape->key_dim + 1;
    c.value_stride = (size_t)shape->kv_heads * shape->value_dim + 4;
    c.q = random_floats(random, context * c.q_stride);
    c.keys = random_floats(random, context * c.key_stride);
    c.values = random_floats(random, context * c.value_stride);
    c.pages = (context + LH_KV_PAGE_POSITIONS - 1) / LH_KV_PAGE_POSITIONS;
    for (uint32_t p = 0; p < c.pages; p++) {
        c.key_pages[p] = spoilt_page(lh_kv_page_bytes(shape, shape->key_dim));
        c.value_pages[p] = spoilt_page(lh_kv_page_bytes(shape, shape->value_dim));
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
    kernels->kv_store(&view, first, rows, c->keys + first * c->key_stride, c->key_stride,
                      c->values + first * c->value_stride, c->value_stride);
}

static void attend(const lh_kernels *kernels, const cache *c, uint32_t first, uint32_t rows,
                   float *y) {
    lh_kv_view view = view_of(c);
    size_t bytes = lh_attention_scratch_bytes(c->shape.value_dim);
    void *scratch = test_alloc(bytes);
    memset(scratch, 0xff, bytes);
    for (uint32_t head = 0; head < c->shape.kv_heads; head++)
        kernels->attention(y + first * c->y_stride + head * c->group * c->shape.value_dim,
                           c->y_stride,
                           c->q + first * c->q_stride + head * c->group * c->shape.key_dim,
                           c->q_stride, &view, head, c->group, first, rows, c->window, 0.125f,
                           c->sinks ? c->sinks + head * c->group : NULL, scratch);
    free(scratch);
}

/* All rows, stored and attended in chunks of at most `chunk` (0: at once). */
static float *run(const lh_kernels *kernels, const cache *c, uint32_t chunk) {
    float *y = test_alloc(c->context * c->y_stride * sizeof(float));
    memset(y, 0, c->context * c->y_stride * sizeof(float));
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

/* Beside the floats that were stored: `tolerance` is what the type may lose. */
static void check_softmax(lh_kv_type type, uint32_t context, uint32_t window, const float *sinks,
                          double tolerance) {
    enum { KEY_DIM = 20, VALUE_DIM = 36 };
    test_random random = {31};
    cache c = make_cache(&random, &(lh_kv_shape){type, 2, KEY_DIM, VALUE_DIM}, 3, context);
    c.window = window;
    c.sinks = sinks;
    float *y = run(lh_kernels_at(0), &c, 0);
    for (uint32_t row = 0; row < c.context; row++)
        for (uint32_t head = 0; head < c.shape.kv_heads * c.group; head++) {
            const float *q = c.q + row * c.q_stride + head * KEY_DIM;
            size_t kv = head / c.group;
            double z = sinks ? exp((double)sinks[head]) : 0, sum[VALUE_DIM] = {0};
            for (uint32_t t = row < window ? 0 : row - window + 1; t <= row; t++) {
                double s = 0;
                for (uint32_t d = 0; d < KEY_DIM; d++)
                    s += (double)q[d] * c.keys[t * c.key_stride + kv * KEY_DIM + d];
                double p = exp(s * 0.125);
                z += p;
                for (uint32_t d = 0; d < VALUE_DIM; d++)
                    sum[d] += p * c.values[t * c.value_stride + kv * VALUE_DIM + d];
            }
            for (uint32_t d = 0; d < VALUE_DIM; d++)
                assert_true(fabs(y[row * c.y_stride + head * VALUE_DIM + d] - sum[d] / z) <
                            tolerance);
        }
    free(y);
    free_cache(&c);
}

static void test_reference_is_softmax(void **state) {
    (void)state;
    static const double tolerances[] = {[LH_KV_F32] = 1e-6, [LH_KV_F16] = 1e-3, [LH_KV_Q8] = 1e-2};
    for (lh_kv_type type = LH_KV_F32; type <= LH_KV_Q8; type++) {
        check_softmax(type, 70, LH_ATTENTION_ALL, NULL, tolerances[type]);
        check_softmax(type, 70, 70, NULL, tolerances[type]);
        check_softmax(type, 70, 7, NULL, tolerances[type]);
        check_softmax(type, 70, 1, NULL, tolerances[type]);
        check_softmax(type, 70, LH_ATTENTION_ALL, some_sinks, tolerances[type]);
        check_softmax(type, 70, 7, some_sinks, tolerances[type]);
        check_softmax(type, 530, LH_ATTENTION_ALL, NULL, tolerances[type]);
        check_softmax(type, 530, 260, some_sinks, tolerances[type]);
    }
}

/* A page is as kernels.h draws it, number by number. */
static void test_reference_pages_are_as_drawn(void **state) {
    (void)state;
    enum { HEADS = 2, KEY_DIM = 40, VALUE_DIM = 33, AT = 37 };
    const lh_kernels *reference = lh_kernels_at(0);
    for (lh_kv_type type = LH_KV_F32; type <= LH_KV_Q8; type++) {
        test_random random = {36};
        const lh_kv_shape shape = {type, HEADS, KEY_DIM, VALUE_DIM};
        cache c = make_cache(&random, &shape, 1, AT + 1);
        store(reference, &c, 0, AT + 1);
        const float *key = c.keys + AT * c.key_stride + KEY_DIM,
                    *value = c.values + AT * c.value_stride + VALUE_DIM;
        const size_t line = (4 + AT / 16) * 16 * KEY_DIM + AT % 16,
                     row = (64 + AT) * (size_t)VALUE_DIM;
        if (type == LH_KV_F32) {
            assert_true(((float *)c.key_pages[0])[line + 39 * 16] == key[39]);
            assert_true(((float *)c.value_pages[0])[row + 32] == value[32]);
        } else if (type == LH_KV_F16) {
            uint16_t halves[2];
            reference->f16_from_f32(halves, &key[39], 1);
            reference->f16_from_f32(halves + 1, &value[32], 1);
            assert_int_equal(((uint16_t *)c.key_pages[0])[line + 39 * 16], halves[0]);
            assert_int_equal(((uint16_t *)c.value_pages[0])[row + 32], halves[1]);
        } else {
            const int8_t *lines = (int8_t *)c.key_pages[0] + (4 + AT / 16) * 16 * (KEY_DIM + 8),
                         *values = (int8_t *)c.value_pages[0] + 64 * (VALUE_DIM + 8);
            const float *d = (const float *)(const void *)(lines + 16 * KEY_DIM);
            const float *e = (const float *)(const void *)(values + 64 * VALUE_DIM);
            float amax = 0;
            for (int i = 32; i < KEY_DIM; i++)
                amax = fmaxf(amax, fabsf(key[i]));
            assert_true(d[16 + AT % 16] == amax / 127);
            assert_int_equal(lines[39 * 16 + AT % 16], (int)nearbyintf(key[39] * (127 / amax)));
            assert_true(e[AT * 2 + 1] == fabsf(value[32]) / 127);
            assert_int_equal(values[AT * VALUE_DIM + 32], value[32] > 0   ? 127
                                                          : value[32] < 0 ? -127
                                                                          : 0);
        }
        free_cache(&c);
    }
}

static void assert_same_pages(const cache *a, const cache *b, const char *what) {
    for (uint32_t p = 0; p < a->pages; p++)
        if (memcmp(a->key_pages[p], b->key_pages[p],
                   lh_kv_page_bytes(&a->shape, a->shape.key_dim)) ||
            memcmp(a->value_pages[p], b->value_pages[p],
                   lh_kv_page_bytes(&a->shape, a->shape.value_dim)))
            fail_msg("%s stores other bytes in page %u", what, p);
}

/* context: not NULL, with windows. */
static void check_shapes(const lh_kernels *set, void *context) {
    static const uint32_t dims[] = {2, 16, 20, 32, 48, 64, 80, 100, 128};
    test_random random = {32};
    for (uint32_t i = 0; i < 90; i += test_stride(5)) {
        const lh_kv_shape shape = {(lh_kv_type)(i / 3 % 3), random_between(&random, 1, 2),
                                   dims[i % 9], dims[(i % 3 ? i : i * 7) % 9]};
        uint32_t group = random_between(&random, 1, 9),
                 positions = random_between(&random, 1, i % 4 ? 40 : 200);
        uint64_t seed = random_bits(&random);
        cache c = make_cache(&(test_random){seed}, &shape, group, positions),
              other = make_cache(&(test_random){seed}, &shape, group, positions);
        if (context)
            c.window = other.window = random_between(&random, 1, i % 3 ? 12 : 150);
        float *sinks = random_floats(&random, (size_t)shape.kv_heads * group);
        c.sinks = other.sinks = i % 2 ? sinks : NULL;
        float *expected = run(lh_kernels_at(0), &c, 0), *y = run(set, &other, 0);
        float *chunks = run(set, &other, random_between(&random, 1, 13));
        assert_same_pages(&c, &other, set->name);
        assert_same_floats(y, expected, c.context * c.y_stride, set->name);
        assert_same_floats(chunks, expected, c.context * c.y_stride, set->name);
        free(y);
        free(chunks);
        free(expected);
        free(sinks);
        free_cache(&c);
        free_cache(&other);
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

/* One row from its blocks, computed in two spans, the later one first. */
static void attend_in_halves(const lh_kernels *kernels, const cache *c, uint32_t row, uint32_t cut,
                             float *y) {
    const lh_kv_view view = view_of(c);
    const lh_span blocks = lh_attention_blocks(row, c->window);
    const size_t stride = lh_attention_partial_floats(c->shape.value_dim) * c->group + 32,
                 scratch_bytes = lh_attention_scratch_bytes(c->shape.value_dim);
    cut = blocks.begin + cut % (blocks.end - blocks.begin);
    for (uint32_t head = 0; head < c->shape.kv_heads; head++) {
        void *scratch = test_alloc(scratch_bytes);
        float *partials = test_alloc((blocks.end - blocks.begin) * stride * sizeof(float));
        const float *q = c->q + row * c->q_stride + (size_t)head * c->group * c->shape.key_dim;
        memset(scratch, 0xff, scratch_bytes);
        kernels->attention_blocks(partials + (cut - blocks.begin) * stride, stride, q, &view, head,
                                  c->group, row, c->window, 0.125f, (lh_span){cut, blocks.end},
                                  scratch);
        kernels->attention_blocks(partials, stride, q, &view, head, c->group, row, c->window,
                                  0.125f, (lh_span){blocks.begin, cut}, scratch);
        kernels->attention_combine(
            y + row * c->y_stride + (size_t)head * c->group * c->shape.value_dim, partials, stride,
            blocks.end - blocks.begin, c->group, c->shape.value_dim,
            c->sinks ? c->sinks + head * c->group : NULL);
        free(partials);
        free(scratch);
    }
}

/* Rows that see several blocks, at a bound between two of them and elsewhere. */
static void check_blocks(const lh_kernels *set, void *context) {
    (void)context;
    static const uint32_t dims[] = {16, 64, 20, 48, 128, 33};
    test_random random = {35};
    for (uint32_t i = 0; i < 36; i += test_stride(5)) {
        const lh_kv_shape shape = {(lh_kv_type)(i % 3), random_between(&random, 1, 2), dims[i % 6],
                                   dims[(i + i / 6) % 6]};
        uint32_t rows = random_between(&random, 1, 12),
                 at = i % 2 ? 256 * random_between(&random, 1, 3) + random_between(&random, 0, 8)
                            : random_between(&random, 260, 800),
                 first = at - random_between(&random, 0, rows - 1);
        cache c = make_cache(&random, &shape, random_between(&random, 1, 9), first + rows);
        float *sinks = random_floats(&random, (size_t)shape.kv_heads * c.group);
        size_t floats = c.context * c.y_stride;
        float *expected = test_alloc(floats * 4), *y = test_alloc(floats * 4);
        memset(y, 0, floats * 4);
        memset(expected, 0, floats * 4);
        c.sinks = i % 4 ? sinks : NULL;
        if (i % 3)
            c.window = i % 5 ? random_between(&random, 200, 600) : random_between(&random, 1, 12);
        store(set, &c, 0, c.context);
        attend(lh_kernels_at(0), &c, first, rows, expected);
        attend(set, &c, first, rows, y);
        assert_same_floats(y, expected, floats, set->name);
        memset(y, 0, floats * 4);
        for (uint32_t row = first; row < first + rows; row++)
            attend_in_halves(set, &c, row, random_between(&random, 0, 9), y);
        assert_same_floats(y, expected, floats, set->name);
        free(y);
        free(expected);
        free(sinks);
        free_cache(&c);
    }
}

static void test_blocks_one_by_one_and_at_once(void **state) {
    (void)state;
    for_each_set(check_blocks, NULL);
}

/* Pages that no row's window reaches may be gone. */
static void check_pages_before_the_window(const lh_kernels *kernels, void *context) {
    (void)context;
    enum { FIRST = 3 * LH_KV_PAGE_POSITIONS, ROWS = 9 };
    test_random random = {34};
    cache c = make_cache(&random, &(lh_kv_shape){LH_KV_F32, 1, 32, 32}, 3, FIRST + ROWS);
    size_t floats = c.context * c.y_stride;
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
    for (uint32_t i = 0; i < 27; i += test_stride(4)) {
        cache c = make_cache(&random, &(lh_kv_shape){(lh_kv_type)(i / 9), 1, 64, 64}, i % 9 + 1,
                             random_between(&random, 300, 500));
        size_t floats = c.context * c.y_stride;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_is_softmax),
        cmocka_unit_test(test_reference_pages_are_as_drawn),
        cmocka_unit_test(test_any_shape_and_chunk),
        cmocka_unit_test(test_any_shape_chunk_and_window),
        cmocka_unit_test(test_blocks_one_by_one_and_at_once),
        cmocka_unit_test(test_pages_before_the_window_are_not_read),
        cmocka_unit_test(test_decoding_at_a_far_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
