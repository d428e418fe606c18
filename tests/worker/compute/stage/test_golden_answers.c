/* What answers are made of, as it was: digests of what small models give over fixed tokens are kept
 * here, so that no compiler, flag, library or change of the code alters an answer unseen. Workers
 * of a chain, and the one that a lost worker's sequences go on with, may be of different builds.
 * Other tests compare instruction sets, splits and threads with the reference; this one says what
 * the reference gives. */
#include "common/base/numeric_contract.h"
#include "tests/support/tiny_llama.h"
#include "tests/worker/support/stage_chain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Of the context of a sequence; FAR ones are in more than two blocks of keys. */
#define NEAR      40u
#define FAR       530u
#define STEP_ROWS 13u

typedef struct golden_case {
    const char *architecture; /* NULL: llama */
    lh_dtype type;
    lh_activation_kind activations;
    lh_kv_type kv_type;
    lh_wire_type wire;
    uint32_t positions;
    uint64_t logits; /* of all positions' logits */
    uint64_t draws;  /* of what was drawn of them, with log probabilities */
} golden_case;

/* Where a change of the arithmetic is meant, the contract gets another number, and the test's
 * message has what is to stand here. */
_Static_assert(LH_NUMERIC_CONTRACT == 2u, "these digests are those of contract 2");
static const golden_case cases[] = {
    {NULL, LH_DTYPE_F32, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0xb8563c8896498308,
     0x6558a7609f1804a3},
    {NULL, LH_DTYPE_F16, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x9b9f6ababc62e736,
     0x5b24ea79b555656f},
    {NULL, LH_DTYPE_BF16, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0xf33f8ba16b0d8ab3,
     0x0b79c43008dcb3ed},
    {NULL, LH_DTYPE_Q8_0, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0xb924e79f343672e4,
     0x29dc6aaab0792e03},
    {NULL, LH_DTYPE_Q4_0, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x04d12af43564911c,
     0xeb158cd946d71074},
    {NULL, LH_DTYPE_Q4_1, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0xd34e1878870c2714,
     0x7b211ee53bf6fa8e},
    {NULL, LH_DTYPE_Q5_0, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0xe8fb04268bb8f259,
     0xf8659af61d833047},
    {NULL, LH_DTYPE_Q5_1, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0xc18b3edaab63ad85,
     0xb1a938d28608e010},
    {NULL, LH_DTYPE_Q2_K, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x54fffe107cb35478,
     0xd591bd083883564d},
    {NULL, LH_DTYPE_Q3_K, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0xeb574b915d547a48,
     0x6299ea58defc6b9d},
    {NULL, LH_DTYPE_Q4_K, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x6368991e13c6ed71,
     0x9ecb3eeb02434994},
    {NULL, LH_DTYPE_Q5_K, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x0bb63e39f15dd532,
     0xae4c023351d8b2d2},
    {NULL, LH_DTYPE_Q6_K, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x93e000197d5e1d66,
     0x057f73c4fbac9b55},
    {NULL, LH_DTYPE_IQ1_S, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x4b78bf066258d11e,
     0xaf1a97b874ad258a},
    {NULL, LH_DTYPE_IQ1_M, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x1c99a8cd98f64615,
     0xe7a10ab684b61695},
    {NULL, LH_DTYPE_IQ2_XXS, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0xdf0313c039b40898,
     0x5a025723cb539a03},
    {NULL, LH_DTYPE_IQ2_XS, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0xc8e5ba0144173f88,
     0x94c5b974aba20694},
    {NULL, LH_DTYPE_IQ2_S, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0xc8a0df171cb3e5f8,
     0x734d0f87d6df7354},
    {NULL, LH_DTYPE_IQ3_XXS, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0xd89b697decaca6dc,
     0x4a5ed2d1f3df9e37},
    {NULL, LH_DTYPE_IQ3_S, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x527508ed0f714d6c,
     0x7840061c1b412299},
    {NULL, LH_DTYPE_IQ4_NL, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0xb9104b54c0970c5b,
     0xc7ef6bcecb9e573f},
    {NULL, LH_DTYPE_IQ4_XS, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x47970002a712df77,
     0x46d493f9cfe5289f},
    {NULL, LH_DTYPE_TQ1_0, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0xd1cfe3a2b8838f14,
     0xed3ca86f80612755},
    {NULL, LH_DTYPE_TQ2_0, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x200e8b5ff564645a,
     0x87ee83cbd2a56daa},
    {NULL, LH_DTYPE_MXFP4, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0xf2514e5f2ceef2ba,
     0xe72156f97697f8f8},
    {"qwen2", LH_DTYPE_Q4_1, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0xea0d66eda03b8ab1,
     0xdf163c3dcd9e1742},
    {"qwen3", LH_DTYPE_Q4_1, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x4bb7c30e69a6280a,
     0x52c03e488a753757},
    {"gemma3", LH_DTYPE_Q4_1, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x605087b7517e0f75,
     0x4e650c78a0c59e9a},
    {"phi3", LH_DTYPE_Q4_1, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x9e7eeeb9b298e882,
     0xe05b1a1108c7dd2c},
    {"glm4", LH_DTYPE_Q4_1, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0xd090dd2463ad2c01,
     0x591a35183dbb1d5d},
    {"olmo2", LH_DTYPE_Q4_1, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x016da9271a10b98a,
     0x66e9d7de3acf43a8},
    {"exaone4", LH_DTYPE_Q4_1, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x62b5adbda31631fc,
     0x7b5693b9ab3432cf},
    {"qwen2moe", LH_DTYPE_Q4_1, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x0a81c2a22285cf8f,
     0x20139d4ea0326b88},
    {"qwen3moe", LH_DTYPE_Q4_1, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x672c9cdc1f8eee46,
     0xbcf0bf7c4de2fb17},
    {"olmoe", LH_DTYPE_Q4_1, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x76671c812b950e23,
     0xed7e748d299b22b7},
    {"granitemoe", LH_DTYPE_Q4_1, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR,
     0x0bc5ec1b9439d15f, 0xe219e51f6284bb1d},
    {"gpt-oss", LH_DTYPE_Q4_1, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0x2521b4207f1562e6,
     0xad0a923a7f4ecb9b},
    {"deepseek2", LH_DTYPE_Q4_1, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, NEAR, 0xb58f8510ca80e674,
     0x25632a2115c94383},
    {NULL, LH_DTYPE_Q8_0, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, FAR, 0xf957e3f4d48f1d7c,
     0x56ab03155d1cfafe},
    {"deepseek2", LH_DTYPE_Q8_0, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F32, FAR, 0x397860015d9a1fe6,
     0xb55b088e956d10a8},
    {NULL, LH_DTYPE_Q4_1, LH_ACTIVATION_Q16, LH_KV_F32, LH_WIRE_F32, NEAR, 0xa9791a9449500762,
     0xcaff79ef35ef4670},
    {NULL, LH_DTYPE_Q4_K, LH_ACTIVATION_Q16, LH_KV_F32, LH_WIRE_F32, NEAR, 0xabd632797d442a07,
     0xbd3cb3e71d95d6c4},
    {"qwen3moe", LH_DTYPE_Q8_0, LH_ACTIVATION_Q16, LH_KV_F32, LH_WIRE_F32, NEAR, 0xc2d51f49d9575fc7,
     0xa478ac55a474b4e2},
    {NULL, LH_DTYPE_Q4_1, LH_ACTIVATION_Q8, LH_KV_F16, LH_WIRE_F32, NEAR, 0xe427b3209e1a8eb6,
     0xb8baa6abd7330414},
    {NULL, LH_DTYPE_Q4_1, LH_ACTIVATION_Q8, LH_KV_Q8, LH_WIRE_F32, NEAR, 0xa1676279b8a47c02,
     0x4cce138eee5f203d},
    {NULL, LH_DTYPE_Q4_1, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_F16, NEAR, 0xc621e26ceb0effae,
     0xd455a4bf2aefa8d8},
    {NULL, LH_DTYPE_Q4_1, LH_ACTIVATION_Q8, LH_KV_F32, LH_WIRE_Q8, NEAR, 0xd88acc57ce27bfa4,
     0x823e6c46dc240653},
    {"deepseek2", LH_DTYPE_Q8_0, LH_ACTIVATION_Q8, LH_KV_Q8, LH_WIRE_Q8, NEAR, 0x4c77714db122ccaa,
     0x09fdd697785dd8fc},
};

typedef struct record {
    uint64_t logits, draws;
    uint32_t count;
} record;

/* FNV-1a. */
static void add(uint64_t *hash, const void *bytes, size_t length) {
    for (size_t i = 0; i < length; i++)
        *hash = (*hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
}

static void keep(void *context, uint64_t sequence, const lh_row_answer *result) {
    record *all = context;
    (void)sequence;
    add(&all->logits, &result->digest, sizeof result->digest);
    add(&all->draws, &result->token, sizeof result->token);
    add(&all->draws, &result->logprob, sizeof result->logprob);
    for (uint32_t i = 0; i < result->top_count; i++) {
        add(&all->draws, &result->top[i].token, sizeof result->top[i].token);
        add(&all->draws, &result->top[i].logprob, sizeof result->top[i].logprob);
    }
    all->count++;
}

/* Every third row greedily, every third from the whole vocabulary, every third from some of it. */
static lh_sampling sampling_at(uint32_t position) {
    lh_sampling sampling = {.top_p = 1,
                            .repetition_penalty = 1,
                            .seed = 7,
                            .counter = position + 1,
                            .want_logprob = true,
                            .want_digest = true,
                            .top_logprobs = 3};
    if (position % 3 > 0)
        sampling.temperature = 0.8f;
    if (position % 3 == 2) {
        sampling.top_k = 20;
        sampling.top_p = 0.9f;
        sampling.min_p = 0.02f;
    }
    return sampling;
}

static record run(const uint8_t *file, size_t length, const golden_case *one, const char *isa) {
    const stage_chain_options options = {.stages = 2,
                                         .column_shards = 3,
                                         .threads = 1,
                                         .rows_max = STEP_ROWS,
                                         .kv_bytes = 4u << 20,
                                         .isa = isa,
                                         .activations = one->activations,
                                         .kv_type = one->kv_type,
                                         .wire = one->wire};
    record all = {.logits = 0xcbf29ce484222325u, .draws = 0xcbf29ce484222325u};
    const stage_chain_events events = {.context = &all, .on_sample = keep};
    uint64_t random = 11;
    stage_chain *chain;
    lh_error error;
    if (stage_chain_create(file, length, &options, &chain, &error) != LH_OK)
        fail_msg("%s", error.message);
    for (uint32_t first = 0, rows; first < one->positions; first += rows) {
        uint32_t tokens[STEP_ROWS];
        lh_step_segment segments[STEP_ROWS];
        rows = one->positions - first < STEP_ROWS ? one->positions - first : STEP_ROWS;
        for (uint32_t i = 0; i < rows; i++) {
            tokens[i] = (uint32_t)(test_random(&random) % stage_chain_config(chain)->vocabulary);
            segments[i] = (lh_step_segment){.sequence = 1,
                                            .first_position = first + i,
                                            .rows = 1,
                                            .ask.draws = true,
                                            .ask.sampling = sampling_at(first + i)};
        }
        if (stage_chain_run(chain, &(lh_batch){rows, tokens, rows, segments, {0}, false}, &events,
                            &error) != LH_OK)
            fail_msg("%s", error.message);
    }
    stage_chain_destroy(chain);
    assert_int_equal(all.count, one->positions);
    return all;
}

static tiny_llama model_of(const golden_case *one) {
    tiny_llama model = one->architecture ? tiny_llama_of(one->architecture) : tiny_llama_default();
    model.type = one->type;
    model.context = 2 * FAR;
    /* Types of 256 weights a block have rows of so many at least. */
    if (lh_dtype_lookup(one->type)->block_elements == 256) {
        model.width = model.feed_forward_width = 256;
        model.heads = 16;
    }
    return model;
}

/* The reference is slow under a sanitizer, and the same source for all: some of its cases are
 * enough there. */
static bool is_left_out(size_t number, size_t isa) {
    return getenv("LONGHAUL_TEST_QUICK") && isa == 0 && number % 4 > 0;
}

static void test_answers_are_what_they_were(void **state) {
    (void)state;
    int changed = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const golden_case *one = &cases[i];
        const tiny_llama model = model_of(one);
        size_t length;
        uint8_t *file = tiny_llama_bytes(&model, &length);
        for (size_t isa = 0; lh_kernels_at(isa); isa++) {
            if (is_left_out(i, isa))
                continue;
            const record got = run(file, length, one, lh_kernels_at(isa)->name);
            if (got.logits != one->logits || got.draws != one->draws) {
                print_error("%s, %s, case %zu, %s: 0x%016llx, 0x%016llx\n",
                            one->architecture ? one->architecture : "llama",
                            lh_dtype_ggml_name(one->type), i, lh_kernels_at(isa)->name,
                            (unsigned long long)got.logits, (unsigned long long)got.draws);
                changed++;
            }
        }
        free(file);
    }
    if (changed > 0)
        fail_msg("%d answers are not what they were", changed);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_answers_are_what_they_were)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
