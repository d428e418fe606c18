/* What the last stage of a chain draws under masks: the very results, log probabilities and all, of
 * the masked distribution, wherever the model is split; and nothing where the mask is not there. */
#include "common/protocol/mask_code.h"
#include "common/protocol/step_parts.h"
#include "tests/support/tiny_llama.h"
#include "tests/worker/support/same_answer.h"
#include "tests/worker/support/stage_chain.h"
#include "worker/compute/stage/sampler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

#define VOCABULARY 288u
#define WORDS      ((VOCABULARY + 63) / 64)
#define ROWS       24u
#define MASKS      4u

static uint64_t masks[MASKS][WORDS];
static uint32_t tokens[ROWS];
static lh_step_segment segments[ROWS];
static const lh_token_bias biases[] = {{7, 3}, {100, -2.5f}, {270, 1.5f}};
static const lh_token_count counts[] = {{7, 2, 0}, {30, 0, 3}, {150, 1, 1}};

/* One token, few, half of them, all but a few. */
static void make_masks(uint64_t *seed) {
    masks[0][4] = 1; /* token 256 */
    for (uint32_t token = 0; token < VOCABULARY; token++) {
        uint64_t dice = test_random(seed), bit = (uint64_t)1 << token % 64;
        masks[1][token / 64] |= dice % 40 == 0 ? bit : 0;
        masks[2][token / 64] |= dice / 40 % 2 ? bit : 0;
        masks[3][token / 64] |= dice / 80 % 30 ? bit : 0;
    }
}

/* Every way of drawing with every mask, and with none: of a sequence each, all in one step. */
static void make_segments(uint64_t *seed) {
    for (uint32_t i = 0; i < ROWS; i++) {
        lh_sampling sampling = {.temperature = i % 3 == 0 ? 0 : 0.9f,
                                .top_k = i % 4 == 1 ? 5 : 0,
                                .top_p = i % 4 == 2 ? 0.7f : 1,
                                .min_p = i % 4 == 3 ? 0.05f : 0,
                                .repetition_penalty = i % 2 ? 1.3f : 1,
                                .presence_penalty = i % 2 ? 0.4f : 0,
                                .frequency_penalty = i % 2 ? 0.2f : 0,
                                .seed = test_random(seed),
                                .counter = 1,
                                .want_logprob = true,
                                .want_digest = true,
                                .top_logprobs = i % 6,
                                .mask = i % (MASKS + 1)};
        if (i % 2) {
            sampling.counts = counts;
            sampling.count_count = sizeof counts / sizeof *counts;
            sampling.biases = biases;
            sampling.bias_count = sizeof biases / sizeof *biases;
        }
        tokens[i] = (uint32_t)(test_random(seed) % VOCABULARY);
        segments[i] = (lh_step_segment){
            .sequence = i + 1, .rows = 1, .ask.draws = true, .ask.sampling = sampling};
    }
}

static int set_up(void **state) {
    (void)state;
    uint64_t seed = 25;
    make_masks(&seed);
    make_segments(&seed);
    return 0;
}

/* ---- A chain that keeps the masks ---- */

static stage_chain *create(const uint8_t *file, size_t length, const stage_chain_options *options) {
    stage_chain *chain;
    lh_error error;
    if (stage_chain_create(file, length, options, &chain, &error) != LH_OK)
        fail_msg("%s", error.message);
    return chain;
}

/* All stages are told, as on a ring. */
static void tell_masks(stage_chain *chain, uint32_t stages, const lh_step_masks *told) {
    lh_error error;
    for (uint32_t i = 0; i < stages; i++)
        if (lh_stage_take_masks(stage_chain_stage(chain, i), told, &error))
            fail_msg("%s", error.message);
}

static void bring_masks(stage_chain *chain, uint32_t stages) {
    static uint8_t codes[MASKS][VOCABULARY];
    lh_step_mask list[MASKS];
    assert_true(lh_mask_code_bytes_max(VOCABULARY) <= sizeof codes[0]);
    for (uint32_t i = 0; i < MASKS; i++) {
        size_t length = lh_mask_encode(masks[i], VOCABULARY, codes[i]);
        list[i] = (lh_step_mask){i + 1, VOCABULARY, (uint32_t)length, codes[i]};
    }
    tell_masks(chain, stages, &(lh_step_masks){.count = MASKS, .list = list});
}

typedef struct drawn {
    float logits[ROWS][VOCABULARY];
    lh_row_answer results[ROWS];
    lh_token_logprob tops[ROWS][LH_TOP_LOGPROBS_MAX];
    uint32_t count;
} drawn;

static void keep_logits(void *context, uint64_t sequence, const float *logits,
                        uint32_t vocabulary) {
    drawn *of = context;
    assert_int_equal(vocabulary, VOCABULARY);
    memcpy(of->logits[sequence - 1], logits, sizeof of->logits[0]);
}

static void keep_result(void *context, uint64_t sequence, const lh_row_answer *result) {
    drawn *of = context;
    of->results[sequence - 1] = *result;
    of->results[sequence - 1].top = of->tops[sequence - 1];
    if (result->top_count > 0)
        memcpy(of->tops[sequence - 1], result->top, result->top_count * sizeof *result->top);
    of->count++;
}

static void draw(stage_chain *chain, drawn *of) {
    const stage_chain_events events = {
        .context = of, .on_sample = keep_result, .on_logits = keep_logits};
    lh_error error;
    memset(of, 0, sizeof *of);
    if (stage_chain_run(chain, &(lh_batch){ROWS, tokens, ROWS, segments, {0}, false}, &events,
                        &error) != LH_OK)
        fail_msg("%s", error.message);
    assert_int_equal(of->count, ROWS);
    for (uint32_t i = 0; i < ROWS; i++)
        stage_chain_free(chain, i + 1);
}

/* ---- The judge ---- */

/* The scalar reference's draw from logits in which what is forbidden cannot come, without a mask;
 * the digest is of the logits as they were. */
static lh_row_answer masked_draw(const float *logits, lh_sampling sampling) {
    static float values[VOCABULARY] __attribute__((aligned(64)));
    static _Alignas(64) uint8_t scratch[1 << 16];
    const uint64_t *mask = sampling.mask ? masks[sampling.mask - 1] : NULL;
    static lh_token_logprob tops[LH_TOP_LOGPROBS_MAX];
    lh_row_answer result = {.top = tops};
    assert_true(lh_sampler_scratch_bytes(VOCABULARY) <= sizeof scratch);
    for (uint32_t i = 0; i < VOCABULARY; i++)
        values[i] = !mask || mask[i / 64] >> i % 64 & 1 ? logits[i] : -INFINITY;
    sampling.mask = 0;
    sampling.want_digest = false;
    assert_int_equal(
        lh_sample(lh_kernels_at(0), values, VOCABULARY, &sampling, NULL, scratch, &result, NULL),
        LH_OK);
    result.digest = XXH3_64bits(logits, VOCABULARY * sizeof *logits);
    return result;
}

static void check(const drawn *of, const drawn *first) {
    for (uint32_t i = 0; i < ROWS; i++) {
        const lh_row_answer expected = masked_draw(of->logits[i], segments[i].ask.sampling);
        assert_true(same_draw(&of->results[i], &expected));
        assert_true(same_draw(&of->results[i], &first->results[i]));
    }
}

static void the_draw_is_of_the_masked_distribution_on_any_split(void **state) {
    (void)state;
    static drawn first, other;
    static const struct {
        uint32_t stages, column_shards, threads;
        shard_order order;
    } cases[] = {{1, 1, 1, SHARDS_ASCENDING},
                 {1, 1, 3, SHARDS_ASCENDING},
                 {2, 4, 1, SHARDS_DESCENDING},
                 {3, 4, 2, SHARDS_CUT_AND_MIXED}};
    tiny_llama model = tiny_llama_default();
    model.layers = 3;
    size_t length;
    uint8_t *file = tiny_llama_bytes(&model, &length);
    for (size_t isa = 0; lh_kernels_at(isa); isa++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const stage_chain_options options = {.stages = cases[i].stages,
                                                 .column_shards = cases[i].column_shards,
                                                 .threads = cases[i].threads,
                                                 .rows_max = 64,
                                                 .kv_bytes = 4u << 20,
                                                 .isa = lh_kernels_at(isa)->name,
                                                 .order = cases[i].order};
            stage_chain *chain = create(file, length, &options);
            bring_masks(chain, cases[i].stages);
            draw(chain, isa + i == 0 ? &first : &other);
            check(isa + i == 0 ? &first : &other, &first);
            stage_chain_destroy(chain);
        }
    free(file);
}

/* The rows of masks that were dropped, and of all in a new epoch, draw nothing; the others do as
 * ever. */
static void without_its_mask_a_row_draws_nothing(void **state) {
    (void)state;
    static drawn whole, partly;
    const uint64_t dropped = 2;
    const stage_chain_options options = {
        .stages = 2, .threads = 1, .rows_max = 64, .kv_bytes = 4u << 20};
    tiny_llama model = tiny_llama_default();
    size_t length;
    uint8_t *file = tiny_llama_bytes(&model, &length);
    stage_chain *chain = create(file, length, &options);
    bring_masks(chain, 2);
    draw(chain, &whole);
    for (int epoch = 0; epoch < 2; epoch++) {
        if (epoch == 0)
            tell_masks(chain, 2, &(lh_step_masks){.drop_count = 1, .drops = &dropped});
        else
            lh_stage_drop_masks(stage_chain_stage(chain, 1));
        draw(chain, &partly);
        for (uint32_t i = 0; i < ROWS; i++) {
            uint64_t mask = segments[i].ask.sampling.mask;
            bool lacks = epoch == 0 ? mask == dropped : mask != 0;
            const lh_row_answer none = {.token = LH_STEP_NO_TOKEN};
            assert_true(same_draw(&partly.results[i], lacks ? &none : &whole.results[i]));
        }
    }
    stage_chain_destroy(chain);
    free(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_draw_is_of_the_masked_distribution_on_any_split),
        cmocka_unit_test(without_its_mask_a_row_draws_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
