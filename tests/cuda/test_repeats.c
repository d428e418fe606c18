/* Decode steps that a GPU has kept, with others between them: of more rows and of fewer, of a
 * prompt, of longer contexts. Each gives the processors' bits, whatever was asked before it. */
#include "common/base/arithmetic.h"
#include "tests/support/tiny_llama.h"
#include "tests/worker/support/emulated_gpu.h"
#include "tests/worker/support/stage_chain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* More than the sums of experts take at once (LH_CUDA_EXPERT_SUM_ROWS). */
#define SEQUENCES 11u
#define STEPS     24u

static lh_cuda_device device;
static lh_error error;

static void must(lh_status status) {
    if (status != LH_OK)
        fail_msg("%s", error.message);
}

typedef struct two_chains {
    tiny_llama model;
    stage_chain *cpu, *gpu;
    uint32_t lengths[SEQUENCES];
    uint64_t random;
} two_chains;

/* So many rows more of each of the first `count` sequences, on both. */
static void advance(two_chains *chains, uint32_t count, uint32_t rows_each) {
    const uint32_t vocabulary = chains->model.vocabulary, rows = count * rows_each;
    const size_t bytes = (size_t)SEQUENCES * vocabulary * sizeof(float);
    float *expected = calloc(1, bytes), *given = calloc(1, bytes);
    uint32_t tokens[2 * SEQUENCES];
    lh_step_segment segments[SEQUENCES];
    assert_non_null(expected);
    assert_non_null(given);
    assert_true(rows <= 2 * SEQUENCES);
    for (uint32_t i = 0; i < rows; i++)
        tokens[i] = (uint32_t)(test_random(&chains->random) % 256);
    for (uint32_t i = 0; i < count; i++) {
        segments[i] = (lh_step_segment){.sequence = i,
                                        .first_position = chains->lengths[i],
                                        .rows = rows_each,
                                        .ask.draws = true,
                                        .ask.sampling = {.top_p = 1, .repetition_penalty = 1}};
        chains->lengths[i] += rows_each;
    }
    const lh_batch batch = {rows, tokens, count, segments, {1, {chains->model.width}}, false};
    must(stage_chain_keep_logits(chains->cpu, &batch, expected, &error));
    must(stage_chain_keep_logits(chains->gpu, &batch, given, &error));
    assert_memory_equal(expected, given, bytes);
    free(given);
    free(expected);
}

static stage_chain *open_chain(const tiny_llama *model, const uint8_t *file, size_t length,
                               const lh_device *on) {
    const stage_chain_options options = {.stages = 2,
                                         .column_shards = 1,
                                         .threads = 1,
                                         .rows_max = 2 * SEQUENCES,
                                         .context = model->context,
                                         .kv_bytes = 16u << 20,
                                         .device = on,
                                         .is_device_everywhere = on};
    stage_chain *chain;
    if (stage_chain_create(file, length, &options, &chain, &error) != LH_OK)
        fail_msg("%s", error.message);
    return chain;
}

/* An own order of steps for each architecture. */
static void check(const char *architecture, uint64_t seed) {
    two_chains chains = {.model = tiny_llama_of(architecture), .random = seed};
    size_t length;
    uint8_t *file = tiny_llama_bytes(&chains.model, &length);
    chains.cpu = open_chain(&chains.model, file, length, NULL);
    chains.gpu = open_chain(&chains.model, file, length, &device.device);
    const uint32_t steps = getenv("LONGHAUL_TEST_QUICK") ? STEPS / 2 : STEPS;
    for (uint32_t step = 0; step < steps; step++) {
        static const uint32_t counts[] = {1, 2, 5, SEQUENCES};
        const uint32_t count = counts[test_random(&chains.random) % 4];
        const bool is_prompt = test_random(&chains.random) % 4 == 0;
        if (is_prompt)
            advance(&chains, 1, 2 * SEQUENCES - 1);
        else
            advance(&chains, count, 1);
    }
    stage_chain_destroy(chains.gpu);
    stage_chain_destroy(chains.cpu);
    free(file);
}

static void test_steps_between_those_that_repeat(void **state) {
    (void)state;
    static const char *const architectures[] = {"qwen3moe", "deepseek2", "qwen2",
                                                "gemma3",   "qwen2moe",  "gpt-oss"};
    const size_t count = getenv("LONGHAUL_TEST_QUICK") ? 2 : 6;
    for (size_t i = 0; i < count; i++)
        check(architectures[i], i + 1);
}

static int open_gpu(void **state) {
    (void)state;
    device = emulated_gpu(EMULATED_LIBRARY);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps_between_those_that_repeat)};
    return cmocka_run_group_tests(tests, open_gpu, NULL);
}
