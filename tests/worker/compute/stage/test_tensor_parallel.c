/* A stage that several members compute together (gather.h): each logit is, bit for bit, that of one
 * machine, whoever has which heads, rows and columns. Members are threads that exchange in memory.
 */
#include "tests/support/tiny_llama.h"
#include "tests/worker/support/stage_chain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A long prompt goes through the layers in halves (halves.h): of a mixture, too, which has 7 or 8
 * experts for three that a row goes through. */
enum { PROMPT = 21, LONG_PROMPT = 197, DECODED = 2, SEQUENCES = 2 };
enum { DIGESTS = SEQUENCES * (DECODED + 1) };

static const lh_sampling greedy = {.top_p = 1, .repetition_penalty = 1, .want_digest = true};

typedef struct digests {
    uint32_t count;
    uint64_t values[DIGESTS];
} digests;

static void keep_digest(void *context, uint64_t sequence, const lh_row_answer *result) {
    digests *list = context;
    (void)sequence;
    assert_true(list->count < DIGESTS);
    list->values[list->count++] = result->digest;
}

static stage_chain *create(const tiny_llama *model, uint8_t **file,
                           const stage_chain_options *options) {
    stage_chain *chain;
    lh_error error;
    size_t length;
    *file = tiny_llama_bytes(model, &length);
    if (stage_chain_create(*file, length, options, &chain, &error) != LH_OK)
        fail_msg("%s", error.message);
    return chain;
}

static lh_status run_rows(stage_chain *chain, const lh_step_segment *segments, uint32_t count,
                          uint32_t seed, digests *list, lh_error *error) {
    uint32_t tokens[LONG_PROMPT];
    lh_batch batch = {.tokens = tokens, .segment_count = count, .segments = segments};
    for (uint32_t i = 0; i < count; i++)
        batch.rows += segments[i].rows;
    for (uint32_t i = 0; i < batch.rows; i++)
        tokens[i] = (seed + i) * 97 % stage_chain_config(chain)->vocabulary;
    const stage_chain_events events = {.context = list, .on_sample = keep_digest};
    return stage_chain_run(chain, &batch, &events, error);
}

static void run(stage_chain *chain, const lh_step_segment *segments, uint32_t count, uint32_t seed,
                digests *list) {
    lh_error error;
    if (run_rows(chain, segments, count, seed, list, &error) != LH_OK)
        fail_msg("%s", error.message);
}

/* Prompts in chunks, whose last row draws, and then rows of both sequences together. */
static digests digests_of(stage_chain *chain, uint32_t prompt, uint32_t chunk) {
    digests list = {0};
    for (uint64_t sequence = 0; sequence < SEQUENCES; sequence++) {
        for (uint32_t first = 0; first < prompt; first += chunk) {
            const uint32_t rows = prompt - first < chunk ? prompt - first : chunk;
            const lh_step_segment segment = {.sequence = sequence,
                                             .first_position = first,
                                             .rows = rows,
                                             .ask.draws = first + rows == prompt,
                                             .ask.sampling = greedy};
            run(chain, &segment, 1, (uint32_t)sequence * 7 + first, &list);
        }
    }
    for (uint32_t i = 0; i < DECODED; i++) {
        lh_step_segment segments[SEQUENCES];
        for (uint32_t sequence = 0; sequence < SEQUENCES; sequence++)
            segments[sequence] = (lh_step_segment){.sequence = sequence,
                                                   .first_position = prompt + i,
                                                   .rows = 1,
                                                   .ask.draws = true,
                                                   .ask.sampling = greedy};
        run(chain, segments, SEQUENCES, 1000 + i, &list);
    }
    assert_int_equal(list.count, DIGESTS);
    return list;
}

/* A prompt of as many rows as there may be in a step. */
static digests run_model(const tiny_llama *model, const stage_chain_options *options,
                         uint32_t chunk) {
    uint8_t *file;
    stage_chain *chain = create(model, &file, options);
    const digests list = digests_of(chain, options->rows_max, chunk);
    stage_chain_destroy(chain);
    free(file);
    return list;
}

static stage_chain_options plain_options(void) {
    return (stage_chain_options){.stages = 1,
                                 .threads = 1,
                                 .column_shards = 1,
                                 .rows_max = PROMPT,
                                 .context = 128,
                                 .kv_bytes = 2u << 20};
}

static stage_chain_options long_options(void) {
    stage_chain_options options = plain_options();
    options.rows_max = LONG_PROMPT;
    options.context = 256;
    return options;
}

static const struct {
    uint32_t members, weights[LH_MEMBERS_MAX], stages, column_shards, threads, chunk, long_chunk;
} cases[] = {
    {2, {0}, 1, 1, 2, PROMPT, LONG_PROMPT},
    {3, {5, 2, 4}, 2, 3, 1, 16, LONG_PROMPT - 5},
    {4, {1, 9, 1, 3}, 1, 1, 1, 5, LONG_PROMPT - 16},
    {5, {3, 1, 4, 1, 5}, 3, 4, 1, 7, LONG_PROMPT},
};
#define CASES (sizeof cases / sizeof cases[0])

/* Where a sanitizer makes programs slow: what is looked for is who touches what, not each bit. An
 * odd number, since calls for short and long prompts alternate. */
static bool is_left_out(void) {
    static unsigned calls;
    const char *quick = getenv("LONGHAUL_TEST_QUICK");
    const unsigned stride = !quick ? 1 : atoi(quick) > 3 ? 9 : 3;
    return calls++ % stride != 0;
}

static void check_cases(const tiny_llama *model, stage_chain_options options, size_t first,
                        size_t end) {
    if (is_left_out())
        return;
    const digests expected = run_model(model, &options, options.rows_max);
    const bool is_long = options.rows_max == LONG_PROMPT;
    for (size_t i = first; i < end; i++) {
        const uint32_t chunk = is_long ? cases[i].long_chunk : cases[i].chunk;
        options.members = cases[i].members;
        memcpy(options.weights, cases[i].weights, sizeof options.weights);
        options.stages = cases[i].stages;
        options.column_shards = cases[i].column_shards;
        options.threads = cases[i].threads;
        const digests got = run_model(model, &options, chunk);
        for (uint32_t j = 0; j < DIGESTS; j++)
            if (got.values[j] != expected.values[j])
                fail_msg("draw %u of %s differs with %u members, %u stages, chunks of %u", j,
                         model->architecture ? model->architecture : "llama", cases[i].members,
                         cases[i].stages, chunk);
    }
}

static void test_members_give_the_bits_of_one_machine(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_wide(tiny_llama_default());
    model.layers = 3;
    check_cases(&model, plain_options(), 0, CASES);
    check_cases(&model, long_options(), 0, CASES);
}

/* The head is a matrix of its own. */
static void test_of_every_kind_of_weights(void **state) {
    (void)state;
    static const lh_dtype types[] = {LH_DTYPE_Q4_0, LH_DTYPE_Q8_0, LH_DTYPE_F16, LH_DTYPE_F32};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        tiny_llama model = tiny_llama_wide(tiny_llama_default());
        model.layers = 3;
        model.width = 256;
        model.heads = 8;
        model.feed_forward_width = 512;
        model.type = types[i];
        model.head_tied = false;
        check_cases(&model, plain_options(), i % CASES, i % CASES + 1);
        check_cases(&model, long_options(), (i + 1) % CASES, (i + 1) % CASES + 1);
    }
}

static void test_of_every_kind_of_activations_and_caches(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_wide(tiny_llama_default());
    model.layers = 3;
    for (lh_kv_type type = LH_KV_F32; type <= LH_KV_Q8; type++) {
        stage_chain_options options = long_options();
        options.kv_type = type;
        options.activations = type == LH_KV_F16 ? LH_ACTIVATION_Q16 : LH_ACTIVATION_Q8;
        check_cases(&model, options, type, type + 1u);
    }
}

/* Biases, norms of heads, norms behind branches and none before them, windows, tensors of several
 * matrices, scales of branches. */
static void test_of_every_dense_architecture(void **state) {
    (void)state;
    static const char *const names[] = {"qwen2", "qwen3",   "gemma3", "phi3",
                                        "glm4",  "exaone4", "granite"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        tiny_llama model = tiny_llama_wide(tiny_llama_of(names[i]));
        model.layers = 3;
        check_cases(&model, plain_options(), i % CASES, i % CASES + 1);
        check_cases(&model, long_options(), (i + 1) % CASES, (i + 1) % CASES + 1);
    }
}

/* Norms of q and k over all heads of a row, of which each member has some: KV heads that two of
 * them have, windows, and before the rotation of a mixture's. */
static void test_of_norms_over_all_heads(void **state) {
    (void)state;
    static const char *const names[] = {"olmo2", "olmoe"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (size_t j = 0; j < 2 * CASES; j++) {
            tiny_llama model = tiny_llama_wide(tiny_llama_of(names[i]));
            model.layers = 3;
            model.expert_width = model.experts > 0 ? 224 : 0;
            model.kv_heads = j < CASES ? 4 : 12;
            check_cases(&model, plain_options(), j % CASES, j % CASES + 1);
        }
    }
}

/* Of experts each member has a part of every one; some have a shared expert besides, or biases, and
 * sinks of heads. */
static void test_of_mixtures(void **state) {
    (void)state;
    static const char *const names[] = {"qwen3moe", "qwen2moe", "granitemoe", "gpt-oss"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (size_t j = 0; j < CASES; j++) {
            tiny_llama model = tiny_llama_wide(tiny_llama_of(names[i]));
            model.layers = 3;
            model.expert_width = 224;
            model.shared_width = model.shared_width > 0 ? 192 : 0;
            check_cases(&model, plain_options(), j, j + 1);
            check_cases(&model, long_options(), j, j + 1);
        }
    }
}

/* Heads of 24 numbers, of which four fill a block: with queries of a rank of their own or not, and
 * both layouts of the matrix of keys and values. */
static void test_of_latent_attention(void **state) {
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        tiny_llama model = tiny_llama_wide(tiny_llama_of("deepseek2"));
        model.heads = 16;
        model.layers = 3;
        model.expert_width = 224;
        model.shared_width = model.shared_width > 0 ? 192 : 0;
        model.has_whole_kv = i % 2 == 1;
        model.query_rank = i < 2 ? 0 : 64;
        check_cases(&model, plain_options(), 0, 3);
        check_cases(&model, long_options(), 0, 3);
    }
}

static void add_to_digest(void *context, uint64_t sequence, const float *logits,
                          uint32_t vocabulary) {
    uint64_t *digest = context;
    (void)sequence;
    for (uint32_t i = 0; i < vocabulary; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        *digest = (*digest ^ bits) * 0x100000001b3u;
    }
}

static void ignore_score(void *context, uint32_t segment, const lh_token_score *score) {
    (void)context, (void)segment, (void)score;
}

static void ignore_sample(void *context, uint64_t sequence, const lh_row_answer *result) {
    (void)context, (void)sequence, (void)result;
}

/* One step of two sequences, of whose rows each one is put out, or only the last ones. */
static uint64_t logits_of_a_step(const tiny_llama *model, const stage_chain_options *options,
                                 uint32_t first_rows, bool are_scored) {
    uint8_t *file;
    stage_chain *chain = create(model, &file, options);
    uint32_t tokens[LONG_PROMPT];
    uint64_t digest = 0;
    lh_error error;
    lh_step_segment segments[SEQUENCES];
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        const uint32_t rows = i == 0 ? first_rows : LONG_PROMPT - first_rows;
        segments[i] = (lh_step_segment){.sequence = i,
                                        .rows = rows,
                                        .ask.scoring = {.rows = are_scored ? rows : 0},
                                        .ask.draws = !are_scored,
                                        .ask.sampling = greedy};
    }
    for (uint32_t i = 0; i < LONG_PROMPT; i++)
        tokens[i] = i * 89 % stage_chain_config(chain)->vocabulary;
    const lh_batch batch = {
        .rows = LONG_PROMPT, .tokens = tokens, .segment_count = SEQUENCES, .segments = segments};
    const stage_chain_events events = {.context = &digest,
                                       .on_logits = add_to_digest,
                                       .on_sample = ignore_sample,
                                       .on_score = ignore_score};
    if (stage_chain_run(chain, &batch, &events, &error) != LH_OK)
        fail_msg("%s", error.message);
    stage_chain_destroy(chain);
    free(file);
    return digest;
}

/* The halves meet in the midst of a sequence, or between two; at the end all rows go on in halves,
 * or two rows go on together. */
static void test_of_steps_of_several_sequences(void **state) {
    (void)state;
    static const uint32_t first_rows[] = {1, 50, 112, 130};
    tiny_llama model = tiny_llama_wide(tiny_llama_default());
    model.layers = 3;
    for (size_t i = 0; i < sizeof first_rows / sizeof first_rows[0]; i++) {
        for (int are_scored = 0; are_scored < 2; are_scored++) {
            stage_chain_options options = long_options();
            const uint64_t expected = logits_of_a_step(&model, &options, first_rows[i], are_scored);
            options.members = 3;
            options.stages = 2;
            options.column_shards = 2;
            assert_true(logits_of_a_step(&model, &options, first_rows[i], are_scored) == expected);
        }
    }
}

/* ---- Failures ---- */

/* A member fails at each gather of a step, one after the other: all members say so, have taken its
 * rows back, and do the step again. */
static void check_losses(const tiny_llama *model, const stage_chain_options *options,
                         uint32_t gathers) {
    stage_chain_options several = *options;
    const digests expected = run_model(model, options, options->rows_max);
    several.members = 3;
    uint8_t *file;
    stage_chain *chain = create(model, &file, &several);
    const lh_step_segment segment = {
        .sequence = 9, .rows = options->rows_max, .ask.draws = true, .ask.sampling = greedy};
    for (uint32_t number = 0; number < gathers; number++) {
        digests none = {0};
        lh_error error;
        member_exchange_lose(stage_chain_exchange(chain), number % 3, number);
        assert_int_equal(run_rows(chain, &segment, 1, 0, &none, &error), LH_ERR_CLOSED);
        assert_int_equal(none.count, 0);
    }
    member_exchange_lose(stage_chain_exchange(chain), 0, gathers); /* there is none */
    const digests got = digests_of(chain, options->rows_max, 16);
    assert_memory_equal(&got, &expected, sizeof got);
    stage_chain_destroy(chain);
    free(file);
}

/* In halves each layer gathers twice as often, but for the last one, which goes on with the row
 * that draws. */
static void test_a_member_lost_ends_the_step_on_all(void **state) {
    (void)state;
    const tiny_llama model = tiny_llama_wide(tiny_llama_default());
    const stage_chain_options options = plain_options(), halves = long_options();
    check_losses(&model, &options, 4 * model.layers + 1);
    check_losses(&model, &halves, 8 * (model.layers - 1) + 4 + 1);
}

/* Of norms over whole rows q and k are gathered, too; the sums behind branches whole. */
static void test_a_member_lost_before_norms_of_rows(void **state) {
    (void)state;
    const tiny_llama model = tiny_llama_wide(tiny_llama_of("olmo2"));
    const stage_chain_options options = plain_options(), longer = long_options();
    check_losses(&model, &options, 6 * model.layers + 1);
    check_losses(&model, &longer, 6 * model.layers + 1);
}

static void check_refused(const tiny_llama *model, uint32_t members, lh_status status,
                          const char *words) {
    stage_chain_options options = plain_options();
    stage_chain *chain;
    lh_error error;
    size_t length;
    uint8_t *file = tiny_llama_bytes(model, &length);
    options.members = members;
    assert_int_equal(stage_chain_create(file, length, &options, &chain, &error), status);
    assert_non_null(strstr(error.message, words));
    free(file);
}

static void test_what_cannot_be_divided_is_refused(void **state) {
    (void)state;
    const tiny_llama small = tiny_llama_default(),
                     narrow = tiny_llama_wide(tiny_llama_of("qwen3moe"));
    check_refused(&small, 3, LH_ERR_LIMIT, "4 heads, and they can be divided in 2");
    check_refused(&narrow, 4, LH_ERR_LIMIT, "96 rows of an expert, and they can be divided in 3");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_give_the_bits_of_one_machine),
        cmocka_unit_test(test_of_every_kind_of_weights),
        cmocka_unit_test(test_of_every_kind_of_activations_and_caches),
        cmocka_unit_test(test_of_every_dense_architecture),
        cmocka_unit_test(test_of_norms_over_all_heads),
        cmocka_unit_test(test_of_mixtures),
        cmocka_unit_test(test_of_latent_attention),
        cmocka_unit_test(test_of_steps_of_several_sequences),
        cmocka_unit_test(test_a_member_lost_ends_the_step_on_all),
        cmocka_unit_test(test_a_member_lost_before_norms_of_rows),
        cmocka_unit_test(test_what_cannot_be_divided_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
