/* Keys and values in their pages, rotated on the way or not, against the reference's rope and
 * kv_store byte for byte; what lies beside them stays. */
#include "kernels/cuda/cuda_kernels.h"
#include "tests/kernels/support/arrays.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PAGES 3u

/* Pages of one layer, all bytes 0x5a. */
static lh_kv_view make_view(lh_kv_shape shape, void **pages) {
    for (uint32_t i = 0; i < 2 * PAGES; i++) {
        const size_t bytes = lh_kv_page_bytes(&shape, i < PAGES ? shape.key_dim : shape.value_dim);
        pages[i] = test_alloc(bytes);
        memset(pages[i], 0x5a, bytes);
    }
    return (lh_kv_view){pages, pages + PAGES, shape};
}

typedef struct rows_of_kv {
    uint32_t first, rows, rotated;
    bool interleaved;
    size_t key_stride, value_stride;
    float *keys, *values, *cosine, *sine;
} rows_of_kv;

static void store_emulated(const lh_kv_view *view, const rows_of_kv *r) {
    lh_cuda_kv_place *places = test_alloc(r->rows * sizeof *places);
    for (uint32_t row = 0; row < r->rows; row++) {
        const uint32_t position = r->first + row, page = position / LH_KV_PAGE_POSITIONS;
        places[row] = (lh_cuda_kv_place){view->key_pages[page], view->value_pages[page], position};
    }
    const lh_cuda_rotation rotation = {r->rotated, r->interleaved, r->cosine, r->sine};
    assert_int_equal(lh_cuda_kv_store(NULL, &view->shape, places, 0, r->rows, r->keys,
                                      r->key_stride, r->values, r->value_stride, rotation),
                     0);
    free(places);
}

static void store_by_reference(const lh_kv_view *view, const rows_of_kv *r) {
    const lh_kernels *reference = lh_kernels_at(0);
    const lh_kv_shape *shape = &view->shape;
    reference->rope(r->keys, r->key_stride, r->rows, shape->kv_heads, shape->key_dim, r->rotated,
                    r->interleaved, r->cosine, r->sine);
    reference->kv_store(view, r->first, r->rows, r->keys, r->key_stride, r->values,
                        r->value_stride);
}

static void check(test_random *random, lh_kv_type type) {
    /* latent attention keeps no keys */
    const uint32_t key_dim = random_between(random, 0, 4) ? 2 * random_between(random, 1, 70) : 0;
    const lh_kv_shape shape = {type, random_between(random, 1, 3), key_dim,
                               random_between(random, 1, 140)};
    rows_of_kv r = {.first = random_between(random, 0, 100), .rows = random_between(random, 1, 70)};
    r.rotated = key_dim ? 2 * random_between(random, 0, key_dim / 2) : 0;
    r.interleaved = random_between(random, 0, 1);
    r.key_stride = shape.kv_heads * key_dim + random_between(random, 0, 3);
    r.value_stride = shape.kv_heads * shape.value_dim + random_between(random, 0, 3);
    r.keys = random_floats(random, r.rows * r.key_stride);
    r.values = random_floats(random, r.rows * r.value_stride);
    r.cosine = random_floats(random, r.rows * (r.rotated / 2));
    r.sine = random_floats(random, r.rows * (r.rotated / 2));
    void *pages[2 * PAGES], *expected[2 * PAGES];
    const lh_kv_view view = make_view(shape, pages), expected_view = make_view(shape, expected);
    store_emulated(&view, &r);
    store_by_reference(&expected_view, &r); /* rotates in place: last */
    for (uint32_t i = 0; i < 2 * PAGES; i++) {
        assert_memory_equal(pages[i], expected[i],
                            lh_kv_page_bytes(&shape, i < PAGES ? key_dim : shape.value_dim));
        free(pages[i]);
        free(expected[i]);
    }
    free(r.keys);
    free(r.values);
    free(r.cosine);
    free(r.sine);
}

static void test_pages_are_those_of_the_reference(void **state) {
    (void)state;
    test_random random = {71};
    for (int i = 0; i < 45; i++)
        check(&random, (lh_kv_type)(i % 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pages_are_those_of_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
