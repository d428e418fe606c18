/* Attention as kernels/cuda computes it, emulated, against the reference bit for bit: batches of
 * rows of several sequences, each at its own position, by both ways of laying them over threads.
 * What no row of a batch sees is no number, or a page that is not there. */
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/layout.h"
#include "tests/cuda/support/emulated_kernels.h"
#include "tests/kernels/support/arrays.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEQUENCES_MAX 4u
#define PAGES_MAX     16u

/* Sequences with pages of one layer, and rows of them. */
typedef struct batch {
    lh_kv_shape shape;
    uint32_t group, value_dim, window, context, rows;
    bool is_latent;
    void *pages[SEQUENCES_MAX][2 * PAGES_MAX];
    lh_cuda_attention_row *row;
    size_t q_stride, y_stride;
    float *q, *sinks;  /* sinks NULL: none */
    float scale, last; /* last: what values of a sequence's last position are multiplied by */
} batch;

/* A row by the reference. */
static void expect_row(const batch *b, uint32_t row, float *y) {
    const lh_kernels *reference = lh_kernels_at(0);
    const lh_cuda_attention_row *place = &b->row[row];
    const lh_kv_view view = {place->key_pages, place->value_pages, b->shape};
    const float *q = b->q + row * b->q_stride;
    const size_t bytes = b->is_latent ? lh_latent_scratch_bytes(b->shape.value_dim, b->value_dim)
                                      : lh_attention_scratch_bytes(b->value_dim);
    void *scratch = test_alloc(bytes);
    if (b->is_latent)
        reference->latent_attention(y, b->y_stride, q, b->q_stride, &view, b->value_dim, b->group,
                                    place->position, 1, b->scale, scratch);
    for (uint32_t head = 0; head < b->shape.kv_heads && !b->is_latent; head++)
        reference->attention(y + head * b->group * b->value_dim, b->y_stride,
                             q + head * b->group * b->shape.key_dim, b->q_stride, &view, head,
                             b->group, place->position, 1, b->window, b->scale,
                             b->sinks ? b->sinks + head * b->group : NULL, scratch);
    free(scratch);
}

/* ---- Batches ---- */

static void *spoilt_page(size_t bytes) {
    uint8_t *page = test_alloc(bytes);
    memset(page, 0xff, bytes);
    return page;
}

/* Positions [from, to) of a sequence, in pages of which only those exist that hold some of them. */
static void store_sequence(test_random *random, batch *b, uint32_t sequence, uint32_t from,
                           uint32_t to) {
    const lh_kv_shape *shape = &b->shape;
    void **pages = b->pages[sequence];
    for (uint32_t p = from / LH_KV_PAGE_POSITIONS; p * LH_KV_PAGE_POSITIONS < to; p++) {
        pages[p] = spoilt_page(lh_kv_page_bytes(shape, shape->key_dim));
        pages[PAGES_MAX + p] = spoilt_page(lh_kv_page_bytes(shape, shape->value_dim));
    }
    const size_t key_stride = (size_t)shape->kv_heads * shape->key_dim,
                 value_stride = (size_t)shape->kv_heads * shape->value_dim;
    float *keys = random_floats(random, (to - from) * key_stride + 1),
          *values = random_floats(random, (to - from) * value_stride);
    const lh_kv_view view = {pages, pages + PAGES_MAX, *shape};
    for (size_t i = 0; i < value_stride; i++)
        values[(to - from - 1) * value_stride + i] *= b->last;
    lh_kernels_at(0)->kv_store(&view, from, to - from, keys, key_stride, values, value_stride);
    free(keys);
    free(values);
}

/* `count` rows of a sequence, one after the other, that end at position `last`. */
static void add_rows(test_random *random, batch *b, uint32_t sequence, uint32_t count,
                     uint32_t last) {
    if (count > last + 1)
        count = last + 1;
    const uint32_t first = last + 1 - count;
    store_sequence(random, b, sequence, lh_attention_keys(first, b->window).begin, last + 1);
    for (uint32_t i = 0; i < count; i++)
        b->row[b->rows++] =
            (lh_cuda_attention_row){b->pages[sequence], b->pages[sequence] + PAGES_MAX, first + i};
    if (last >= b->context)
        b->context = last + 1;
}

static void make_queries(test_random *random, batch *b, bool has_sinks) {
    const uint32_t heads = b->shape.kv_heads * b->group;
    b->q_stride = (size_t)heads * (b->is_latent ? b->shape.value_dim : b->shape.key_dim) +
                  random_between(random, 0, 3);
    b->y_stride = (size_t)heads * b->value_dim + random_between(random, 0, 3);
    b->q = random_floats(random, b->rows * b->q_stride);
    b->sinks = has_sinks ? random_floats(random, heads) : NULL;
    for (uint32_t i = 0; i < heads && has_sinks; i++)
        b->sinks[i] *= 5;
}

static void free_batch(batch *b) {
    for (uint32_t s = 0; s < SEQUENCES_MAX; s++)
        for (uint32_t p = 0; p < 2 * PAGES_MAX; p++)
            free(b->pages[s][p]);
    free(b->row);
    free(b->q);
    free(b->sinks);
}

/* ---- Checks ---- */

static void attend(const batch *b, float *y, bool as_prompt) {
    const uint32_t heads = b->shape.kv_heads * b->group;
    const lh_cuda_attention_rows rows = {b->row, b->rows, b->context, 0};
    const size_t bytes =
        lh_cuda_attention_scratch_bytes(b->rows, heads, b->value_dim, b->context, b->window);
    void *scratch = test_alloc(bytes);
    memset(scratch, 0xff, bytes);
    int error;
    if (b->is_latent && as_prompt)
        error = lh_cuda_latent_prompt_attention(NULL, y, b->y_stride, b->q, b->q_stride, &b->shape,
                                                b->value_dim, heads, &rows, b->scale);
    else if (b->is_latent)
        error = lh_cuda_latent_attention(NULL, y, b->y_stride, b->q, b->q_stride, &b->shape,
                                         b->value_dim, heads, &rows, b->scale, scratch);
    else if (as_prompt)
        error = lh_cuda_prompt_attention(NULL, y, b->y_stride, b->q, b->q_stride, &b->shape,
                                         b->group, &rows, b->window, b->scale, b->sinks);
    else
        error = lh_cuda_attention(NULL, y, b->y_stride, b->q, b->q_stride, &b->shape, b->group,
                                  &rows, b->window, b->scale, b->sinks, scratch);
    assert_int_equal(error, 0);
    free(scratch);
}

static void check(const batch *b) {
    const size_t count = b->rows * b->y_stride;
    float *expected = test_alloc(count * sizeof(float)), *y = test_alloc(count * sizeof(float));
    char what[128];
    memset(expected, 0x5a, count * sizeof(float));
    for (uint32_t row = 0; row < b->rows; row++)
        expect_row(b, row, expected + row * b->y_stride);
    for (int as_prompt = 0; as_prompt < 2; as_prompt++) {
        snprintf(what, sizeof what, "%s, type %d, %u rows, %u heads of %u, keys %u, values %u",
                 as_prompt ? "prompt" : "rows", (int)b->shape.type, b->rows, b->shape.kv_heads,
                 b->group, b->shape.key_dim, b->value_dim);
        memset(y, 0x5a, count * sizeof(float));
        attend(b, y, as_prompt != 0);
        assert_same_floats(y, expected, count, what);
    }
    free(expected);
    free(y);
}

static batch new_batch(lh_kv_shape shape, uint32_t group, uint32_t window) {
    batch b = {.shape = shape,
               .group = group,
               .value_dim = shape.value_dim,
               .window = window,
               .scale = 0.4f,
               .last = 1};
    b.row = test_alloc(256 * sizeof *b.row);
    return b;
}

static void check_random(test_random *random, lh_kv_type type) {
    static const uint32_t windows[] = {1, 7, 64, 200, 257, LH_ATTENTION_ALL, LH_ATTENTION_ALL};
    const lh_kv_shape shape = {type, random_between(random, 1, 2), random_between(random, 1, 80),
                               random_between(random, 1, 128)};
    batch b = new_batch(shape, random_between(random, 1, 9), windows[random_between(random, 0, 6)]);
    const uint32_t sequences = random_between(random, 1, SEQUENCES_MAX);
    for (uint32_t s = 0; s < sequences; s++)
        add_rows(random, &b, s, random_between(random, 0, 2) ? 1 : random_between(random, 2, 20),
                 random_between(random, 0, random_between(random, 0, 1) ? 700 : 60));
    make_queries(random, &b, random_between(random, 0, 1));
    check(&b);
    free_batch(&b);
}

static void test_batches_of_several_sequences(void **state) {
    (void)state;
    test_random random = {91};
    for (int i = 0; i < 36; i++)
        check_random(&random, (lh_kv_type)(i % 3));
}

/* A prompt in chunks that end within tiles, pages and blocks. */
static void test_chunks_of_a_prompt(void **state) {
    (void)state;
    static const uint32_t chunks[][2] = {{70, 69}, {40, 255}, {33, 256}, {64, 300}, {3, 767}};
    test_random random = {92};
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        const lh_kv_shape shape = {(lh_kv_type)(i % 3), 1, 24, 40};
        batch b = new_batch(shape, i % 2 ? 1 : 3, i % 3 ? LH_ATTENTION_ALL : 50);
        add_rows(&random, &b, 0, chunks[i][0], chunks[i][1]);
        make_queries(&random, &b, false);
        check(&b);
        free_batch(&b);
    }
}

/* A value that is infinite is nothing to the rows before it, which share its tile. */
static void test_infinite_values_stay_with_those_who_see_them(void **state) {
    (void)state;
    test_random random = {96};
    batch b = new_batch((lh_kv_shape){LH_KV_F16, 1, 16, 24}, 2, LH_ATTENTION_ALL);
    b.last = 1e30f;
    add_rows(&random, &b, 0, 9, 100);
    make_queries(&random, &b, false);
    check(&b);
    free_batch(&b);
}

/* The widest heads, in and beyond what a row's kernel holds, and more heads than it takes. */
static void test_wide_heads_and_large_groups(void **state) {
    (void)state;
    static const uint32_t forms[][3] = {{256, 128, 2}, {257, 100, 1}, {40, 20, 16}, {16, 128, 37}};
    test_random random = {93};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const lh_kv_shape shape = {(lh_kv_type)(i % 3), 1, forms[i][0], forms[i][1]};
        batch b = new_batch(shape, forms[i][2], LH_ATTENTION_ALL);
        add_rows(&random, &b, 0, 2, 270);
        add_rows(&random, &b, 1, 1, 30);
        make_queries(&random, &b, i % 2);
        check(&b);
        free_batch(&b);
    }
}

static void test_latent_rows(void **state) {
    (void)state;
    test_random random = {94};
    for (int i = 0; i < 12; i++) {
        const lh_kv_shape shape = {(lh_kv_type)(i % 3), 1, 0, random_between(&random, 1, 170)};
        batch b = new_batch(shape, random_between(&random, 1, 40), LH_ATTENTION_ALL);
        b.is_latent = true;
        b.value_dim = random_between(&random, 1, shape.value_dim < 128 ? shape.value_dim : 128);
        add_rows(&random, &b, 0, random_between(&random, 1, 5), random_between(&random, 0, 600));
        add_rows(&random, &b, 1, 1, random_between(&random, 0, 60));
        make_queries(&random, &b, false);
        check(&b);
        free_batch(&b);
    }
}

/* Whatever the order of threads and blocks. */
static void test_any_order(void **state) {
    (void)state;
    test_random random = {95};
    batch b = new_batch((lh_kv_shape){LH_KV_F16, 2, 33, 70}, 3, LH_ATTENTION_ALL);
    add_rows(&random, &b, 0, 13, 520);
    add_rows(&random, &b, 1, 1, 40);
    make_queries(&random, &b, true);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        emulated_order(seed);
        check(&b);
    }
    free_batch(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches_of_several_sequences),
        cmocka_unit_test(test_chunks_of_a_prompt),
        cmocka_unit_test(test_infinite_values_stay_with_those_who_see_them),
        cmocka_unit_test(test_wide_heads_and_large_groups),
        cmocka_unit_test(test_latent_rows),
        cmocka_unit_test(test_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
