/* Loading goes twice over the tensors of the range: once to add up the packed sizes, once to pack
 * into the block. */
#include "worker/compute/stage/parameters.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Rows of a matrix that one part of the packing takes; a multiple of LH_LANES. */
#define PACK_ROWS 256u

typedef struct lh_loader {
    const lh_model_config *config;
    lh_layer_range range;
    const lh_weight_source *source;
    const lh_compute *compute;
    const lh_load_progress *progress;
    lh_parameters *weights;
    size_t used;
    uint64_t source_bytes, source_done;
} lh_loader;

/* Where the tensor of a role goes: in the stage's parameters, or in those of its layer. */
static const size_t slots[LH_TENSOR_ROLES] = {
    [LH_TENSOR_EMBEDDING] = offsetof(lh_parameters, embedding),
    [LH_TENSOR_OUTPUT_NORM] = offsetof(lh_parameters, output_norm),
    [LH_TENSOR_HEAD] = offsetof(lh_parameters, head),
    [LH_TENSOR_ATTN_NORM] = offsetof(lh_layer, attn_norm),
    [LH_TENSOR_ATTN_Q] = offsetof(lh_layer, q),
    [LH_TENSOR_ATTN_K] = offsetof(lh_layer, k),
    [LH_TENSOR_ATTN_V] = offsetof(lh_layer, v),
    [LH_TENSOR_ATTN_OUTPUT] = offsetof(lh_layer, attn_output),
    [LH_TENSOR_ATTN_Q_BIAS] = offsetof(lh_layer, q_bias),
    [LH_TENSOR_ATTN_K_BIAS] = offsetof(lh_layer, k_bias),
    [LH_TENSOR_ATTN_V_BIAS] = offsetof(lh_layer, v_bias),
    [LH_TENSOR_ATTN_Q_NORM] = offsetof(lh_layer, q_norm),
    [LH_TENSOR_ATTN_K_NORM] = offsetof(lh_layer, k_norm),
    [LH_TENSOR_ATTN_POST_NORM] = offsetof(lh_layer, attn_post_norm),
    [LH_TENSOR_FFN_NORM] = offsetof(lh_layer, ffn_norm),
    [LH_TENSOR_FFN_GATE] = offsetof(lh_layer, gate),
    [LH_TENSOR_FFN_UP] = offsetof(lh_layer, up),
    [LH_TENSOR_FFN_DOWN] = offsetof(lh_layer, down),
    [LH_TENSOR_FFN_POST_NORM] = offsetof(lh_layer, ffn_post_norm),
};

static void *slot_of(const lh_loader *loader, lh_tensor_role role, uint32_t layer) {
    void *owner = loader->weights;
    if (role >= LH_TENSOR_LAYER_FIRST)
        owner = &loader->weights->layers[layer - loader->range.first];
    return (char *)owner + slots[role];
}

static size_t round_up(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static size_t packed_bytes(const lh_gguf_tensor *tensor, bool is_matrix) {
    uint32_t columns = (uint32_t)tensor->shape[0], rows = (uint32_t)tensor->shape[1];
    return is_matrix ? lh_matrix_bytes((lh_dtype)tensor->type, rows, columns)
                     : (size_t)columns * sizeof(float);
}

/* lh_tensor_visitor */
static lh_status add_size(void *context, lh_tensor_role role, uint32_t layer,
                          const lh_gguf_tensor *tensor, lh_error *error) {
    lh_loader *loader = context;
    (void)layer;
    loader->source_bytes += tensor->bytes;
    if (role == LH_TENSOR_ROPE_FACTORS)
        return LH_OK;
    size_t bytes = packed_bytes(tensor, lh_model_is_matrix(role));
    if (bytes == 0 || bytes > SIZE_MAX / 2 - loader->weights->memory_bytes) {
        return lh_fail(error, LH_ERR_LIMIT, "GGUF tensor %.*s is too large",
                       (int)tensor->name.length, tensor->name.bytes);
    }
    loader->weights->memory_bytes += round_up(bytes);
    return LH_OK;
}

static void *take(lh_loader *loader, size_t bytes) {
    void *memory = (char *)loader->weights->memory + loader->used;
    loader->used += round_up(bytes);
    assert(loader->used <= loader->weights->memory_bytes);
    return memory;
}

typedef struct lh_pack_rows {
    const lh_matrix *matrix;
    const void *source;
} lh_pack_rows;

static void pack_part(void *context, uint32_t part, uint32_t thread) {
    const lh_pack_rows *pack = context;
    uint32_t begin = part * PACK_ROWS, left = pack->matrix->outputs - begin;
    (void)thread;
    lh_matrix_pack(pack->matrix, pack->source,
                   (lh_span){begin, begin + (left < PACK_ROWS ? left : PACK_ROWS)});
}

static void load_matrix(lh_loader *loader, lh_matrix *matrix, const lh_gguf_tensor *tensor,
                        const void *bytes) {
    *matrix = (lh_matrix){.dtype = (lh_dtype)tensor->type,
                          .outputs = (uint32_t)tensor->shape[1],
                          .inputs = (uint32_t)tensor->shape[0],
                          .data = take(loader, packed_bytes(tensor, true))};
    lh_pack_rows pack = {matrix, bytes};
    lh_thread_pool_run(loader->compute->pool, (matrix->outputs + PACK_ROWS - 1) / PACK_ROWS,
                       pack_part, &pack);
}

static void load_vector(lh_loader *loader, const float **vector, const lh_gguf_tensor *tensor,
                        const void *bytes) {
    size_t size = packed_bytes(tensor, false);
    *vector = memcpy(take(loader, size), bytes, size);
}

/* lh_tensor_visitor */
static lh_status load_tensor(void *context, lh_tensor_role role, uint32_t layer,
                             const lh_gguf_tensor *tensor, lh_error *error) {
    lh_loader *loader = context;
    const void *bytes;
    lh_status status = loader->source->acquire(loader->source->context, tensor, &bytes, error);
    if (status != LH_OK)
        return status;
    if (lh_model_is_matrix(role))
        load_matrix(loader, slot_of(loader, role, layer), tensor, bytes);
    else if (role == LH_TENSOR_ROPE_FACTORS)
        status = lh_rope_table_divide(&loader->weights->rope, bytes, error);
    else
        load_vector(loader, slot_of(loader, role, layer), tensor, bytes);
    loader->source->release(loader->source->context, tensor, bytes);
    loader->source_done += tensor->bytes;
    if (status == LH_OK && loader->progress->on_progress) {
        loader->progress->on_progress(loader->progress->context, loader->source_done,
                                      loader->source_bytes);
    }
    return status;
}

static lh_status map_memory(lh_parameters *weights, lh_error *error) {
    void *memory = mmap(NULL, weights->memory_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for %zu bytes of weights",
                       weights->memory_bytes);
    }
    weights->memory = memory;
    /* only faster: a kernel without it may refuse */
    madvise(memory, weights->memory_bytes, MADV_HUGEPAGE);
    return LH_OK;
}

static void tie_head(const lh_loader *loader) {
    lh_parameters *weights = loader->weights;
    if (lh_model_has(loader->config, LH_TENSOR_HEAD) ||
        loader->range.last != loader->config->layers) {
        return;
    }
    weights->head = weights->embedding;
    if (loader->range.first != 0)
        weights->embedding = (lh_matrix){0};
}

lh_status lh_parameters_load(const lh_gguf *gguf, const lh_model_config *config,
                             lh_layer_range range, const lh_weight_source *source,
                             const lh_compute *compute, const lh_load_progress *progress,
                             lh_parameters *weights, lh_error *error) {
    *weights = (lh_parameters){.layer_count = range.last - range.first};
    lh_loader loader = {.config = config,
                        .range = range,
                        .source = source,
                        .compute = compute,
                        .progress = progress,
                        .weights = weights};
    weights->layers = calloc(weights->layer_count, sizeof *weights->layers);
    lh_status status = LH_OK;
    if (!weights->layers) {
        status =
            lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for %u layers", weights->layer_count);
    }
    for (uint32_t i = 0; i < weights->layer_count && status == LH_OK; i++)
        weights->layers[i].kind = lh_model_layer_kind(config, range.first + i);
    if (status == LH_OK)
        status = lh_model_visit_tensors(gguf, config, range, add_size, &loader, error);
    if (status == LH_OK)
        status = map_memory(weights, error);
    if (status == LH_OK)
        status = lh_rope_table_init(&weights->rope, config, error);
    if (status == LH_OK)
        status = lh_model_visit_tensors(gguf, config, range, load_tensor, &loader, error);
    if (status != LH_OK) {
        lh_parameters_reset(weights);
        return status;
    }
    tie_head(&loader);
    return LH_OK;
}

void lh_parameters_reset(lh_parameters *weights) {
    if (weights->memory)
        munmap(weights->memory, weights->memory_bytes);
    lh_rope_table_reset(&weights->rope);
    free(weights->layers);
    *weights = (lh_parameters){0};
}
