/* Attention over latent rows: the reference against softmax in double, each set against the
 * reference, rows and blocks one by one against all at once, and what lies behind the mask. */
#include "tests/kernels/support/arrays.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PAGES = 9 }; /* 3 blocks, the last one begun */

/* The rows of one sequence in its pages, and the queries on them. */
typedef struct rows {
    lh_kv_type type;
    uint32_t heads, width, rank, context;
    size_t q_stride, y_stride;
    float *q, *kept; /* [context][...] */
    void *pages[PAGES];
} rows;

static lh_kv_view view_of(const rows *r) {
    return (lh_kv_view){
        .key_pages = r->pages, .value_pages = r->pages, .shape = {r->type, 1, 0, r->width}};
}

static rows make_rows(test_random *random, lh_kv_type type, const uint32_t shape[4]) {
    rows r = {
        .type = type, .heads = shape[0], .width = shape[1], .rank = shape[2], .context = shape[3]};
    r.q_stride = (size_t)r.heads * r.width + 3;
    r.y_stride = (size_t)r.heads * r.rank + 5;
    r.q = random_floats(random, r.context * r.q_stride);
    r.kept = random_floats(random, (size_t)r.context * r.width);
    lh_kv_view view = view_of(&r);
    size_t bytes = lh_kv_page_bytes(&view.shape, r.width);
    for (uint32_t page = 0; page < PAGES; page++) /* what nobody stored must not count */
        memset(r.pages[page] = test_alloc(bytes), 0xff, bytes);
    view = view_of(&r);
    lh_kernels_at(0)->kv_store(&view, 0, r.context, r.kept, 0, r.kept, r.width);
    return r;
}

static void free_rows(rows *r) {
    for (uint32_t page = 0; page < PAGES; page++)
        free(r->pages[page]);
    free(r->kept);
    free(r->q);
}

/* All rows, `chunk` of them at a time. */
static float *run(const lh_kernels *kernels, const rows *r, uint32_t chunk) {
    lh_kv_view view = view_of(r);
    size_t bytes = lh_latent_scratch_bytes(r->width, r->rank),
           size = r->context * r->y_stride * sizeof(float);
    float *y = test_alloc(size);
    void *scratch = test_alloc(bytes);
    memset(scratch, 0xff, bytes);
    memset(y, 0, size);
    for (uint32_t first = 0; first < r->context; first += chunk) {
        uint32_t left = r->context - first, count = left < chunk ? left : chunk;
        kernels->latent_attention(y + first * r->y_stride, r->y_stride, r->q + first * r->q_stride,
                                  r->q_stride, &view, r->rank, r->heads, first, count, 0.125f,
                                  scratch);
    }
    free(scratch);
    return y;
}

/* Each row from its blocks, computed one by one, the last one first. */
static float *run_by_blocks(const lh_kernels *kernels, const rows *r) {
    const lh_kv_view view = view_of(r);
    const size_t stride = lh_attention_partial_floats(r->rank) * r->heads + 16,
                 size = r->context * r->y_stride * sizeof(float),
                 scratch_bytes = lh_latent_scratch_bytes(r->width, r->rank);
    float *y = test_alloc(size);
    void *scratch = test_alloc(scratch_bytes);
    memset(scratch, 0xff, scratch_bytes);
    memset(y, 0, size);
    for (uint32_t row = 0; row < r->context; row++) {
        const uint32_t blocks = lh_attention_blocks(row, LH_ATTENTION_ALL).end;
        float *partials = test_alloc(blocks * stride * sizeof(float));
        for (uint32_t block = blocks; block-- > 0;)
            kernels->latent_attention_blocks(partials + block * stride, stride,
                                             r->q + row * r->q_stride, &view, r->rank, r->heads,
                                             row, 0.125f, (lh_span){block, block + 1}, scratch);
        kernels->attention_combine(y + row * r->y_stride, partials, stride, blocks, r->heads,
                                   r->rank, NULL);
        free(partials);
    }
    free(scratch);
    return y;
}

static void check_query(const rows *r, const float *y, uint32_t row, uint32_t head) {
    const float *q = r->q + row * r->q_stride + (size_t)head * r->width;
    double p[PAGES * LH_KV_PAGE_POSITIONS], greatest = -INFINITY, sum = 0;
    for (uint32_t t = 0; t <= row; t++) {
        p[t] = 0;
        for (uint32_t d = 0; d < r->width; d++)
            p[t] += 0.125 * (double)q[d] * (double)r->kept[(size_t)t * r->width + d];
        greatest = fmax(greatest, p[t]);
    }
    for (uint32_t t = 0; t <= row; t++)
        sum += p[t] = exp(p[t] - greatest);
    for (uint32_t d = 0; d < r->rank; d++) {
        double wanted = 0;
        for (uint32_t t = 0; t <= row; t++)
            wanted += p[t] / sum * (double)r->kept[(size_t)t * r->width + d];
        double got = (double)y[row * r->y_stride + (size_t)head * r->rank + d];
        assert_true(fabs(got - wanted) < 1e-5);
    }
}

static void test_the_reference_is_softmax(void **state) {
    (void)state;
    test_random random = {7};
    rows r = make_rows(&random, LH_KV_F32, (const uint32_t[]){3, 21, 13, 520});
    float *y = run(lh_kernels_at(0), &r, r.context);
    for (uint32_t row = 0; row < r.context; row++)
        for (uint32_t head = 0; head < r.heads; head++)
            check_query(&r, y, row, head);
    free(y);
    free_rows(&r);
}

static void test_every_set_has_the_references_bits(void **state) {
    (void)state;
    static const uint32_t shapes[][4] = {/* heads, width, rank, context */
                                         {1, 24, 16, 3},    {5, 37, 19, 130}, {16, 40, 32, 81},
                                         {33, 23, 17, 150}, {48, 9, 9, 66},   {64, 20, 8, 20},
                                         {7, 70, 64, 140},  {18, 44, 33, 97}, {3, 40, 32, 65},
                                         {18, 25, 16, 300}, {2, 33, 20, 530}};
    static const uint32_t chunks[] = {256, 16, 1};
    test_random random = {11};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        rows r = make_rows(&random, (lh_kv_type)(i % 3), shapes[i]);
        float *wanted = run(lh_kernels_at(0), &r, r.context);
        for (size_t set = 0; lh_kernels_at(set); set++)
            for (size_t c = (i + set) % test_stride(3); c < sizeof chunks / sizeof chunks[0];
                 c += test_stride(3)) {
                float *got = run(lh_kernels_at(set), &r, chunks[c]);
                assert_memory_equal(got, wanted, r.context * r.y_stride * sizeof(float));
                free(got);
            }
        for (size_t set = 0; lh_kernels_at(set); set++) {
            float *got = run_by_blocks(lh_kernels_at(set), &r);
            assert_memory_equal(got, wanted, r.context * r.y_stride * sizeof(float));
            free(got);
        }
        free(wanted);
        free_rows(&r);
    }
}

static void test_scratch_that_is_too_large(void **state) {
    (void)state;
    assert_true(lh_latent_scratch_bytes(576, 512) ==
                (2 * (576u + 512) + 256 + 16) * 64 * sizeof(float));
    assert_true(lh_latent_scratch_bytes(UINT32_MAX, UINT32_MAX) > UINT32_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_reference_is_softmax),
        cmocka_unit_test(test_every_set_has_the_references_bits),
        cmocka_unit_test(test_scratch_that_is_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
