/* Shards go up on a stream of their own, beside what computes: what is asked behind one has it, and
 * what was cleared or left behind by a step that was given up does not reach the next one's. They
 * come down packed for the wire, by another stream and a third.
 * Streams of the emulated GPU go on in an order of chance as far as events allow. */
#include "common/protocol/wire_type.h"
#include "tests/support/tiny_llama.h"
#include "tests/worker/support/emulated_gpu.h"
#include "tests/worker/support/stage_chain.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* More than a decode step has, which cannot be cancelled in its middle. */
#define ROWS  80u
#define WIDTH 128u

static lh_cuda_device device;
static lh_error error;

static void must(lh_status status) {
    if (status != LH_OK)
        fail_msg("%s", error.message);
}

static float *random_floats(uint64_t *random, size_t count) {
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = test_random_float(random, 1);
    return values;
}

/* A shard into memory that has just been cleared, then one beside it: both are in the copy. */
static void test_what_is_asked_behind_a_shard_has_it(void **state) {
    (void)state;
    enum { HALF = WIDTH / 2, BYTES = ROWS * WIDTH * 4 };
    lh_thread_pool *pool;
    must(lh_thread_pool_create(1, &pool, &error));
    lh_compute gpu = lh_cpu_compute(lh_kernels_at(0), pool, LH_ACTIVATION_Q8);
    const lh_device_work work = {.rows = ROWS};
    must(lh_device_open(&device.device, &work, &gpu, &error));
    uint64_t random = 5;
    for (int i = 0; i < 40; i++) {
        float *values = random_floats(&random, ROWS * WIDTH), *halves[2];
        float *h = gpu.ops->allocate(&gpu, BYTES), *copy = gpu.ops->allocate(&gpu, BYTES),
              *host = gpu.ops->allocate_host(&gpu, BYTES);
        for (int half = 0; half < 2; half++) {
            halves[half] = malloc(BYTES / 2);
            for (uint32_t row = 0; row < ROWS; row++)
                memcpy(halves[half] + row * HALF, values + row * WIDTH + half * HALF, HALF * 4);
            gpu.ops->put_rows(&gpu, h + half * HALF, WIDTH * 4, halves[half], HALF * 4, ROWS);
        }
        gpu.ops->copy(&gpu, copy, h, BYTES);
        const lh_outgoing outgoing = {copy, ROWS, WIDTH, {0, WIDTH}, host, LH_WIRE_F32, NULL};
        gpu.ops->send(&gpu, 0, &outgoing);
        assert_memory_equal(gpu.ops->sent(&gpu, 0, &outgoing).values, values, BYTES);
        gpu.ops->release(&gpu, h);
        gpu.ops->release(&gpu, copy);
        gpu.ops->release_host(&gpu, host);
        free(halves[0]);
        free(halves[1]);
        free(values);
    }
    device.device.close(gpu.queue);
    lh_thread_pool_destroy(pool);
}

/* ---- Down again, packed ---- */

/* Column shards of h, all on their way at once, of every wire type: those of one of them that holds
 * what cannot be packed are refused. */
static void send_packed(const lh_compute *gpu, lh_wire_type wire, const float *values,
                        uint32_t refused) {
    enum { SHARDS = 4, COLUMNS = WIDTH / SHARDS, BYTES = ROWS * WIDTH * 4 };
    float *h = gpu->ops->allocate(gpu, BYTES), *packing = gpu->ops->allocate(gpu, BYTES),
          *host = gpu->ops->allocate_host(gpu, BYTES), shard[ROWS * COLUMNS];
    uint8_t expected[sizeof shard];
    gpu->ops->put(gpu, h, values, BYTES);
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < SHARDS; i++) {
            const lh_span columns = {i * COLUMNS, (i + 1) * COLUMNS};
            const size_t before = (size_t)ROWS * columns.begin;
            const lh_outgoing outgoing = {
                h, ROWS, WIDTH, columns, host + before, wire, packing + before};
            if (pass == 0) {
                gpu->ops->send(gpu, i, &outgoing);
                continue;
            }
            const lh_sent sent = gpu->ops->sent(gpu, i, &outgoing);
            assert_null(sent.values);
            assert_int_equal(sent.is_refused, i == refused);
            for (uint32_t row = 0; row < ROWS; row++)
                memcpy(shard + row * COLUMNS, values + row * WIDTH + columns.begin, COLUMNS * 4);
            assert_int_equal(lh_wire_encode(wire, shard, ROWS, COLUMNS, expected), i != refused);
            if (i != refused)
                assert_memory_equal(sent.packed, expected, lh_wire_bytes(wire, ROWS, COLUMNS));
        }
    must(gpu->ops->settle(gpu, &error));
    gpu->ops->release(gpu, h);
    gpu->ops->release(gpu, packing);
    gpu->ops->release_host(gpu, host);
}

static void test_shards_come_down_packed(void **state) {
    (void)state;
    lh_thread_pool *pool;
    must(lh_thread_pool_create(1, &pool, &error));
    lh_compute gpu = lh_cpu_compute(lh_kernels_at(0), pool, LH_ACTIVATION_Q8);
    const lh_device_work work = {.rows = ROWS};
    must(lh_device_open(&device.device, &work, &gpu, &error));
    uint64_t random = 6;
    for (uint32_t i = 0; i < 20; i++) {
        float *values = random_floats(&random, ROWS * WIDTH);
        const uint32_t refused = i % 5; /* 4: none */
        if (refused < 4)
            values[7 * WIDTH + refused * (WIDTH / 4) + i] = i % 2 ? NAN : -INFINITY;
        send_packed(&gpu, i % 2 ? LH_WIRE_F16 : LH_WIRE_Q8, values, refused);
        free(values);
    }
    device.device.close(gpu.queue);
    lh_thread_pool_destroy(pool);
}

/* ---- Steps that are given up ---- */

typedef struct result {
    float *values;   /* [ROWS][WIDTH] */
    int layers_left; /* before it is cancelled; < 0: it is not */
} result;

static void keep_shard(void *context, const lh_stage_shard *shard) {
    result *r = context;
    for (uint32_t row = 0; row < shard->rows; row++)
        memcpy(r->values + row * WIDTH + shard->first_column, shard->values + row * shard->columns,
               shard->columns * sizeof(float));
}

static bool is_cancelled(void *context) {
    result *r = context;
    return r->layers_left >= 0 && r->layers_left-- == 0;
}

static lh_stage_step *begin(lh_stage *stage, uint64_t sequence) {
    const lh_step_segment segment = {.sequence = sequence, .rows = ROWS};
    static const uint32_t tokens[ROWS];
    const lh_batch batch = {ROWS, tokens, 1, &segment, {2, {64, 128}}, false};
    lh_stage_step *step;
    must(lh_stage_begin(stage, &batch, &step, &error));
    return step;
}

static void accept(lh_stage_step *step, const float *values, uint32_t first, uint32_t columns) {
    must(lh_stage_accept(step, &(lh_stage_shard){0, ROWS, first, columns, values, NULL}, &error));
}

/* A whole step of random shards of 32 columns; cancelled after so many layers, where that is not
 * negative. */
static float *run(lh_stage *stage, uint64_t seed, int layers_left) {
    uint64_t random = seed;
    lh_stage_step *step = begin(stage, 1);
    result r = {malloc(ROWS * WIDTH * sizeof(float)), layers_left};
    const lh_stage_output output = {
        .context = &r, .on_shard = keep_shard, .is_cancelled = is_cancelled};
    for (uint32_t first = 0; first < WIDTH; first += 32) {
        float *values = random_floats(&random, ROWS * 32);
        accept(step, values, first, 32);
        free(values);
    }
    assert_int_equal(lh_stage_finish(step, &output, &error),
                     layers_left < 0 ? LH_OK : LH_ERR_CANCELLED);
    lh_stage_end(step);
    lh_stage_truncate(stage, 1, 0);
    return r.values;
}

/* Some shards, and then no more. */
static void give_up(lh_stage *stage, uint64_t seed) {
    uint64_t random = seed;
    float *values = random_floats(&random, ROWS * 64);
    lh_stage_step *step = begin(stage, 1);
    accept(step, values, 0, 64);
    lh_stage_end(step);
    free(values);
}

static stage_chain *create(const void *file, size_t length, bool is_on_gpu) {
    const stage_chain_options options = {.stages = 3,
                                         .column_shards = 1,
                                         .threads = 1,
                                         .rows_max = ROWS,
                                         .kv_bytes = 4u << 20,
                                         .device = is_on_gpu ? &device.device : NULL,
                                         .device_stage = 1};
    stage_chain *chain;
    must(stage_chain_create(file, length, &options, &chain, &error));
    return chain;
}

static void test_what_was_given_up_does_not_reach_the_next_step(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_default();
    model.layers = 6;
    model.width = WIDTH;
    size_t length;
    uint8_t *file = tiny_llama_bytes(&model, &length);
    stage_chain *host = create(file, length, false), *gpu = create(file, length, true);
    lh_stage *expecting = stage_chain_stage(host, 1), *stage = stage_chain_stage(gpu, 1);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        float *expected = run(expecting, seed, -1);
        if (seed % 2)
            free(run(stage, 100 + seed, 1));
        else
            give_up(stage, 200 + seed);
        float *values = run(stage, seed, -1);
        assert_memory_equal(values, expected, ROWS * WIDTH * sizeof(float));
        free(values);
        free(expected);
    }
    stage_chain_destroy(gpu);
    stage_chain_destroy(host);
    free(file);
}

static int open_gpu(void **state) {
    (void)state;
    device = emulated_gpu(EMULATED_LIBRARY);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_asked_behind_a_shard_has_it),
        cmocka_unit_test(test_shards_come_down_packed),
        cmocka_unit_test(test_what_was_given_up_does_not_reach_the_next_step),
    };
    return cmocka_run_group_tests(tests, open_gpu, NULL);
}
