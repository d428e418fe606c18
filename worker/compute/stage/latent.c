/* A thread's scratch holds, one after the other: queries in the latent space, results in it, packed
 * activations of one head, and what the kernel asks for. */
#include "worker/compute/stage/latent.h"

#include "common/base/arithmetic.h"
#include "worker/compute/stage/aligned_array.h"
#include "worker/compute/stage/attention_partials.h"
#include "worker/compute/stage/rope_table.h"

#include <stdlib.h>
#include <string.h>

/* Heads of a part at most; fewer where there would be fewer parts than threads. */
#define PART_HEADS     LH_LANES
#define PART_HEADS_MIN 4u

typedef struct lh_latent {
    lh_latent_shape shape;
    uint32_t heads, key_dim, rope_dims; /* key_dim: of a head, what is not rotated */
    float scale;
    char *scratch; /* [threads][scratch_bytes] */
    size_t scratch_bytes;
    lh_attention_partials partials;
    float *divided; /* [partials.rows][heads][rank + rope_dims]: queries of rows that are divided */
} lh_latent;

static uint32_t width_of(const lh_latent *latent) {
    return latent->shape.rank + latent->rope_dims;
}

static size_t query_bytes(const lh_latent *latent) {
    return lh_aligned_bytes((size_t)LH_ATTENTION_ROWS * PART_HEADS * width_of(latent) *
                            sizeof(float));
}

static size_t result_bytes(const lh_latent *latent) {
    return lh_aligned_bytes((size_t)LH_ATTENTION_ROWS * PART_HEADS * latent->shape.rank *
                            sizeof(float));
}

/* Floats are the largest form of activations. */
static size_t packed_bytes(const lh_latent *latent) {
    uint32_t widest = latent->key_dim > latent->shape.rank ? latent->key_dim : latent->shape.rank;
    size_t most = 0;
    for (unsigned kind = 0; kind < LH_ACTIVATION_KINDS; kind++) {
        uint32_t whole = (widest + LH_SPAN_COLUMNS - 1) / LH_SPAN_COLUMNS * LH_SPAN_COLUMNS;
        size_t bytes = lh_activations_bytes((lh_activation_kind)kind, LH_ATTENTION_ROWS, whole);
        most = bytes > most ? bytes : most;
    }
    return lh_aligned_bytes(most);
}

static lh_latent shape_of(const lh_model_config *config) {
    return (lh_latent){.shape = config->latent,
                       .heads = config->heads,
                       .key_dim = config->head_dim - config->rope_dims,
                       .rope_dims = config->rope_dims};
}

size_t lh_latent_thread_bytes(const lh_model_config *config) {
    const lh_latent latent = shape_of(config);
    size_t kernel = lh_latent_scratch_bytes(width_of(&latent), latent.shape.rank);
    return kernel == 0 ? 0
                       : query_bytes(&latent) + result_bytes(&latent) + packed_bytes(&latent) +
                             lh_aligned_bytes(kernel);
}

static lh_attention_partials partials_of(const lh_latent *latent, uint32_t rows, uint32_t context,
                                         uint32_t threads) {
    const uint32_t groups = (latent->heads + PART_HEADS - 1) / PART_HEADS;
    return lh_attention_partials_of(latent->heads, groups, latent->shape.rank, rows, context,
                                    threads);
}

uint64_t lh_latent_shared_bytes(const lh_model_config *config, uint32_t rows, uint32_t context,
                                uint32_t threads) {
    const lh_latent latent = shape_of(config);
    const lh_attention_partials partials = partials_of(&latent, rows, context, threads);
    return lh_attention_partials_bytes(&partials) +
           (uint64_t)partials.rows * latent.heads * width_of(&latent) * sizeof(float);
}

float lh_latent_scale(const lh_model_config *config) {
    double growth = lh_rope_attention_growth(&config->rope[LH_LAYER_FULL]);
    return (float)(config->attention_scale * growth * growth);
}

void *lh_latent_open(const lh_compute *compute, const lh_model_config *config, uint32_t rows,
                     uint32_t context) {
    const uint32_t threads = lh_thread_pool_size(compute->pool);
    lh_latent *latent = calloc(1, sizeof *latent);
    if (!latent)
        return NULL;
    *latent = shape_of(config);
    latent->scale = lh_latent_scale(config);
    latent->scratch_bytes = lh_latent_thread_bytes(config);
    if (latent->scratch_bytes > 0)
        latent->scratch = lh_aligned_array_allocate(latent->scratch_bytes, threads);
    latent->partials = partials_of(latent, rows, context, threads);
    if (latent->scratch && lh_attention_partials_allocate(&latent->partials) &&
        lh_floats_allocate(compute, &latent->divided, latent->partials.rows,
                           (size_t)latent->heads * width_of(latent)))
        return latent;
    lh_latent_close(compute, latent);
    return NULL;
}

void lh_latent_close(const lh_compute *compute, void *memory) {
    lh_latent *latent = memory;
    if (!latent)
        return;
    compute->ops->release(compute, latent->divided);
    free(latent->partials.data);
    free(latent->scratch);
    free(latent);
}

typedef struct lh_latent_arguments {
    const lh_latent *latent;
    const lh_compute *compute;
    const lh_expert_matrices *k_b, *v_b;
    const lh_position_run *runs;
    uint32_t count, layer;
    uint32_t heads, groups; /* of a part; such groups of heads */
    uint32_t blocks;        /* of a row at most, where attention is divided by them */
    const float *q;
    float *y;
} lh_latent_arguments;

/* Heads [begin, begin + count) of a run's rows. */
typedef struct lh_latent_part {
    const lh_latent_arguments *a;
    const lh_position_run *run;
    uint32_t begin, count;
    float *queries; /* [rows][count][rank + rope_dims] */
    float *results; /* [rows][count][rank] */
    void *packed;
} lh_latent_part;

/* y[rows][outputs] = x W^T of one head, whose rows are so far apart. */
static void multiply(const lh_latent_part *part, const lh_expert_matrices *matrices, uint32_t head,
                     const float *x, size_t x_stride, float *y, size_t y_stride) {
    const lh_compute *compute = part->a->compute;
    const lh_matrix matrix = lh_expert_matrix(matrices, head);
    const lh_span in = {0, matrix.inputs}, out = {0, matrix.outputs};
    const lh_activations packed = {.kind =
                                       lh_activation_kind_for(matrix.dtype, compute->activations),
                                   .rows = part->run->rows,
                                   .width = matrix.inputs,
                                   .data = part->packed};
    compute->kernels->pack_activations(&packed, in, x, x_stride, NULL, NULL);
    compute->kernels->matmul(y, y_stride, &packed, &matrix, in, out, false);
}

static void take_to_latent_space(const lh_latent_part *part) {
    const lh_latent *latent = part->a->latent;
    const uint32_t rank = latent->shape.rank, head_dim = latent->key_dim + latent->rope_dims;
    const size_t width = width_of(latent),
                 q_stride = lh_row_stride((size_t)latent->heads * head_dim);
    const float *q = part->a->q + part->run->first_row * q_stride;
    for (uint32_t i = 0; i < part->count; i++) {
        uint32_t head = part->begin + i;
        const float *own = q + (size_t)head * head_dim;
        float *to = part->queries + i * width;
        multiply(part, part->a->k_b, head, own, q_stride, to, part->count * width);
        for (uint32_t row = 0; row < part->run->rows; row++) {
            memcpy(to + row * part->count * width + rank, own + row * q_stride + latent->key_dim,
                   latent->rope_dims * sizeof(float));
        }
    }
}

static void take_back(const lh_latent_part *part) {
    const lh_latent *latent = part->a->latent;
    const uint32_t rank = latent->shape.rank, value_dim = latent->shape.value_dim;
    const size_t stride = lh_row_stride((size_t)latent->heads * value_dim);
    float *y = part->a->y + part->run->first_row * stride;
    for (uint32_t i = 0; i < part->count; i++) {
        uint32_t head = part->begin + i;
        multiply(part, part->a->v_b, head, part->results + (size_t)i * rank,
                 (size_t)part->count * rank, y + (size_t)head * value_dim, stride);
    }
}

/* Heads of group `group`, in the scratch of a thread. */
static lh_latent_part part_of(const lh_latent_arguments *a, const lh_position_run *run,
                              uint32_t group, uint32_t thread) {
    const lh_latent *latent = a->latent;
    char *scratch = latent->scratch + thread * latent->scratch_bytes;
    const uint32_t begin = group * a->heads;
    return (lh_latent_part){.a = a,
                            .run = run,
                            .begin = begin,
                            .count = lh_min_u32(a->heads, latent->heads - begin),
                            .queries = (float *)(void *)scratch,
                            .results = (float *)(void *)(scratch + query_bytes(latent)),
                            .packed = scratch + query_bytes(latent) + result_bytes(latent)};
}

static void *kernel_scratch_of(const lh_latent_part *part) {
    return (char *)part->packed + packed_bytes(part->a->latent);
}

/* The last runs go first, because late positions have the most rows to read. */
static void attend_part(void *context, uint32_t number, uint32_t thread) {
    const lh_latent_arguments *a = context;
    const lh_latent *latent = a->latent;
    const lh_position_run *run = &a->runs[a->count - 1 - number / a->groups];
    const lh_latent_part part = part_of(a, run, number % a->groups, thread);
    const lh_kv_view view = lh_kv_sequence_view(run->sequence, a->layer);
    take_to_latent_space(&part);
    a->compute->kernels->latent_attention(
        part.results, (size_t)part.count * latent->shape.rank, part.queries,
        (size_t)part.count * width_of(latent), &view, latent->shape.rank, part.count,
        run->first_position, run->rows, latent->scale, kernel_scratch_of(&part));
    take_back(&part);
}

/* Queries of row `row` from head `head` on. */
static float *divided_queries(const lh_latent *latent, uint32_t row, uint32_t head) {
    return latent->divided + ((size_t)row * latent->heads + head) * width_of(latent);
}

static void divided_query_part(void *context, uint32_t number, uint32_t thread) {
    const lh_latent_arguments *a = context;
    const uint32_t row = number / a->groups;
    const lh_position_run run = lh_attention_partials_row(a->runs, row);
    lh_latent_part part = part_of(a, &run, number % a->groups, thread);
    part.queries = divided_queries(a->latent, row, part.begin);
    take_to_latent_space(&part);
}

/* A part is one block of keys of one group of heads of one row. */
static void divided_block_part(void *context, uint32_t number, uint32_t thread) {
    const lh_latent_arguments *a = context;
    const lh_attention_partials *partials = &a->latent->partials;
    const uint32_t block = number % a->blocks, group = number / a->blocks % a->groups,
                   row = number / a->blocks / a->groups;
    const lh_position_run run = lh_attention_partials_row(a->runs, row);
    const lh_latent_part part = part_of(a, &run, group, thread);
    const lh_kv_view view = lh_kv_sequence_view(run.sequence, a->layer);
    if (block >= lh_attention_blocks(run.first_position, LH_ATTENTION_ALL).end)
        return;
    a->compute->kernels->latent_attention_blocks(
        lh_attention_partials_at(partials, row, block, part.begin), partials->block_floats,
        divided_queries(a->latent, row, part.begin), &view, a->latent->shape.rank, part.count,
        run.first_position, a->latent->scale, (lh_span){block, block + 1},
        kernel_scratch_of(&part));
}

static void divided_result_part(void *context, uint32_t number, uint32_t thread) {
    const lh_latent_arguments *a = context;
    const lh_attention_partials *partials = &a->latent->partials;
    const uint32_t row = number / a->groups;
    const lh_position_run run = lh_attention_partials_row(a->runs, row);
    const lh_latent_part part = part_of(a, &run, number % a->groups, thread);
    a->compute->kernels->attention_combine(
        part.results, lh_attention_partials_at(partials, row, 0, part.begin),
        partials->block_floats, lh_attention_blocks(run.first_position, LH_ATTENTION_ALL).end,
        part.count, a->latent->shape.rank, NULL);
    take_back(&part);
}

static void divide(lh_latent_arguments *arguments, uint32_t heads) {
    arguments->heads = heads;
    arguments->groups = (arguments->latent->heads + heads - 1) / heads;
}

/* Queries and results are products, which are read once for each head; so a part has few of them.
 * A row of the pages is read once for 16. */
static void attend_by_blocks(lh_latent_arguments *arguments, lh_thread_pool *pool) {
    uint32_t rows = 0;
    for (uint32_t i = 0; i < arguments->count; i++)
        rows += arguments->runs[i].rows;
    divide(arguments, PART_HEADS_MIN);
    lh_thread_pool_run(pool, rows * arguments->groups, divided_query_part, arguments);
    divide(arguments, PART_HEADS);
    lh_thread_pool_run(pool, rows * arguments->groups * arguments->blocks, divided_block_part,
                       arguments);
    divide(arguments, PART_HEADS_MIN);
    lh_thread_pool_run(pool, rows * arguments->groups, divided_result_part, arguments);
}

void lh_latent_attend(const lh_compute *compute, void *memory, const lh_expert_matrices *k_b,
                      const lh_expert_matrices *v_b, const lh_position_run *runs, uint32_t count,
                      uint32_t layer, const float *q, float *y) {
    const lh_latent *latent = memory;
    uint32_t threads = lh_thread_pool_size(compute->pool), heads = PART_HEADS;
    lh_latent_arguments arguments = {.latent = latent,
                                     .compute = compute,
                                     .k_b = k_b,
                                     .v_b = v_b,
                                     .runs = runs,
                                     .count = count,
                                     .layer = layer,
                                     .q = q,
                                     .y = y};
    arguments.blocks =
        lh_attention_partials_divide(&latent->partials, runs, count, LH_ATTENTION_ALL);
    if (arguments.blocks > 0) {
        attend_by_blocks(&arguments, compute->pool);
        return;
    }
    while (heads > PART_HEADS_MIN &&
           (uint64_t)count * ((latent->heads + heads - 1) / heads) < threads)
        heads /= 2;
    divide(&arguments, heads);
    lh_thread_pool_run(compute->pool, count * arguments.groups, attend_part, &arguments);
}
