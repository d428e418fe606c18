/* Loading goes twice over the tensors of the range: once to add up the packed sizes, once to pack
 * into the block. */
#include "worker/compute/stage/parameters.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Rows of a matrix that one part of the packing takes; a multiple of LH_LANES. */
#define PACK_ROWS 256u

typedef struct lh_loader {
    const lh_gguf *gguf;
    const lh_model_config *config;
    lh_layer_range range;
    const lh_weight_source *source;
    const lh_compute *compute;
    const lh_load_progress *progress;
    lh_parameters *weights;
    size_t used;
    uint64_t source_bytes, source_done;
} lh_loader;

/* Where the tensor of a role goes: a matrix or a vector of the layer, or of the stage. */
static lh_matrix *matrix_slot(lh_parameters *weights, lh_layer *layer, lh_tensor_role role) {
    switch (role) {
    case LH_TENSOR_EMBEDDING:
        return &weights->embedding;
    case LH_TENSOR_HEAD:
        return &weights->head;
    case LH_TENSOR_ATTN_Q:
        return &layer->q;
    case LH_TENSOR_ATTN_K:
        return &layer->k;
    case LH_TENSOR_ATTN_V:
        return &layer->v;
    case LH_TENSOR_ATTN_OUTPUT:
        return &layer->attn_output;
    case LH_TENSOR_FFN_GATE:
        return &layer->gate;
    case LH_TENSOR_FFN_UP:
        return &layer->up;
    case LH_TENSOR_FFN_DOWN:
        return &layer->down;
    default:
        return NULL;
    }
}

static const float **vector_slot(lh_parameters *weights, lh_layer *layer, lh_tensor_role role) {
    switch (role) {
    case LH_TENSOR_OUTPUT_NORM:
        return &weights->output_norm;
    case LH_TENSOR_ATTN_NORM:
        return &layer->attn_norm;
    case LH_TENSOR_FFN_NORM:
        return &layer->ffn_norm;
    case LH_TENSOR_ATTN_Q_BIAS:
        return &layer->q_bias;
    case LH_TENSOR_ATTN_K_BIAS:
        return &layer->k_bias;
    case LH_TENSOR_ATTN_V_BIAS:
        return &layer->v_bias;
    case LH_TENSOR_ATTN_Q_NORM:
        return &layer->q_norm;
    case LH_TENSOR_ATTN_K_NORM:
        return &layer->k_norm;
    case LH_TENSOR_ATTN_POST_NORM:
        return &layer->attn_post_norm;
    case LH_TENSOR_FFN_POST_NORM:
        return &layer->ffn_post_norm;
    default:
        return NULL;
    }
}

static size_t round_up(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* Calls visit(loader, role, layer or NULL, tensor) for what the range needs. */
typedef lh_status lh_role_visitor(lh_loader *loader, lh_tensor_role role, lh_layer *layer,
                                  const lh_gguf_tensor *tensor, lh_error *error);

static lh_status visit_roles(lh_loader *loader, lh_role_visitor *visit, lh_error *error) {
    lh_status status = LH_OK;
    for (unsigned i = 0; i < LH_TENSOR_LAYER_FIRST && status == LH_OK; i++) {
        lh_tensor_role role = (lh_tensor_role)i;
        if (lh_model_range_needs(loader->config, loader->range, role))
            status = visit(loader, role, NULL, lh_model_tensor(loader->gguf, role, 0), error);
    }
    for (uint32_t i = 0; i < loader->weights->layer_count; i++) {
        for (unsigned j = LH_TENSOR_LAYER_FIRST; j < LH_TENSOR_ROLES && status == LH_OK; j++) {
            lh_tensor_role role = (lh_tensor_role)j;
            if (lh_model_has(loader->config, role)) {
                const lh_gguf_tensor *tensor =
                    lh_model_tensor(loader->gguf, role, loader->range.first + i);
                status = visit(loader, role, &loader->weights->layers[i], tensor, error);
            }
        }
    }
    return status;
}

static size_t packed_bytes(const lh_gguf_tensor *tensor, bool is_matrix) {
    uint32_t columns = (uint32_t)tensor->shape[0], rows = (uint32_t)tensor->shape[1];
    return is_matrix ? lh_matrix_bytes((lh_dtype)tensor->type, rows, columns)
                     : (size_t)columns * sizeof(float);
}

static lh_status add_size(lh_loader *loader, lh_tensor_role role, lh_layer *layer,
                          const lh_gguf_tensor *tensor, lh_error *error) {
    loader->source_bytes += tensor->bytes;
    if (role == LH_TENSOR_ROPE_FACTORS)
        return LH_OK;
    size_t bytes = packed_bytes(tensor, matrix_slot(loader->weights, layer, role));
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

static lh_status load_tensor(lh_loader *loader, lh_tensor_role role, lh_layer *layer,
                             const lh_gguf_tensor *tensor, lh_error *error) {
    const void *bytes;
    lh_status status = loader->source->acquire(loader->source->context, tensor, &bytes, error);
    if (status != LH_OK)
        return status;
    lh_matrix *matrix = matrix_slot(loader->weights, layer, role);
    if (matrix)
        load_matrix(loader, matrix, tensor, bytes);
    else if (role == LH_TENSOR_ROPE_FACTORS)
        status = lh_rope_table_divide(&loader->weights->rope, bytes, error);
    else
        load_vector(loader, vector_slot(loader->weights, layer, role), tensor, bytes);
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
    assert(range.first < range.last && range.last <= config->layers);
    *weights = (lh_parameters){.layer_count = range.last - range.first};
    lh_loader loader = {.gguf = gguf,
                        .config = config,
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
        status = visit_roles(&loader, add_size, error);
    if (status == LH_OK)
        status = map_memory(weights, error);
    if (status == LH_OK)
        status = lh_rope_table_init(&weights->rope, config, error);
    if (status == LH_OK)
        status = visit_roles(&loader, load_tensor, error);
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
