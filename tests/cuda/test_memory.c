/* A GPU whose memory does not suffice: a stage that is too large for it is an error that tells what
 * was wanted and what is free; one that has been created takes what was counted for it, and finds
 * no step for which it lacks room. The GPU is an emulated one, of 4 GiB, or of as much as
 * LONGHAUL_EMULATED_BYTES says. */
#include "common/base/arithmetic.h"
#include "common/protocol/step.h"
#include "tests/support/tiny_llama.h"
#include "tests/worker/support/emulated_gpu.h"
#include "tests/worker/support/mapped_weights.h"
#include "tests/worker/support/stage_chain.h"
#include "worker/compute/stage/sampler.h"
#include "worker/compute/stage/stage_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WIDTH 128u
#define ROWS  4u

static lh_cuda_device device;
static lh_error error;

static void must(lh_status status) {
    if (status != LH_OK)
        fail_msg("%s", error.message);
}

static lh_status create(size_t kv_bytes, stage_chain **chain) {
    tiny_llama model = tiny_llama_default();
    model.width = WIDTH;
    size_t length;
    uint8_t *file = tiny_llama_bytes(&model, &length);
    const stage_chain_options options = {.stages = 2,
                                         .column_shards = 1,
                                         .threads = 1,
                                         .rows_max = ROWS,
                                         .kv_bytes = kv_bytes,
                                         .device = &device.device,
                                         .device_stage = 0};
    lh_status status = stage_chain_create(file, length, &options, chain, &error);
    free(file);
    return status;
}

static void check_words(const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!strstr(error.message, words[i]))
            fail_msg("\"%s\" does not say \"%s\"", error.message, words[i]);
}

static void test_a_stage_that_is_too_large(void **state) {
    (void)state;
    static const char *const words[] = {"KV cache: out of memory", "layers 0-", "GiB (weights ",
                                        "KV cache 5.00", "and 4.00 GiB are free"};
    stage_chain *chain = NULL;
    assert_int_equal(create((size_t)5 << 30, &chain), LH_ERR_NO_MEMORY);
    check_words(words, sizeof words / sizeof words[0]);
}

/* Not even its queue. */
static void test_a_gpu_that_is_full(void **state) {
    (void)state;
    static const char *const words[] = {"GPU 0: ", "layers 0-", "and 0.00 GiB are free"};
    stage_chain *chain = NULL;
    setenv("LONGHAUL_EMULATED_BYTES", "1", 1);
    assert_int_equal(create(1u << 20, &chain), LH_ERR_NO_MEMORY);
    unsetenv("LONGHAUL_EMULATED_BYTES");
    check_words(words, sizeof words / sizeof words[0]);
}

/* ---- What steps take ---- */

static int64_t free_bytes(void) {
    return device.device.free_bytes(&device.device);
}

/* The first of two stages: the last one's scratch is also for draws, which is more here. */
static stage_chain_options chain_on(const tiny_llama *model, const lh_device *on) {
    return (stage_chain_options){.stages = 2,
                                 .column_shards = 1,
                                 .threads = 1,
                                 .rows_max = 2 * ROWS,
                                 .context = model->context,
                                 .kv_bytes = 4u << 20,
                                 .device = on};
}

static stage_chain *open_chain(const tiny_llama *model, const uint8_t *file, size_t length,
                               const lh_device *on) {
    const stage_chain_options options = chain_on(model, on);
    stage_chain *chain;
    if (stage_chain_create(file, length, &options, &chain, &error) != LH_OK)
        fail_msg("%s", error.message);
    return chain;
}

/* A prompt of each of ROWS sequences to the end of the context but one, and a step of all of them:
 * logits[ROWS][vocabulary] of that. */
static void run_to_the_end(stage_chain *chain, const tiny_llama *model, float *logits) {
    uint32_t tokens[2 * ROWS + 1];
    lh_step_segment segments[ROWS];
    for (uint32_t i = 0; i < 2 * ROWS + 1; i++)
        tokens[i] = 7 * i + 1;
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t done = 0, rows; done < model->context - 1; done += rows) {
            rows = lh_min_u32(2 * ROWS, model->context - 1 - done);
            const lh_step_segment prompt = {.sequence = i, .first_position = done, .rows = rows};
            const lh_batch batch = {rows, tokens + i % 2, 1, &prompt, {1, {model->width}}, false};
            must(stage_chain_keep_logits(chain, &batch, logits, &error));
        }
        segments[i] = (lh_step_segment){.sequence = i,
                                        .first_position = model->context - 1,
                                        .rows = 1,
                                        .ask.draws = true,
                                        .ask.sampling = {.top_p = 1, .repetition_penalty = 1}};
    }
    const lh_batch batch = {ROWS, tokens, ROWS, segments, {1, {model->width}}, false};
    must(stage_chain_keep_logits(chain, &batch, logits, &error));
}

/* With room for one row of the longest context, and none left beside it, rows go one after the
 * other, and no step takes more: to the end of the context, with the processors' bits. */
static void check_a_full_gpu(const tiny_llama *model) {
    size_t length;
    uint8_t *file = tiny_llama_bytes(model, &length);
    const size_t logits_bytes = ROWS * model->vocabulary * sizeof(float);
    float *expected = malloc(logits_bytes), *given = malloc(logits_bytes);
    assert_non_null(expected);
    assert_non_null(given);
    stage_chain *chain = open_chain(model, file, length, NULL);
    run_to_the_end(chain, model, expected);
    stage_chain_destroy(chain);
    const size_t usual = device.scratch_bytes;
    device.scratch_bytes = 1;
    chain = open_chain(model, file, length, &device.device);
    setenv("LONGHAUL_EMULATED_BYTES", "1", 1);
    run_to_the_end(chain, model, given);
    unsetenv("LONGHAUL_EMULATED_BYTES");
    device.scratch_bytes = usual;
    assert_memory_equal(expected, given, logits_bytes);
    stage_chain_destroy(chain);
    free(given);
    free(expected);
    free(file);
}

static void test_no_step_takes_more(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_default();
    model.context = 70; /* more than a page */
    check_a_full_gpu(&model);
    model = tiny_llama_of("deepseek2");
    model.context = 70;
    check_a_full_gpu(&model);
}

/* A stage that is created takes about what was counted for it beforehand. */
static void check_count(const tiny_llama *model, uint32_t rows, uint32_t context) {
    size_t length;
    uint8_t *file = tiny_llama_bytes(model, &length);
    lh_gguf *gguf;
    lh_model_config config;
    lh_thread_pool *pool;
    lh_stage_memory memory;
    lh_stage *stage;
    assert_int_equal(lh_gguf_parse(file, length, length, &gguf, NULL), LH_OK);
    assert_int_equal(lh_model_config_read(gguf, &config, NULL), LH_OK);
    assert_int_equal(lh_thread_pool_create(1, &pool, NULL), LH_OK);
    const lh_weight_source source = mapped_weights(file);
    const lh_stage_options options = {.range = {0, config.layers},
                                      .kv_bytes = 4u << 20,
                                      .rows_max = rows,
                                      .steps_max = 2,
                                      .context = context,
                                      .kernels = lh_kernels_at(0),
                                      .pool = pool,
                                      .device = &device.device};
    assert_int_equal(lh_stage_memory_count(gguf, &config, &options, 1, &memory, &error), LH_OK);
    const int64_t before = free_bytes();
    if (lh_stage_create(gguf, &config, &source, &options, NULL, NULL, &stage, &error) != LH_OK)
        fail_msg("%s", error.message);
    const double taken = (double)(before - free_bytes()),
                 counted = (double)lh_stage_memory_sum(&memory);
    if (counted < 0.9 * taken || counted > 1.1 * taken)
        fail_msg("%s, %u rows, context %u: %.0f bytes counted, %.0f taken", model->architecture,
                 rows, context, counted, taken);
    lh_stage_destroy(stage);
    assert_int_equal(free_bytes(), before);
    lh_thread_pool_destroy(pool);
    lh_gguf_destroy(gguf);
    free(file);
}

static void test_a_stage_takes_what_was_counted(void **state) {
    (void)state;
    static const char *const architectures[] = {"qwen2", "qwen3moe", "gpt-oss", "deepseek2"};
    const size_t stride = getenv("LONGHAUL_TEST_QUICK") ? 3 : 1;
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i += stride) {
        tiny_llama model = tiny_llama_of(architectures[i]);
        model.context = 1u << 16;
        check_count(&model, 16, 0);
        check_count(&model, 256, 4096);
    }
}

/* ---- Lists of draws ---- */

#define VOCABULARY (1u << 17)

static lh_sampling sampling_with(const lh_token_count *counts, uint32_t row) {
    return (lh_sampling){.temperature = 1,
                         .top_p = 1,
                         .seed = row,
                         .repetition_penalty = 1.3f,
                         .presence_penalty = 0.5f,
                         .count_count = row == 1 ? 3 : LH_TOKEN_COUNTS_MAX,
                         .counts = counts};
}

/* What lh_sample draws, though the lists of two rows have no room together. */
static void test_lists_that_have_no_room_together(void **state) {
    (void)state;
    const lh_model_config config = {
        .vocabulary = VOCABULARY, .heads = 1, .head_dim = 32, .context = 64};
    const lh_device_work work = {
        .config = &config, .rows = ROWS, .context = config.context, .drawn_rows = ROWS};
    lh_thread_pool *pool;
    assert_int_equal(lh_thread_pool_create(1, &pool, NULL), LH_OK);
    lh_compute gpu = lh_cpu_compute(lh_kernels_at(0), pool, LH_ACTIVATION_Q8);
    assert_int_equal(lh_device_open(&device.device, &work, &gpu, &error), LH_OK);
    const size_t row_bytes = VOCABULARY * sizeof(float);
    lh_token_count *counts = malloc(LH_TOKEN_COUNTS_MAX * sizeof *counts);
    float *logits = aligned_alloc(64, ROWS * row_bytes),
          *there = gpu.ops->allocate(&gpu, ROWS * row_bytes);
    uint32_t *tokens = gpu.ops->allocate_host(&gpu, ROWS * sizeof *tokens);
    void *scratch = malloc(lh_sampler_scratch_bytes(VOCABULARY));
    uint64_t random = 3;
    lh_sampling samplings[ROWS];
    lh_drawn_row rows[ROWS];
    for (uint32_t i = 0; i < LH_TOKEN_COUNTS_MAX; i++)
        counts[i] = (lh_token_count){i, i % 2, i % 3};
    for (size_t i = 0; i < (size_t)ROWS * VOCABULARY; i++)
        logits[i] = test_random_float(&random, 8);
    for (uint32_t i = 0; i < ROWS; i++) {
        samplings[i] = sampling_with(counts, i);
        rows[i] = (lh_drawn_row){&samplings[i], NULL};
    }
    gpu.ops->put(&gpu, there, logits, ROWS * row_bytes);
    gpu.ops->draw(&gpu, there, VOCABULARY, VOCABULARY, rows, ROWS, tokens);
    assert_int_equal(gpu.ops->settle(&gpu, &error), LH_OK);
    for (uint32_t i = 0; i < ROWS; i++) {
        lh_row_answer result = {0};
        assert_int_equal(lh_sample(gpu.kernels, logits + (size_t)i * VOCABULARY, VOCABULARY,
                                   &samplings[i], NULL, scratch, &result, &error),
                         LH_OK);
        assert_int_equal(tokens[i], result.token);
    }
    free(scratch);
    gpu.ops->release_host(&gpu, tokens);
    gpu.ops->release(&gpu, there);
    free(logits);
    free(counts);
    device.device.close(gpu.queue);
    lh_thread_pool_destroy(pool);
}

static int open_gpu(void **state) {
    (void)state;
    device = emulated_gpu(EMULATED_LIBRARY);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stage_that_is_too_large),
        cmocka_unit_test(test_a_gpu_that_is_full),
        cmocka_unit_test(test_no_step_takes_more),
        cmocka_unit_test(test_a_stage_takes_what_was_counted),
        cmocka_unit_test(test_lists_that_have_no_room_together),
    };
    return cmocka_run_group_tests(tests, open_gpu, NULL);
}
