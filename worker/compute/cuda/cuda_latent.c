/* Packed rows are used twice: for queries, and for results when these are done. */
#include "worker/compute/cuda/cuda_latent.h"

#include "common/base/arithmetic.h"
#include "worker/compute/stage/aligned_array.h"
#include "worker/compute/stage/latent.h"

#include <stdlib.h>

/* Rows times heads at a time, about: what lies between the steps stays small, and each step has
 * enough to do for a large GPU. */
#define HEAD_ROWS 8192u

static uint32_t width_of(const lh_cuda_latent *latent) {
    return latent->shape.rank + latent->rope_dims;
}

/* Of the form that takes most. */
static size_t packed_bytes(const lh_cuda_latent *latent) {
    const uint32_t widest =
        latent->key_dim > latent->shape.rank ? latent->key_dim : latent->shape.rank;
    const uint32_t whole = (widest + LH_SPAN_COLUMNS - 1) / LH_SPAN_COLUMNS * LH_SPAN_COLUMNS;
    size_t most = 0;
    for (unsigned kind = 0; kind < LH_ACTIVATION_KINDS; kind++) {
        size_t bytes =
            lh_activations_bytes((lh_activation_kind)kind, latent->rows_max * latent->heads, whole);
        most = bytes > most ? bytes : most;
    }
    return lh_aligned_bytes(most);
}

static lh_cuda_latent shape_of(const lh_model_config *config, uint32_t rows) {
    return (lh_cuda_latent){.shape = config->latent,
                            .heads = config->heads,
                            .key_dim = config->head_dim - config->rope_dims,
                            .rope_dims = config->rope_dims,
                            .scale = lh_latent_scale(config),
                            .rows_max = lh_min_u32(rows, HEAD_ROWS / config->heads + 1)};
}

static size_t query_bytes(const lh_cuda_latent *latent) {
    return lh_aligned_bytes((size_t)latent->rows_max * latent->heads * width_of(latent) *
                            sizeof(float));
}

static size_t all_bytes(const lh_cuda_latent *latent) {
    return packed_bytes(latent) + query_bytes(latent) +
           (size_t)latent->rows_max * latent->heads * latent->shape.rank * sizeof(float);
}

size_t lh_cuda_latent_bytes(const lh_model_config *config, uint32_t rows) {
    const lh_cuda_latent latent = shape_of(config, rows);
    return all_bytes(&latent);
}

lh_cuda_latent *lh_cuda_latent_open(const lh_cuda_plugin *plugin, const lh_model_config *config,
                                    uint32_t rows) {
    lh_cuda_latent *latent = calloc(1, sizeof *latent);
    if (!latent)
        return NULL;
    *latent = shape_of(config, rows);
    if (plugin->allocate(&latent->memory, all_bytes(latent)) != 0) {
        free(latent);
        return NULL;
    }
    char *memory = latent->memory;
    latent->packed = memory;
    memory += packed_bytes(latent);
    latent->queries = (float *)(void *)memory;
    latent->results = (float *)(void *)(memory + query_bytes(latent));
    return latent;
}

void lh_cuda_latent_close(const lh_cuda_plugin *plugin, lh_cuda_latent *latent) {
    if (!latent)
        return;
    plugin->release(latent->memory);
    free(latent);
}

/* Heads of rows: of one head after the other, so far apart. */
typedef struct lh_head_rows {
    float *at;
    size_t stride, head_stride;
} lh_head_rows;

/* y[row][head] = x[row][head] W[head]^T. */
static int multiply(const lh_cuda_latent *latent, const lh_cuda_latent_call *call, uint32_t rows,
                    const lh_expert_matrices *matrices, const float *x, size_t x_stride,
                    size_t x_head_stride, lh_head_rows y) {
    const lh_matrix *first = &matrices->first;
    const lh_activations packed = {.kind = lh_activation_kind_for(first->dtype, call->activations),
                                   .rows = rows * latent->heads,
                                   .width = first->inputs,
                                   .data = latent->packed};
    const int error =
        call->plugin->pack_heads(call->stream, &packed, x, x_stride, x_head_stride, latent->heads);
    return error ? error
                 : call->plugin->head_products(call->stream, y.at, y.stride, y.head_stride, &packed,
                                               first, matrices->each_bytes, latent->heads);
}

static int take_to_latent_space(const lh_cuda_latent *latent, const lh_cuda_latent_call *call,
                                uint32_t rows, const float *q, size_t q_stride) {
    const size_t width = width_of(latent), head_dim = latent->key_dim + latent->rope_dims;
    const lh_head_rows queries = {latent->queries, latent->heads * width, width};
    const int error = multiply(latent, call, rows, call->k_b, q, q_stride, head_dim, queries);
    return error ? error
                 : call->plugin->copy_heads(call->stream, latent->queries + latent->shape.rank,
                                            queries.stride, width, q + latent->key_dim, q_stride,
                                            head_dim, rows, latent->heads, latent->rope_dims);
}

/* As many rows at a time as the scratch is enough for. */
static int attend_in_groups(const lh_cuda_latent *latent, const lh_cuda_latent_call *call,
                            const lh_cuda_attention_rows *rows) {
    const uint32_t rank = latent->shape.rank, heads = latent->heads,
                   at_once = lh_cuda_scratch_rows(
                       call->scratch, call->plugin->attention_scratch_bytes(
                                          1, heads, rank, rows->context, LH_ATTENTION_ALL));
    const size_t stride = (size_t)heads * rank, q_stride = (size_t)heads * width_of(latent);
    int error = 0;
    for (uint32_t done = 0; done < rows->count && !error; done += at_once) {
        lh_cuda_attention_rows some = *rows;
        some.rows += done;
        some.count = lh_min_u32(rows->count - done, at_once);
        error = call->plugin->latent_attention(call->stream, latent->results + done * stride,
                                               stride, latent->queries + done * q_stride, q_stride,
                                               call->pages, rank, heads, &some, latent->scale,
                                               call->scratch->memory);
    }
    return error;
}

static int attend(const lh_cuda_latent *latent, const lh_cuda_latent_call *call,
                  const lh_cuda_attention_rows *rows) {
    const uint32_t rank = latent->shape.rank, heads = latent->heads;
    return call->is_prompt ? call->plugin->latent_prompt_attention(
                                 call->stream, latent->results, (size_t)heads * rank,
                                 latent->queries, (size_t)heads * width_of(latent), call->pages,
                                 rank, heads, rows, latent->scale)
                           : attend_in_groups(latent, call, rows);
}

int lh_cuda_latent_attend(const lh_cuda_latent *latent, const lh_cuda_latent_call *call,
                          const lh_cuda_attention_rows *rows, const float *q, float *y) {
    const uint32_t value_dim = latent->shape.value_dim, rank = latent->shape.rank;
    const size_t q_stride =
                     lh_row_stride((size_t)latent->heads * (latent->key_dim + latent->rope_dims)),
                 y_stride = lh_row_stride((size_t)latent->heads * value_dim);
    int error = 0;
    for (uint32_t done = 0; done < rows->count && !error; done += latent->rows_max) {
        lh_cuda_attention_rows some = *rows;
        some.rows += done;
        some.count = lh_min_u32(rows->count - done, latent->rows_max);
        const lh_head_rows to = {y + done * y_stride, y_stride, value_dim};
        error = take_to_latent_space(latent, call, some.count, q + done * q_stride, q_stride);
        if (!error)
            error = attend(latent, call, &some);
        if (!error)
            error = multiply(latent, call, some.count, call->v_b, latent->results,
                             (size_t)latent->heads * rank, rank, to);
    }
    return error;
}
