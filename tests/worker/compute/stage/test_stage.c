/* The contract "one answer, bit for bit": logits do not depend on where the model is split, on
 * shards, chunks, threads, the instruction set, or what else is in the batch. And they are the
 * right ones: those of a plain model in double. */
#include "tests/support/tiny_llama.h"
#include "tests/worker/support/plain_llama.h"
#include "tests/worker/support/stage_chain.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TOKENS 45u

static const lh_sampling greedy = {.top_p = 1, .repetition_penalty = 1, .want_digest = true};

/* Where a sanitizer makes programs slow each instruction set has some of the cases, and together
 * they have them all. */
static size_t stride(void) {
    return getenv("LONGHAUL_TEST_QUICK") ? 3 : 1;
}

/* TSan, for which that is more than 3, looks for who touches what, not for bits: that is told by
 * one instruction set, the fastest, and by the last case, which has the most threads. */
static bool looks_for_races(void) {
    const char *quick = getenv("LONGHAUL_TEST_QUICK");
    return quick && atoi(quick) > 3;
}

static size_t first_set(void) {
    size_t last = 0;
    while (lh_kernels_at(last + 1))
        last++;
    return looks_for_races() ? last : 0;
}

static size_t first_case(size_t isa, size_t cases) {
    return looks_for_races() ? cases - 1 : isa % stride();
}

static stage_chain_options plain_options(void) {
    return (stage_chain_options){.stages = 1,
                                 .threads = 1,
                                 .rows_max = 64,
                                 .kv_bytes = 4u << 20,
                                 .isa = lh_kernels_at(first_set())->name};
}

static void make_tokens(uint32_t *tokens, uint32_t count, uint32_t vocabulary, uint64_t seed) {
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (uint32_t)(test_random(&seed) % vocabulary);
}

typedef struct digests {
    uint32_t count;
    uint64_t values[TOKENS];
} digests;

static void keep_digest(void *context, uint64_t sequence, const lh_row_answer *result) {
    digests *list = context;
    (void)sequence;
    assert_true(list->count < TOKENS);
    list->values[list->count++] = result->digest;
}

static stage_chain *create(const void *file, size_t length, const stage_chain_options *options) {
    stage_chain *chain;
    lh_error error;
    if (stage_chain_create(file, length, options, &chain, &error) != LH_OK)
        fail_msg("%s", error.message);
    return chain;
}

static void run(stage_chain *chain, const lh_batch *batch, const stage_chain_events *events) {
    lh_error error;
    if (stage_chain_run(chain, batch, events, &error) != LH_OK)
        fail_msg("%s", error.message);
}

/* The digest of every position of one sequence, each row a segment of its own, in chunks. */
static digests digests_of(stage_chain *chain, uint32_t chunk_rows) {
    uint32_t tokens[TOKENS];
    digests list = {0};
    const stage_chain_events events = {.context = &list, .on_sample = keep_digest};
    make_tokens(tokens, TOKENS, stage_chain_config(chain)->vocabulary, 7);
    for (uint32_t first = 0; first < TOKENS; first += chunk_rows) {
        lh_step_segment segments[TOKENS];
        uint32_t rows = TOKENS - first < chunk_rows ? TOKENS - first : chunk_rows;
        for (uint32_t i = 0; i < rows; i++) {
            segments[i] = (lh_step_segment){.sequence = 1,
                                            .first_position = first + i,
                                            .rows = 1,
                                            .ask.draws = true,
                                            .ask.sampling = greedy};
        }
        run(chain, &(lh_batch){rows, tokens + first, rows, segments, {0}, false}, &events);
    }
    assert_int_equal(list.count, TOKENS);
    return list;
}

static void check_same(const void *file, size_t length, const stage_chain_options *options,
                       uint32_t chunk_rows, const digests *expected) {
    stage_chain *chain = create(file, length, options);
    digests got = digests_of(chain, chunk_rows);
    for (uint32_t i = 0; i < TOKENS; i++) {
        if (got.values[i] != expected->values[i]) {
            fail_msg("position %u differs: %u stages, %u column shards, %u threads, chunks of %u, "
                     "order %d, %s",
                     i, options->stages, options->column_shards, options->threads, chunk_rows,
                     (int)options->order, options->isa);
        }
    }
    stage_chain_destroy(chain);
}

/* One thing varied at a time, then several together, on every instruction set. */
static void check_model_with(const tiny_llama *model, lh_activation_kind activations) {
    size_t length;
    uint8_t *file = tiny_llama_bytes(model, &length);
    stage_chain_options options = plain_options();
    options.activations = activations;
    stage_chain *chain = create(file, length, &options);
    const digests expected = digests_of(chain, TOKENS);
    stage_chain_destroy(chain);
    for (uint32_t i = 0; i < TOKENS; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_true(expected.values[i] != expected.values[j]);
    static const struct {
        uint32_t stages, column_shards, threads, chunk;
        shard_order order;
    } cases[] = {
        {1, 1, 1, 1, SHARDS_ASCENDING},      {1, 1, 2, 7, SHARDS_ASCENDING},
        {2, 1, 1, TOKENS, SHARDS_ASCENDING}, {2, 4, 1, TOKENS, SHARDS_ASCENDING},
        {3, 4, 2, 7, SHARDS_DESCENDING},     {3, 1, 2, 1, SHARDS_ASCENDING},
        {3, 4, 3, 7, SHARDS_CUT_AND_MIXED},
    };
    const size_t count = sizeof cases / sizeof cases[0];
    for (size_t isa = first_set(); lh_kernels_at(isa); isa++) {
        for (size_t i = first_case(isa, count); i < count; i += stride()) {
            options.isa = lh_kernels_at(isa)->name;
            options.stages = cases[i].stages;
            options.column_shards = cases[i].column_shards;
            options.threads = cases[i].threads;
            options.order = cases[i].order;
            check_same(file, length, &options, cases[i].chunk, &expected);
        }
    }
    free(file);
}

static void check_model(const tiny_llama *model) {
    check_model_with(model, LH_ACTIVATION_Q8);
}

static void check_type(lh_dtype type, lh_dtype embedding_type) {
    tiny_llama model = tiny_llama_default();
    model.layers = 3;
    model.width = 96;
    model.head_tied = type == embedding_type;
    model.type = type;
    model.embedding_type = embedding_type;
    check_model(&model);
}

static void check_architecture(const char *architecture, uint32_t layers) {
    tiny_llama model = tiny_llama_of(architecture);
    model.layers = layers;
    model.width = 96;
    check_model(&model);
}

static void test_same_bits_qwen2(void **state) {
    (void)state;
    check_architecture("qwen2", 3);
}

static void test_same_bits_qwen3(void **state) {
    (void)state;
    check_architecture("qwen3", 3);
}

/* Stages begin with layers of either kind. */
static void test_same_bits_gemma3(void **state) {
    (void)state;
    check_architecture("gemma3", 4);
}

/* Tensors of several matrices, whose rows begin inside a tile; no norm before the products. */
static void test_same_bits_phi3(void **state) {
    (void)state;
    check_architecture("phi3", 3);
}

static void test_same_bits_olmo2(void **state) {
    (void)state;
    check_architecture("olmo2", 3);
}

/* Rows of one step go to many experts, and those of chunks to other groups. */
static void test_same_bits_of_mixtures(void **state) {
    (void)state;
    static const char *const names[] = {"qwen2moe", "qwen3moe", "olmoe", "granitemoe", "gpt-oss"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        check_architecture(names[i], 3);
    tiny_llama model = tiny_llama_of("qwen3moe");
    model.layers = 3;
    check_model_with(&model, LH_ACTIVATION_Q16);
}

/* Both forms of its matrix of keys and values, with a dense layer before the mixtures. */
static void test_same_bits_of_latent_attention(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_of("deepseek2");
    model.layers = 3;
    check_model(&model);
    model.has_whole_kv = true;
    model.query_rank = 0;
    check_model_with(&model, LH_ACTIVATION_Q16);
}

/* Mixtral: a llama whose experts are as wide as the metadata say of all. */
static void test_same_bits_of_a_llama_with_experts(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_default();
    model.layers = 3;
    model.experts = 5;
    model.experts_used = 2;
    model.expert_width = 128;
    model.type = LH_DTYPE_F32;
    check_model(&model);
}

static void test_same_bits_f32(void **state) {
    (void)state;
    check_type(LH_DTYPE_F32, LH_DTYPE_F32);
}

static void test_same_bits_f16(void **state) {
    (void)state;
    check_type(LH_DTYPE_F16, LH_DTYPE_F32);
}

static void test_same_bits_bf16(void **state) {
    (void)state;
    check_type(LH_DTYPE_BF16, LH_DTYPE_Q8_0);
}

static void test_same_bits_q8_0(void **state) {
    (void)state;
    check_type(LH_DTYPE_Q8_0, LH_DTYPE_Q8_0);
}

static void test_same_bits_q4_0(void **state) {
    (void)state;
    check_type(LH_DTYPE_Q4_0, LH_DTYPE_F16);
}

static void test_same_bits_q4_1(void **state) {
    (void)state;
    check_type(LH_DTYPE_Q4_1, LH_DTYPE_Q4_1);
}

/* A chunk that draws from its last row alone computes less, and the same. */
static void test_last_rows_of_chunks(void **state) {
    (void)state;
    enum { CHUNK = 19 };
    tiny_llama model = tiny_llama_default();
    size_t length;
    uint32_t tokens[TOKENS];
    uint8_t *file = tiny_llama_bytes(&model, &length);
    stage_chain_options options = plain_options();
    stage_chain *chain = create(file, length, &options);
    const digests every_row = digests_of(chain, CHUNK);
    make_tokens(tokens, TOKENS, model.vocabulary, 7);
    digests list = {0};
    for (uint32_t first = 0; first + CHUNK <= TOKENS; first += CHUNK) {
        const lh_step_segment segment = {.sequence = 2,
                                         .first_position = first,
                                         .rows = CHUNK,
                                         .ask.draws = first > 0,
                                         .ask.sampling = greedy};
        run(chain, &(lh_batch){CHUNK, tokens + first, 1, &segment, {0}, false},
            &(stage_chain_events){.context = &list, .on_sample = keep_digest});
    }
    assert_int_equal(list.count, 1);
    assert_true(list.values[0] == every_row.values[2 * CHUNK - 1]);
    stage_chain_destroy(chain);
    free(file);
}

/* ---- Far rows ---- */

/* Rows on both sides of the third block's first position, computed few at a time: threads share
 * their attention, by blocks of keys. */
enum { NEAR = 2 * LH_ATTENTION_BLOCK - 4, FAR_ROWS = 12, CHUNK_ROWS = 64 };

static digests digests_of_far_rows(stage_chain *chain, uint32_t rows_at_once) {
    uint32_t tokens[NEAR + FAR_ROWS];
    digests list = {0};
    const stage_chain_events events = {.context = &list, .on_sample = keep_digest};
    make_tokens(tokens, NEAR + FAR_ROWS, stage_chain_config(chain)->vocabulary, 9);
    for (uint32_t first = 0, rows; first < NEAR; first += rows) {
        rows = NEAR - first < CHUNK_ROWS ? NEAR - first : CHUNK_ROWS;
        const lh_step_segment segment = {.sequence = 1, .first_position = first, .rows = rows};
        run(chain, &(lh_batch){rows, tokens + first, 1, &segment, {0}, false}, &events);
    }
    for (uint32_t first = NEAR; first < NEAR + FAR_ROWS; first += rows_at_once) {
        lh_step_segment segments[FAR_ROWS];
        for (uint32_t i = 0; i < rows_at_once; i++) {
            segments[i] = (lh_step_segment){.sequence = 1,
                                            .first_position = first + i,
                                            .rows = 1,
                                            .ask.draws = true,
                                            .ask.sampling = greedy};
        }
        run(chain, &(lh_batch){rows_at_once, tokens + first, rows_at_once, segments, {0}, false},
            &events);
    }
    assert_int_equal(list.count, FAR_ROWS);
    return list;
}

static void check_far_rows(tiny_llama model) {
    static const uint32_t threads[] = {1, 2, 5}, rows_at_once[] = {1, 3, FAR_ROWS};
    size_t length;
    model.context = 1024;
    uint8_t *file = tiny_llama_bytes(&model, &length);
    stage_chain_options options = plain_options();
    stage_chain *chain = create(file, length, &options);
    const digests expected = digests_of_far_rows(chain, FAR_ROWS);
    stage_chain_destroy(chain);
    const size_t count = sizeof threads / sizeof threads[0];
    for (size_t isa = first_set(); lh_kernels_at(isa); isa++)
        for (size_t i = first_case(isa, count); i < count; i += stride()) {
            options.isa = lh_kernels_at(isa)->name;
            options.threads = threads[i];
            chain = create(file, length, &options);
            const digests got = digests_of_far_rows(chain, rows_at_once[i]);
            for (uint32_t row = 0; row < FAR_ROWS; row++)
                if (got.values[row] != expected.values[row])
                    fail_msg("row %u differs: %u threads, %s, %s", row, threads[i], options.isa,
                             model.architecture ? model.architecture : "llama");
            stage_chain_destroy(chain);
        }
    free(file);
}

static void test_threads_share_far_rows(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_of("gemma3");
    check_far_rows(tiny_llama_default());
    check_far_rows(tiny_llama_of("gpt-oss"));
    model.window = LH_ATTENTION_BLOCK + 2; /* these rows see three blocks, or two */
    check_far_rows(model);
    model = tiny_llama_of("deepseek2");
    model.heads = model.kv_heads = 20; /* more than a part takes together */
    check_far_rows(model);
}

/* ---- Batches ---- */

enum { SEQUENCES = 4, STEPS = 6 };

typedef struct by_sequence {
    uint32_t counts[SEQUENCES];
    uint64_t values[SEQUENCES][STEPS];
} by_sequence;

static void keep_by_sequence(void *context, uint64_t sequence, const lh_row_answer *result) {
    by_sequence *list = context;
    assert_true(sequence < SEQUENCES && list->counts[sequence] < STEPS);
    list->values[sequence][list->counts[sequence]++] = result->digest;
}

/* Rows of one sequence in one step; uneven, and more than a call of the attention kernel takes. */
static uint32_t rows_of(uint32_t sequence, uint32_t step) {
    return step == 0 ? 1 + 9 * sequence : 1 + (sequence + step) % 3;
}

static lh_step_segment segment_of(uint32_t sequence, uint32_t step) {
    lh_step_segment segment = {.sequence = sequence,
                               .rows = rows_of(sequence, step),
                               .ask.draws = true,
                               .ask.sampling = greedy};
    for (uint32_t i = 0; i < step; i++)
        segment.first_position += rows_of(sequence, i);
    return segment;
}

static void check_batch(tiny_llama model) {
    uint32_t tokens[SEQUENCES][64];
    size_t length;
    uint8_t *file = tiny_llama_bytes(&model, &length);
    stage_chain_options options = plain_options();
    options.stages = 2;
    options.threads = 2;
    options.isa = NULL;
    stage_chain *together = create(file, length, &options), *alone = create(file, length, &options);
    by_sequence expected = {0}, got = {0};
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        make_tokens(tokens[s], 64, model.vocabulary, s);
        for (uint32_t step = 0; step < STEPS; step++) {
            lh_step_segment segment = segment_of(s, step);
            const lh_batch batch = {
                segment.rows, tokens[s] + segment.first_position, 1, &segment, {0}, false};
            run(alone, &batch,
                &(stage_chain_events){.context = &expected, .on_sample = keep_by_sequence});
        }
    }
    for (uint32_t step = 0; step < STEPS; step++) {
        lh_step_segment segments[SEQUENCES];
        uint32_t rows = 0, batch_tokens[64];
        for (uint32_t i = 0; i < SEQUENCES; i++) {
            segments[i] = segment_of((i + step) % SEQUENCES, step);
            memcpy(batch_tokens + rows, tokens[segments[i].sequence] + segments[i].first_position,
                   segments[i].rows * sizeof(uint32_t));
            rows += segments[i].rows;
        }
        run(together, &(lh_batch){rows, batch_tokens, SEQUENCES, segments, {0}, false},
            &(stage_chain_events){.context = &got, .on_sample = keep_by_sequence});
    }
    assert_memory_equal(&expected, &got, sizeof got);
    stage_chain_destroy(together);
    stage_chain_destroy(alone);
    free(file);
}

static void test_batch_beside_alone(void **state) {
    (void)state;
    check_batch(tiny_llama_default());
}

static void test_batch_of_a_mixture(void **state) {
    (void)state;
    check_batch(tiny_llama_of("qwen2moe"));
}

static void test_batch_of_latent_attention(void **state) {
    (void)state;
    check_batch(tiny_llama_of("deepseek2"));
}

/* ---- Forks ---- */

enum { SHARED = 2 * LH_KV_PAGE_POSITIONS, FORK_TOKENS = SHARED + 20 };

/* The digests of a sequence's last rows, its first ones in chunks or shared with another
 * sequence. */
static digests digests_after(stage_chain *chain, uint64_t sequence, const uint32_t *tokens,
                             uint32_t chunk_rows, const lh_step_segment *fork) {
    digests list = {0};
    const stage_chain_events events = {.context = &list, .on_sample = keep_digest};
    for (uint32_t first = fork ? SHARED : 0, rows; first < FORK_TOKENS; first += rows) {
        rows = first >= SHARED ? 1 : SHARED - first < chunk_rows ? SHARED - first : chunk_rows;
        const lh_step_segment segment = {.sequence = sequence,
                                         .first_position = first,
                                         .rows = rows,
                                         .forks = fork && first == SHARED,
                                         .source = fork ? fork->source : 0,
                                         .ask.draws = first >= SHARED,
                                         .ask.sampling = greedy};
        run(chain, &(lh_batch){rows, tokens + first, 1, &segment, {0}, false}, &events);
    }
    return list;
}

/* A sequence that shares another one's pages gives what it would have given alone, and so does the
 * other one; also when its source is shortened and goes. */
static void test_a_fork_gives_the_same_bits(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_default();
    size_t length;
    uint8_t *file = tiny_llama_bytes(&model, &length);
    stage_chain_options options = plain_options();
    options.stages = 2;
    options.isa = NULL;
    stage_chain *chain = create(file, length, &options);
    uint32_t one[FORK_TOKENS], two[FORK_TOKENS];
    make_tokens(one, FORK_TOKENS, model.vocabulary, 1);
    make_tokens(two, FORK_TOKENS, model.vocabulary, 2);
    memcpy(two, one, SHARED * sizeof two[0]);
    const digests alone = digests_after(chain, 1, one, 64, NULL);
    const digests other = digests_after(chain, 2, two, 13, NULL);
    assert_true(alone.values[0] != other.values[0]);
    const digests forked = digests_after(chain, 3, two, 0, &(lh_step_segment){.source = 1});
    assert_memory_equal(&forked, &other, sizeof forked);
    for (uint32_t i = 0; i < 2; i++) {
        lh_stage_truncate(stage_chain_stage(chain, i), 1, SHARED);
        lh_stage_truncate(stage_chain_stage(chain, i), 2, 0);
    }
    const digests again = digests_after(chain, 4, one, 0, &(lh_step_segment){.source = 1});
    assert_memory_equal(&again, &alone, sizeof again);
    stage_chain_free(chain, 1);
    stage_chain_free(chain, 4);
    const digests last = digests_after(chain, 5, one, 0, &(lh_step_segment){.source = 3});
    assert_memory_equal(&last, &alone, sizeof last);
    stage_chain_destroy(chain);
    free(file);
}

/* ---- Scores ---- */

#define TOPS 3u

typedef struct scores {
    uint32_t count, drawn;
    lh_token_score list[TOKENS];
    lh_row_answer last;
} scores;

static void keep_score(void *context, uint32_t segment, const lh_token_score *score) {
    scores *all = context;
    assert_int_equal(segment, 0);
    assert_true(all->count < TOKENS && all->drawn == 0);
    lh_token_score *to = &all->list[all->count++];
    to->logprob = score->logprob;
    to->rank = score->rank;
    to->top_count = score->top_count;
    memcpy(to->top, score->top, score->top_count * sizeof score->top[0]);
}

static void keep_sample(void *context, uint64_t sequence, const lh_row_answer *result) {
    scores *all = context;
    (void)sequence;
    all->last = *result;
    all->drawn++;
}

static void ignore_sample(void *context, uint64_t sequence, const lh_row_answer *result) {
    (void)context;
    (void)sequence;
    (void)result;
}

/* Of a sequence's rows from `from` on but the last one, which draws; in chunks. */
static scores scores_of(stage_chain *chain, uint32_t chunk_rows, uint32_t from) {
    uint32_t tokens[TOKENS];
    scores all;
    memset(&all, 0, sizeof all);
    const stage_chain_events events = {
        .context = &all, .on_sample = keep_sample, .on_score = keep_score};
    make_tokens(tokens, TOKENS, stage_chain_config(chain)->vocabulary, 7);
    for (uint32_t first = 0, rows; first < TOKENS; first += rows) {
        rows = TOKENS - first < chunk_rows ? TOKENS - first : chunk_rows;
        bool is_last = first + rows == TOKENS;
        uint32_t skipped = from > first ? from - first : 0;
        lh_step_segment segment = {.sequence = 1,
                                   .first_position = first,
                                   .rows = rows,
                                   .ask.draws = is_last,
                                   .ask.sampling = greedy};
        if (skipped < rows - is_last)
            segment.ask.scoring =
                (lh_row_scoring){skipped, rows - is_last - skipped, TOPS,
                                 is_last ? LH_STEP_NO_TOKEN : tokens[first + rows]};
        run(chain, &(lh_batch){rows, tokens + first, 1, &segment, {0}, false}, &events);
    }
    assert_true(all.count == TOKENS - 1 - from && all.drawn == 1);
    stage_chain_free(chain, 1);
    return all;
}

typedef struct kept_draw {
    lh_row_answer answer;
    lh_token_logprob top[LH_TOP_LOGPROBS_MAX];
} kept_draw;

/* Of each row by itself, drawn as every token is. */
static void keep_draw(void *context, uint64_t sequence, const lh_row_answer *result) {
    kept_draw *to = context;
    (void)sequence;
    to->answer = *result;
    memcpy(to->top, result->top, result->top_count * sizeof *result->top);
}

static void check_against_draws(stage_chain *chain, const scores *all) {
    uint32_t tokens[TOKENS];
    make_tokens(tokens, TOKENS, stage_chain_config(chain)->vocabulary, 7);
    for (uint32_t i = 0; i < TOKENS; i++) {
        kept_draw drawn;
        const stage_chain_events events = {.context = &drawn, .on_sample = keep_draw};
        lh_sampling sampling = greedy;
        sampling.want_logprob = true;
        sampling.top_logprobs = LH_TOP_LOGPROBS_MAX;
        const lh_step_segment segment = {.sequence = 1,
                                         .first_position = i,
                                         .rows = 1,
                                         .ask.draws = true,
                                         .ask.sampling = sampling};
        run(chain, &(lh_batch){1, tokens + i, 1, &segment, {0}, false}, &events);
        if (i + 1 == TOKENS) {
            assert_int_equal(drawn.answer.token, all->last.token);
            assert_true(drawn.answer.digest == all->last.digest);
            break;
        }
        const lh_token_score *score = &all->list[i];
        assert_int_equal(score->top_count, TOPS);
        assert_memory_equal(score->top, drawn.top, TOPS * sizeof score->top[0]);
        assert_true((score->rank == 1) == (score->logprob == score->top[0].logprob));
        for (uint32_t k = 0; k < drawn.answer.top_count; k++)
            if (drawn.top[k].token == tokens[i + 1])
                assert_true(score->logprob == drawn.top[k].logprob && score->rank <= k + 1);
    }
    stage_chain_free(chain, 1);
}

static void test_scores_do_not_depend_on_the_split(void **state) {
    (void)state;
    static const struct {
        uint32_t stages, column_shards, threads, chunk;
    } cases[] = {{1, 1, 2, 7}, {2, 4, 1, TOKENS}, {3, 4, 2, 16}, {3, 1, 1, 1}};
    tiny_llama model = tiny_llama_default();
    model.layers = 3;
    size_t length;
    uint8_t *file = tiny_llama_bytes(&model, &length);
    stage_chain_options options = plain_options();
    stage_chain *chain = create(file, length, &options);
    const scores expected = scores_of(chain, TOKENS, 0);
    check_against_draws(chain, &expected);
    const scores rest = scores_of(chain, 16, 20);
    assert_memory_equal(rest.list, expected.list + 20, rest.count * sizeof rest.list[0]);
    stage_chain_destroy(chain);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        options.isa = NULL;
        options.stages = cases[i].stages;
        options.column_shards = cases[i].column_shards;
        options.threads = cases[i].threads;
        chain = create(file, length, &options);
        const scores got = scores_of(chain, cases[i].chunk, 0);
        assert_memory_equal(got.list, expected.list, sizeof got.list);
        stage_chain_destroy(chain);
    }
    free(file);
}

/* ---- Pooling ---- */

#define WIDTH_MAX 512u

typedef struct pooled {
    int64_t sums[3][WIDTH_MAX]; /* of each of a step's segments */
    uint32_t width, calls;
} pooled;

static void add_pooled(void *context, uint32_t segment, const int64_t *sums, uint32_t width) {
    pooled *all = context;
    assert_true(segment < 3 && width <= WIDTH_MAX);
    all->width = width;
    all->calls++;
    for (uint32_t c = 0; c < width; c++)
        all->sums[segment][c] += sums[c];
}

/* Of a sequence's rows from `from` on, in chunks. */
static pooled pooled_of(stage_chain *chain, uint32_t chunk_rows, uint32_t from) {
    uint32_t tokens[TOKENS];
    pooled all;
    memset(&all, 0, sizeof all);
    const stage_chain_events events = {.context = &all, .on_pooled = add_pooled};
    make_tokens(tokens, TOKENS, stage_chain_config(chain)->vocabulary, 7);
    for (uint32_t first = 0, rows; first < TOKENS; first += rows) {
        rows = TOKENS - first < chunk_rows ? TOKENS - first : chunk_rows;
        uint32_t skipped = from > first ? from - first : 0;
        lh_step_segment segment = {.sequence = 1, .first_position = first, .rows = rows};
        if (skipped < rows)
            segment.ask.pooling = (lh_row_pooling){skipped, rows - skipped};
        run(chain, &(lh_batch){rows, tokens + first, 1, &segment, {0}, false}, &events);
    }
    stage_chain_free(chain, 1);
    return all;
}

/* In a step with one that draws and another one that is pooled. */
static void check_company(stage_chain *chain, const pooled *alone) {
    uint32_t tokens[TOKENS + 9];
    pooled all;
    memset(&all, 0, sizeof all);
    const stage_chain_events events = {
        .context = &all, .on_sample = ignore_sample, .on_pooled = add_pooled};
    make_tokens(tokens, TOKENS, stage_chain_config(chain)->vocabulary, 7);
    make_tokens(tokens + TOKENS, 9, stage_chain_config(chain)->vocabulary, 8);
    const lh_step_segment segments[] = {
        {.sequence = 1, .rows = TOKENS, .ask.pooling = {0, TOKENS}},
        {.sequence = 2, .rows = 4, .ask.draws = true, .ask.sampling = greedy},
        {.sequence = 3, .rows = 5, .ask.pooling = {1, 2}}};
    run(chain, &(lh_batch){TOKENS + 9, tokens, 3, segments, {0}, false}, &events);
    assert_int_equal(all.calls, 2);
    assert_memory_equal(all.sums[0], alone->sums[0], sizeof all.sums[0]);
    assert_true(memcmp(all.sums[2], all.sums[0], sizeof all.sums[0]) != 0);
    for (uint64_t sequence = 1; sequence <= 3; sequence++)
        stage_chain_free(chain, sequence);
}

/* Bit for bit: over chunks, splits, instruction sets and company; and it is a sum of its rows. */
static void test_sums_do_not_depend_on_the_split(void **state) {
    (void)state;
    static const struct {
        uint32_t stages, column_shards, threads, chunk;
    } cases[] = {{1, 1, 2, 7}, {2, 4, 1, TOKENS}, {3, 4, 2, 16}, {3, 1, 1, 1}};
    tiny_llama model = tiny_llama_default();
    model.layers = 3;
    size_t length;
    uint8_t *file = tiny_llama_bytes(&model, &length);
    stage_chain_options options = plain_options();
    stage_chain *chain = create(file, length, &options);
    const pooled expected = pooled_of(chain, TOKENS, 0);
    assert_true(expected.calls == 1 && expected.width == stage_chain_config(chain)->width);
    const pooled rest = pooled_of(chain, 16, 20), last = pooled_of(chain, 5, TOKENS - 1);
    assert_true(memcmp(rest.sums, expected.sums, sizeof rest.sums) != 0 && last.calls == 1);
    check_company(chain, &expected);
    double squares = 0;
    for (uint32_t c = 0; c < last.width; c++)
        squares += ldexp((double)last.sums[0][c], -24) * ldexp((double)last.sums[0][c], -24);
    assert_true(squares > 0); /* of a norm: about the width, times the gains */
    stage_chain_destroy(chain);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        options.isa = NULL;
        options.stages = cases[i].stages;
        options.column_shards = cases[i].column_shards;
        options.threads = cases[i].threads;
        chain = create(file, length, &options);
        const pooled got = pooled_of(chain, cases[i].chunk, 0);
        assert_memory_equal(got.sums, expected.sums, sizeof got.sums);
        const pooled got_last = pooled_of(chain, cases[i].chunk, TOKENS - 1);
        assert_memory_equal(got_last.sums, last.sums, sizeof got_last.sums);
        check_company(chain, &expected);
        stage_chain_destroy(chain);
    }
    free(file);
}

/* ---- Truth ---- */

typedef struct logits_list {
    uint32_t count, vocabulary;
    float *values;
} logits_list;

static void keep_logits(void *context, uint64_t sequence, const float *logits,
                        uint32_t vocabulary) {
    logits_list *list = context;
    (void)sequence;
    memcpy(list->values + (size_t)list->count++ * vocabulary, logits, vocabulary * sizeof *logits);
}

static void check_truth(const tiny_llama *model, const uint8_t *file, size_t length) {
    uint32_t tokens[TOKENS];
    lh_step_segment segments[TOKENS];
    stage_chain_options options = plain_options();
    stage_chain *chain = create(file, length, &options);
    make_tokens(tokens, TOKENS, model->vocabulary, 3);
    for (uint32_t i = 0; i < TOKENS; i++) {
        segments[i] = (lh_step_segment){.sequence = 1,
                                        .first_position = i,
                                        .rows = 1,
                                        .ask.draws = true,
                                        .ask.sampling = greedy};
    }
    logits_list got = {0, model->vocabulary,
                       calloc((size_t)TOKENS * model->vocabulary, sizeof(float))};
    double *expected = calloc((size_t)TOKENS * model->vocabulary, sizeof *expected);
    assert_true(got.values && expected);
    run(chain, &(lh_batch){TOKENS, tokens, TOKENS, segments, {0}, false},
        &(stage_chain_events){
            .context = &got, .on_sample = ignore_sample, .on_logits = keep_logits});
    plain_llama_logits(file, length, stage_chain_config(chain), tokens, TOKENS, expected);
    for (size_t i = 0; i < (size_t)TOKENS * model->vocabulary; i++) {
        if (!(fabs((double)got.values[i] - expected[i]) < 2e-4 * (1 + fabs(expected[i])))) {
            fail_msg("token %zu, logit %zu: %g, expected %g", i / model->vocabulary,
                     i % model->vocabulary, (double)got.values[i], expected[i]);
        }
    }
    free(expected);
    free(got.values);
    stage_chain_destroy(chain);
}

static void test_logits_of_plain_model(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_default();
    model.type = model.embedding_type = LH_DTYPE_F32;
    model.head_tied = false;
    size_t length;
    uint8_t *file = tiny_llama_bytes(&model, &length);
    check_truth(&model, file, length);
    free(file);
}

/* Every scaling of the angles together: base, linear factor, factors by dimension. */
static void test_logits_of_scaled_rope(void **state) {
    (void)state;
    tiny_llama model = tiny_llama_default();
    model.type = model.embedding_type = LH_DTYPE_F32;
    gguf_writer *writer = tiny_llama_writer(&model);
    const float factors[8] = {1, 1, 1.25f, 1.5f, 2, 3, 4, 8};
    gguf_writer_text(writer, "llama.rope.scaling.type", "linear");
    gguf_writer_f32(writer, "llama.rope.scaling.factor", 2.0f);
    gguf_writer_tensor_bytes(writer, "rope_freqs.weight", LH_DTYPE_F32, 1, (const uint64_t[]){8},
                             factors, sizeof factors);
    size_t length;
    uint8_t *file = gguf_writer_finish(writer, &length);
    gguf_writer_destroy(writer);
    check_truth(&model, file, length);
    free(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_f32),
        cmocka_unit_test(test_same_bits_f16),
        cmocka_unit_test(test_same_bits_bf16),
        cmocka_unit_test(test_same_bits_q8_0),
        cmocka_unit_test(test_same_bits_q4_0),
        cmocka_unit_test(test_same_bits_q4_1),
        cmocka_unit_test(test_same_bits_qwen2),
        cmocka_unit_test(test_same_bits_qwen3),
        cmocka_unit_test(test_same_bits_gemma3),
        cmocka_unit_test(test_same_bits_phi3),
        cmocka_unit_test(test_same_bits_olmo2),
        cmocka_unit_test(test_same_bits_of_mixtures),
        cmocka_unit_test(test_same_bits_of_latent_attention),
        cmocka_unit_test(test_same_bits_of_a_llama_with_experts),
        cmocka_unit_test(test_batch_of_a_mixture),
        cmocka_unit_test(test_batch_of_latent_attention),
        cmocka_unit_test(test_last_rows_of_chunks),
        cmocka_unit_test(test_threads_share_far_rows),
        cmocka_unit_test(test_batch_beside_alone),
        cmocka_unit_test(test_a_fork_gives_the_same_bits),
        cmocka_unit_test(test_scores_do_not_depend_on_the_split),
        cmocka_unit_test(test_sums_do_not_depend_on_the_split),
        cmocka_unit_test(test_logits_of_plain_model),
        cmocka_unit_test(test_logits_of_scaled_rope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
