/* Products of --gpu-math fast, emulated, against the float64 product within the bound that
 * kernels/cuda/cuda_fast.h states: every type, few rows and many, pieces of inputs and outputs,
 * rows of great and of small activations. What cuBLAS is not given has the bits of the exact
 * product.
 *
 * The kernels and cuBLAS are those of longhaul-cuda-emulated.so, opened as a worker opens it. */
#include "common/base/dtype.h"
#include "kernels/layout.h"
#include "tests/kernels/support/arrays.h"
#include "worker/compute/cuda/cuda_library.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Of the emulation (tests/CMakeLists.txt). */
#define PLAIN_ROWS 24u

static const lh_cuda_plugin *gpu;
static lh_cuda_stream stream;

static void *copied(const void *from, size_t bytes) {
    void *to = NULL, *pinned = NULL;
    assert_int_equal(gpu->allocate(&to, bytes), 0);
    assert_int_equal(gpu->allocate_host(&pinned, bytes), 0);
    memcpy(pinned, from, bytes);
    assert_int_equal(gpu->copy(stream, to, bytes, pinned, bytes, bytes, 1), 0);
    assert_int_equal(gpu->finish_stream(stream), 0);
    assert_int_equal(gpu->release_host(pinned), 0);
    return to;
}

static void copy_back(float *to, const float *from, size_t bytes) {
    void *pinned = NULL;
    assert_int_equal(gpu->allocate_host(&pinned, bytes), 0);
    assert_int_equal(gpu->copy(stream, pinned, bytes, from, bytes, bytes, 1), 0);
    assert_int_equal(gpu->finish_stream(stream), 0);
    memcpy(to, pinned, bytes);
    assert_int_equal(gpu->release_host(pinned), 0);
}

/* A product with its arrays, on the host and (of those that are read) on the device. */
typedef struct problem {
    lh_matrix w, device_w;
    lh_activations x, device_x;
    float *values, *seed;
    size_t y_stride;
} problem;

static problem make_problem(test_random *random, lh_dtype dtype, lh_activation_kind quantized,
                            uint32_t rows, uint32_t outputs, uint32_t columns, float greatest) {
    const uint32_t unit = test_dtype_unit(dtype), inputs = (columns + unit - 1) / unit * unit;
    const lh_activation_kind kind = lh_activation_kind_for(dtype, quantized);
    uint8_t *source = random_weights(random, dtype, outputs, inputs);
    problem p = {.w = pack_weights(dtype, outputs, inputs, source),
                 .values = random_floats(random, (size_t)rows * inputs),
                 .y_stride = outputs + random_between(random, 0, 3)};
    for (size_t i = 0; i < (size_t)rows * inputs; i++)
        p.values[i] *= greatest;
    p.seed = random_floats(random, rows * p.y_stride);
    p.x = pack_rows(lh_kernels_at(0), kind, rows, inputs, p.values);
    p.device_w = p.w;
    p.device_w.data = copied(p.w.data, lh_matrix_bytes(dtype, outputs, inputs));
    p.device_x = p.x;
    p.device_x.data = copied(p.x.data, lh_activations_bytes(kind, rows, inputs));
    free(source);
    return p;
}

static void free_problem(problem *p) {
    free(p->w.data);
    free(p->x.data);
    free(p->values);
    free(p->seed);
    gpu->release(p->device_w.data);
    gpu->release(p->device_x.data);
}

static size_t y_bytes(const problem *p) {
    return p->x.rows * p->y_stride * sizeof(float);
}

/* y of p->seed, by `fast` or (NULL) exactly. */
static float *product_by(lh_cuda_fast *fast, const problem *p, lh_span in, lh_span out,
                         bool continues) {
    float *y = copied(p->seed, y_bytes(p)), *result = test_alloc(y_bytes(p));
    const lh_cuda_product product = {y, p->y_stride, p->device_w, out, NULL};
    const int error = fast
                          ? gpu->fast_products(fast, &product, 1, &p->device_x, in, continues, NULL)
                          : gpu->products(stream, &product, 1, &p->device_x, in, continues, NULL);
    assert_int_equal(error, 0);
    copy_back(result, y, y_bytes(p));
    gpu->release(y);
    return result;
}

/* What a product reads of its activations. */
static double activation(const lh_activations *x, uint32_t row, uint32_t k) {
    if (x->kind == LH_ACTIVATION_F32)
        return ((const float *)x->data)[(size_t)row * x->width + k];
    const uint32_t parts = x->kind == LH_ACTIVATION_Q16 ? 2 : 1;
    const lh_q8_block *blocks =
        (const lh_q8_block *)x->data + ((size_t)row * (x->width / LH_BLOCK) + k / LH_BLOCK) * parts;
    double value = 0;
    for (uint32_t i = 0; i < parts; i++)
        value += (double)blocks[i].d * blocks[i].q[k % LH_BLOCK];
    return value;
}

/* e of cuda_fast.h. */
static double rounded_by(lh_dtype dtype) {
    if (dtype == LH_DTYPE_F16)
        return 0x1p-11;
    return dtype == LH_DTYPE_F32 || dtype == LH_DTYPE_BF16 ? 0x1p-9 : 0x1p-10;
}

/* Fails where |y - exact| is beyond the bound, or anything beside the product is touched. */
static void check(lh_cuda_fast *fast, const problem *p, lh_span in, lh_span out, bool continues) {
    float *y = product_by(fast, p, in, out, continues),
          *row_w = test_alloc(p->w.inputs * sizeof *row_w);
    const double part = rounded_by(p->w.dtype) + (in.end - in.begin) * 0x1p-23;
    for (uint32_t c = 0; c < p->w.outputs; c++) {
        lh_matrix_row(&p->w, c, row_w);
        for (uint32_t row = 0; row < p->x.rows; row++) {
            const float *seed = &p->seed[row * p->y_stride + c], *found = &y[row * p->y_stride + c];
            if (c < out.begin || c >= out.end) {
                assert_memory_equal(found, seed, sizeof *seed);
                continue;
            }
            double sum = continues ? *seed : 0, bound = fabs(sum), subnormal = 0;
            for (uint32_t k = in.begin; k < in.end; k++) {
                const double x = activation(&p->x, row, k);
                sum += row_w[k] * x;
                bound += fabs(row_w[k] * x);
                subnormal += 0x1p-25 * fabs(x);
            }
            if (!(fabs(*found - sum) <= bound * part + subnormal))
                fail_msg("%s, %u rows: row %u output %u is %g, not %g",
                         lh_dtype_lookup((uint32_t)p->w.dtype)->name, p->x.rows, row, c,
                         (double)*found, sum);
        }
    }
    for (uint32_t row = 0; row < p->x.rows; row++) {
        const size_t beside = row * p->y_stride + p->w.outputs;
        assert_memory_equal(y + beside, p->seed + beside, (p->y_stride - p->w.outputs) * sizeof *y);
    }
    free(row_w);
    free(y);
}

static bool is_float(lh_dtype dtype) {
    return dtype == LH_DTYPE_F32 || dtype == LH_DTYPE_F16 || dtype == LH_DTYPE_BF16;
}

static lh_cuda_fast *open_fast(uint32_t major) {
    char why[LH_ERROR_MESSAGE_BYTES] = "";
    lh_cuda_fast *fast = NULL;
    assert_int_equal(gpu->fast_open(&fast, stream, major, EMULATED_LIBRARY, why), 0);
    return fast;
}

/* Of a product of all inputs and outputs. */
static void check_whole(lh_cuda_fast *fast, const problem *p, bool continues) {
    const lh_span in = {0, p->w.inputs}, out = {0, p->w.outputs};
    check(fast, p, in, out, continues);
}

static void test_floats_of_any_number_of_rows(void **state) {
    (void)state;
    static const uint32_t rows[] = {9, 1, 2, 17, PLAIN_ROWS - 1, PLAIN_ROWS, PLAIN_ROWS + 16};
    lh_cuda_fast *fast = open_fast(9);
    test_random random = {71};
    for (size_t d = 0; d < TEST_FLOAT_DTYPES; d++)
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            problem p = make_problem(&random, test_dtypes[d], LH_ACTIVATION_Q8, rows[r],
                                     random_between(&random, 1, 70),
                                     r ? random_between(&random, 1, 330) : 1, 1);
            check_whole(fast, &p, r % 2);
            free_problem(&p);
        }
    gpu->fast_close(fast);
}

static void test_quantized_prompts(void **state) {
    (void)state;
    lh_cuda_fast *fast = open_fast(9);
    test_random random = {72};
    for (size_t d = TEST_FLOAT_DTYPES; d < TEST_DTYPES; d++) {
        problem p =
            make_problem(&random, test_dtypes[d], d % 2 ? LH_ACTIVATION_Q8 : LH_ACTIVATION_Q16,
                         PLAIN_ROWS + (uint32_t)d % 3, random_between(&random, 17, 40), 256, 1);
        check_whole(fast, &p, d % 2);
        free_problem(&p);
    }
    gpu->fast_close(fast);
}

/* More than the memory for plain weights holds at once, and more rows than that for theirs. */
static void test_pieces(void **state) {
    (void)state;
    static const lh_dtype dtypes[] = {LH_DTYPE_F16, LH_DTYPE_F32, LH_DTYPE_Q4_1};
    lh_cuda_fast *fast = open_fast(9);
    test_random random = {73};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        problem p = make_problem(&random, dtypes[d], LH_ACTIVATION_Q8, 83, 163, 224, 1);
        check(fast, &p, (lh_span){0, 224}, (lh_span){0, 163}, false);
        check(fast, &p, (lh_span){32, 224}, (lh_span){16, 163}, true);
        check(fast, &p, (lh_span){64, 160}, (lh_span){32, 64}, true);
        free_problem(&p);
    }
    problem few = make_problem(&random, LH_DTYPE_BF16, LH_ACTIVATION_Q8, 3, 75, 224, 1);
    check(fast, &few, (lh_span){32, 160}, (lh_span){16, 75}, true);
    free_problem(&few);
    gpu->fast_close(fast);
}

/* Beyond what F16 holds, and where it has no bits left. */
static void test_great_and_small_activations(void **state) {
    (void)state;
    static const float greatest[] = {1e9f, 7e4f, 1e-5f, 1e-9f};
    lh_cuda_fast *fast = open_fast(9);
    test_random random = {74};
    for (size_t i = 0; i < sizeof greatest / sizeof greatest[0]; i++)
        for (size_t d = 0; d < TEST_FLOAT_DTYPES; d++) {
            const uint32_t rows = i % 2 ? 4 : PLAIN_ROWS;
            problem p =
                make_problem(&random, test_dtypes[d], LH_ACTIVATION_Q8, rows, 20, 96, greatest[i]);
            check_whole(fast, &p, false);
            check_whole(fast, &p, true);
            free_problem(&p);
        }
    gpu->fast_close(fast);
}

static void check_exact(lh_cuda_fast *fast, const problem *p, bool is_exact) {
    const lh_span in = {0, p->w.inputs}, out = {0, p->w.outputs};
    float *y = product_by(fast, p, in, out, true), *exact = product_by(NULL, p, in, out, true);
    assert_int_equal(memcmp(y, exact, y_bytes(p)) == 0, is_exact);
    free(exact);
    free(y);
}

static void test_what_stays_exact(void **state) {
    (void)state;
    lh_cuda_fast *turing = open_fast(7), *ampere = open_fast(8);
    test_random random = {75};
    for (size_t d = 0; d < TEST_DTYPES; d++) {
        problem p =
            make_problem(&random, test_dtypes[d], LH_ACTIVATION_Q8, PLAIN_ROWS - 1, 33, 256, 1);
        check_exact(ampere, &p, !is_float(test_dtypes[d]));
        check_exact(turing, &p, !is_float(test_dtypes[d]) || test_dtypes[d] == LH_DTYPE_BF16);
        free_problem(&p);
    }
    gpu->fast_close(turing);
    gpu->fast_close(ampere);
}

/* As a decode step is: what is recorded does the same again. */
static void test_a_recorded_product(void **state) {
    (void)state;
    static const uint32_t rows[] = {2, PLAIN_ROWS};
    lh_cuda_fast *fast = open_fast(9);
    test_random random = {76};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        problem p = make_problem(&random, LH_DTYPE_F16, LH_ACTIVATION_Q8, rows[r], 40, 64, 1);
        const lh_span in = {0, 64}, out = {0, 40};
        float *asked = product_by(fast, &p, in, out, false), *y = copied(p.seed, y_bytes(&p)),
              *replayed = test_alloc(y_bytes(&p));
        const lh_cuda_product product = {y, p.y_stride, p.device_w, out, NULL};
        lh_cuda_graph graph;
        assert_int_equal(gpu->begin_recording(stream), 0);
        assert_int_equal(gpu->fast_products(fast, &product, 1, &p.device_x, in, false, NULL), 0);
        assert_int_equal(gpu->end_recording(stream, &graph), 0);
        assert_int_equal(gpu->replay(graph, stream), 0);
        assert_int_equal(gpu->replay(graph, stream), 0);
        copy_back(replayed, y, y_bytes(&p));
        assert_memory_equal(replayed, asked, y_bytes(&p));
        gpu->destroy_graph(graph);
        gpu->release(y);
        free(asked);
        free(replayed);
        free_problem(&p);
    }
    gpu->fast_close(fast);
}

static void check_refused(const char *library, const char *words) {
    char why[LH_ERROR_MESSAGE_BYTES] = "";
    lh_cuda_fast *fast = NULL;
    assert_int_equal(gpu->fast_open(&fast, stream, 9, library, why), LH_CUDA_NO_BLAS);
    assert_null(fast);
    if (!strstr(why, words))
        fail_msg("\"%s\" does not say \"%s\"", why, words);
}

static void test_no_cublas(void **state) {
    (void)state;
    check_refused("/nowhere/libcublas.so.13", "cuBLAS cannot be opened: /nowhere/libcublas.so.13");
    check_refused("libm.so.6", "the library that should be cuBLAS has no cublasCreate_v2");
    assert_string_equal(gpu->error_text(LH_CUDA_NO_BLAS), "there is no cuBLAS");
    assert_string_equal(gpu->error_text(LH_CUDA_BLAS_ERRORS + 3), "cuBLAS is out of memory");
}

static int open_gpu(void **state) {
    (void)state;
    lh_error error;
    if (lh_cuda_library_open(EMULATED_LIBRARY, &gpu, &error) != LH_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    return gpu->create_stream(&stream, false);
}

static int close_gpu(void **state) {
    (void)state;
    return gpu->destroy_stream(stream);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats_of_any_number_of_rows),
        cmocka_unit_test(test_quantized_prompts),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_great_and_small_activations),
        cmocka_unit_test(test_what_stays_exact),
        cmocka_unit_test(test_a_recorded_product),
        cmocka_unit_test(test_no_cublas),
    };
    return cmocka_run_group_tests(tests, open_gpu, close_gpu);
}
