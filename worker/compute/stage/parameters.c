/* Loading goes twice over the tensors of the range: once to add up the packed sizes, once to pack
 * into the block. Threads read and pack a few rows at a time, so that beside the block it takes
 * little memory, however large a tensor is. */
#include "worker/compute/stage/parameters.h"

#include "worker/compute/stage/aligned_array.h"
#include "worker/compute/stage/kv_matrix.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Rows of a matrix that a thread reads and packs at a time: LH_LANES or a multiple of it, and then
 * no more bytes than a core's second-level cache holds. */
#define PACK_ROWS_MAX  256u
#define PACK_BYTES_MAX (1u << 20)

typedef struct lh_loader {
    const lh_model_config *config;
    lh_layer_range range;
    uint32_t context;
    const lh_weight_source *source;
    const lh_compute *compute;
    const lh_load_progress *progress;
    lh_parameters *weights;
    size_t used;
    uint64_t source_bytes, source_done;
    size_t piece_bytes; /* the most that a thread reads at a time */
    uint8_t *pieces;    /* [threads][piece_bytes] */
    size_t largest;     /* packed bytes of a tensor's part */
    uint8_t *beside; /* [largest]: where it is packed for a device's memory; NULL: where it lies */
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
    [LH_TENSOR_ATTN_Q_A] = offsetof(lh_layer, q_a),
    [LH_TENSOR_ATTN_Q_A_NORM] = offsetof(lh_layer, q_a_norm),
    [LH_TENSOR_ATTN_Q_B] = offsetof(lh_layer, q_b),
    [LH_TENSOR_ATTN_KV_A] = offsetof(lh_layer, kv_a),
    [LH_TENSOR_ATTN_KV_A_NORM] = offsetof(lh_layer, kv_a_norm),
    [LH_TENSOR_ATTN_K_B] = offsetof(lh_layer, k_b),
    [LH_TENSOR_ATTN_V_B] = offsetof(lh_layer, v_b),
    [LH_TENSOR_ATTN_OUTPUT] = offsetof(lh_layer, attn_output),
    [LH_TENSOR_ATTN_Q_BIAS] = offsetof(lh_layer, q_bias),
    [LH_TENSOR_ATTN_K_BIAS] = offsetof(lh_layer, k_bias),
    [LH_TENSOR_ATTN_V_BIAS] = offsetof(lh_layer, v_bias),
    [LH_TENSOR_ATTN_OUTPUT_BIAS] = offsetof(lh_layer, attn_output_bias),
    [LH_TENSOR_ATTN_SINKS] = offsetof(lh_layer, attn_sinks),
    [LH_TENSOR_ATTN_Q_NORM] = offsetof(lh_layer, q_norm),
    [LH_TENSOR_ATTN_K_NORM] = offsetof(lh_layer, k_norm),
    [LH_TENSOR_ATTN_POST_NORM] = offsetof(lh_layer, attn_post_norm),
    [LH_TENSOR_FFN_NORM] = offsetof(lh_layer, ffn_norm),
    [LH_TENSOR_FFN_NORM_BEHIND] = offsetof(lh_layer, ffn_norm),
    [LH_TENSOR_FFN_GATE] = offsetof(lh_layer, gate),
    [LH_TENSOR_FFN_UP] = offsetof(lh_layer, up),
    [LH_TENSOR_FFN_DOWN] = offsetof(lh_layer, down),
    [LH_TENSOR_FFN_POST_NORM] = offsetof(lh_layer, ffn_post_norm),
    [LH_TENSOR_ROUTER] = offsetof(lh_layer, router),
    [LH_TENSOR_ROUTER_BIAS] = offsetof(lh_layer, router_bias),
    [LH_TENSOR_ROUTER_LOGIT_BIAS] = offsetof(lh_layer, router_logit_bias),
    [LH_TENSOR_EXPERTS_GATE_BIAS] = offsetof(lh_layer, experts_gate_bias),
    [LH_TENSOR_EXPERTS_UP_BIAS] = offsetof(lh_layer, experts_up_bias),
    [LH_TENSOR_EXPERTS_DOWN_BIAS] = offsetof(lh_layer, experts_down_bias),
    [LH_TENSOR_EXPERTS_GATE] = offsetof(lh_layer, experts_gate),
    [LH_TENSOR_EXPERTS_UP] = offsetof(lh_layer, experts_up),
    [LH_TENSOR_EXPERTS_DOWN] = offsetof(lh_layer, experts_down),
    [LH_TENSOR_SHARED_ROUTER] = offsetof(lh_layer, shared_router),
    [LH_TENSOR_SHARED_GATE] = offsetof(lh_layer, shared_gate),
    [LH_TENSOR_SHARED_UP] = offsetof(lh_layer, shared_up),
    [LH_TENSOR_SHARED_DOWN] = offsetof(lh_layer, shared_down),
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

/* Of one matrix of `outputs` rows of a tensor, which has shape[2] of them. */
static size_t matrix_bytes(const lh_gguf_tensor *tensor, uint32_t outputs) {
    return lh_matrix_bytes((lh_dtype)tensor->type, outputs, (uint32_t)tensor->shape[0]);
}

/* 0: on overflow. */
static size_t packed_bytes(const lh_gguf_tensor *tensor, const lh_tensor_part *part) {
    size_t bytes;
    if (!lh_model_is_matrix(part->role))
        return (size_t)part->count * sizeof(float);
    return __builtin_mul_overflow(matrix_bytes(tensor, (uint32_t)part->count),
                                  (size_t)tensor->shape[2], &bytes)
               ? 0
               : bytes;
}

static size_t row_bytes(const lh_gguf_tensor *tensor) {
    return (size_t)(tensor->bytes / tensor->shape[1] / tensor->shape[2]);
}

static uint32_t rows_at_a_time(const lh_gguf_tensor *tensor) {
    size_t rows = PACK_BYTES_MAX / row_bytes(tensor) / LH_LANES * LH_LANES;
    return rows < LH_LANES ? LH_LANES : rows > PACK_ROWS_MAX ? PACK_ROWS_MAX : (uint32_t)rows;
}

static lh_kv_matrix kv_matrix_of(const lh_loader *loader, const lh_gguf_tensor *tensor) {
    const lh_model_config *config = loader->config;
    return (lh_kv_matrix){.dtype = (lh_dtype)tensor->type,
                          .rank = config->latent.rank,
                          .key_dim = config->head_dim - config->rope_dims,
                          .value_dim = config->latent.value_dim};
}

/* A head's rows as they are in the file, before the scratch that splitting them takes. */
static size_t kv_rows_bytes(const lh_kv_matrix *shape, const lh_gguf_tensor *tensor) {
    return round_up(((size_t)shape->key_dim + shape->value_dim) * row_bytes(tensor));
}

static void reserve_piece(lh_loader *loader, size_t bytes) {
    if (bytes > loader->piece_bytes)
        loader->piece_bytes = bytes;
}

static bool is_of_rope(lh_tensor_role role) {
    return role == LH_TENSOR_ROPE_FACTORS || role == LH_TENSOR_ROPE_LONG_FACTORS ||
           role == LH_TENSOR_ROPE_SHORT_FACTORS;
}

static lh_status add_bytes(lh_loader *loader, size_t bytes, const lh_gguf_tensor *tensor,
                           lh_error *error) {
    if (bytes == 0 || bytes > SIZE_MAX / 2 - loader->weights->memory_bytes) {
        return lh_fail(error, LH_ERR_LIMIT, "GGUF tensor %.*s is too large",
                       (int)tensor->name.length, tensor->name.bytes);
    }
    loader->weights->memory_bytes += round_up(bytes);
    loader->largest = bytes > loader->largest ? bytes : loader->largest;
    return LH_OK;
}

static lh_status add_kv_size(lh_loader *loader, const lh_gguf_tensor *tensor, lh_error *error) {
    const lh_kv_matrix kv = kv_matrix_of(loader, tensor);
    size_t heads = loader->config->heads;
    reserve_piece(loader, kv_rows_bytes(&kv, tensor) + lh_kv_matrix_scratch_bytes(&kv));
    size_t keys = heads * lh_kv_matrix_key_bytes(&kv),
           values = heads * lh_kv_matrix_value_bytes(&kv);
    lh_status status = add_bytes(loader, keys, tensor, error);
    if (status == LH_OK)
        status = add_bytes(loader, values, tensor, error);
    if (status == LH_OK && round_up(keys) + values > loader->largest) /* packed together */
        loader->largest = round_up(keys) + values;
    return status;
}

/* lh_tensor_visitor */
static lh_status add_size(void *context, lh_tensor_role role, uint32_t layer,
                          const lh_gguf_tensor *tensor, lh_error *error) {
    lh_loader *loader = context;
    lh_tensor_part parts[LH_TENSOR_PARTS_MAX];
    (void)layer;
    loader->source_bytes += tensor->bytes;
    if (is_of_rope(role)) {
        reserve_piece(loader, (size_t)tensor->bytes);
        return LH_OK;
    }
    if (role == LH_TENSOR_ATTN_KV_B)
        return add_kv_size(loader, tensor, error);
    uint32_t count = lh_model_tensor_parts(loader->config, role, parts);
    for (uint32_t i = 0; i < count; i++) {
        lh_status status = add_bytes(loader, packed_bytes(tensor, &parts[i]), tensor, error);
        if (status != LH_OK)
            return status;
    }
    if (lh_model_is_matrix(role))
        reserve_piece(loader, rows_at_a_time(tensor) * row_bytes(tensor));
    return LH_OK;
}

static void *take(lh_loader *loader, size_t bytes) {
    void *memory = (char *)loader->weights->memory + loader->used;
    loader->used += round_up(bytes);
    assert(loader->used <= loader->weights->memory_bytes);
    return memory;
}

/* Where the host packs what is to lie at `place`. */
static void *packing_place(const lh_loader *loader, void *place) {
    return loader->beside ? loader->beside : place;
}

static void bring(const lh_loader *loader, void *place, size_t bytes) {
    if (loader->beside)
        loader->compute->ops->put(loader->compute, place, loader->beside, bytes);
}

static lh_status read_bytes(const lh_loader *loader, const lh_gguf_tensor *tensor, uint64_t offset,
                            void *bytes, size_t length, lh_error *error) {
    return loader->source->read(loader->source->context, tensor, offset, bytes, length, error);
}

typedef struct lh_packing {
    const lh_loader *loader;
    const lh_gguf_tensor *tensor;
    const lh_expert_matrices *matrices; /* one, or one for each expert or head */
    uint64_t first;                     /* row of the tensor */
    uint32_t rows, parts_each;          /* rows of a part, parts of a matrix */
    const lh_expert_matrices *values;   /* beside `matrices`, which are of keys */
    _Atomic lh_status status;           /* the first that is not LH_OK */
    lh_error error;
} lh_packing;

/* The first failure counts. */
static void note(lh_packing *packing, lh_status status, const lh_error *problem) {
    lh_status none = LH_OK;
    if (status != LH_OK && atomic_compare_exchange_strong(&packing->status, &none, status))
        packing->error = *problem;
}

static void pack_part(void *context, uint32_t part, uint32_t thread) {
    lh_packing *packing = context;
    const lh_loader *loader = packing->loader;
    uint32_t number = part / packing->parts_each;
    const lh_matrix matrix = lh_expert_matrix(packing->matrices, number);
    uint32_t begin = part % packing->parts_each * packing->rows, left = matrix.outputs - begin;
    uint32_t rows = left < packing->rows ? left : packing->rows;
    size_t row = row_bytes(packing->tensor);
    uint8_t *piece = loader->pieces + thread * loader->piece_bytes;
    lh_error problem;
    if (atomic_load(&packing->status) != LH_OK)
        return;
    uint64_t before = number * packing->tensor->shape[1] + packing->first + begin;
    lh_status status =
        read_bytes(loader, packing->tensor, before * row, piece, rows * row, &problem);
    if (status == LH_OK)
        lh_matrix_pack(&matrix, piece, (lh_span){begin, begin + rows});
    note(packing, status, &problem);
}

static lh_status run_packing(const lh_loader *loader, uint32_t parts, lh_packing *packing,
                             void (*part)(void *, uint32_t, uint32_t), lh_error *error) {
    lh_thread_pool_run(loader->compute->pool, parts, part, packing);
    lh_status status = atomic_load(&packing->status);
    return status == LH_OK ? LH_OK : lh_fail(error, status, "%s", packing->error.message);
}

static lh_status load_matrices(lh_loader *loader, lh_expert_matrices *matrices,
                               const lh_gguf_tensor *tensor, const lh_tensor_part *part,
                               lh_error *error) {
    uint32_t rows = rows_at_a_time(tensor), outputs = (uint32_t)part->count;
    *matrices = (lh_expert_matrices){.first = {.dtype = (lh_dtype)tensor->type,
                                               .outputs = outputs,
                                               .inputs = (uint32_t)tensor->shape[0],
                                               .data = take(loader, packed_bytes(tensor, part))},
                                     .each_bytes = matrix_bytes(tensor, outputs)};
    lh_expert_matrices packed = *matrices;
    packed.first.data = packing_place(loader, matrices->first.data);
    lh_packing packing = {.loader = loader,
                          .tensor = tensor,
                          .matrices = &packed,
                          .first = part->first,
                          .rows = rows,
                          .parts_each = (outputs + rows - 1) / rows};
    lh_status status = run_packing(loader, packing.parts_each * (uint32_t)tensor->shape[2],
                                   &packing, pack_part, error);
    if (status == LH_OK)
        bring(loader, matrices->first.data, packed_bytes(tensor, part));
    return status;
}

static void split_part(void *context, uint32_t head, uint32_t thread) {
    lh_packing *packing = context;
    const lh_loader *loader = packing->loader;
    const lh_kv_matrix shape = kv_matrix_of(loader, packing->tensor);
    const lh_matrix keys = lh_expert_matrix(packing->matrices, head),
                    values = lh_expert_matrix(packing->values, head);
    size_t row = row_bytes(packing->tensor), rows = (size_t)shape.key_dim + shape.value_dim;
    uint8_t *piece = loader->pieces + thread * loader->piece_bytes;
    lh_error problem;
    if (atomic_load(&packing->status) != LH_OK)
        return;
    lh_status status =
        read_bytes(loader, packing->tensor, head * rows * row, piece, rows * row, &problem);
    if (status == LH_OK) {
        lh_kv_matrix_split(&shape, piece, row, keys.data, values.data,
                           piece + kv_rows_bytes(&shape, packing->tensor));
    }
    note(packing, status, &problem);
}

static lh_status load_kv_matrix(lh_loader *loader, lh_layer *layer, const lh_gguf_tensor *tensor,
                                lh_error *error) {
    const lh_kv_matrix shape = kv_matrix_of(loader, tensor);
    size_t keys = lh_kv_matrix_key_bytes(&shape), values = lh_kv_matrix_value_bytes(&shape);
    uint32_t heads = loader->config->heads;
    layer->k_b = (lh_expert_matrices){{.dtype = LH_DTYPE_F32,
                                       .outputs = shape.rank,
                                       .inputs = shape.key_dim,
                                       .data = take(loader, heads * keys)},
                                      keys};
    layer->v_b = (lh_expert_matrices){{.dtype = shape.dtype,
                                       .outputs = shape.value_dim,
                                       .inputs = shape.rank,
                                       .data = take(loader, heads * values)},
                                      values};
    lh_expert_matrices packed_keys = layer->k_b, packed_values = layer->v_b;
    packed_keys.first.data = packing_place(loader, layer->k_b.first.data);
    if (loader->beside)
        packed_values.first.data = loader->beside + round_up(heads * keys);
    lh_packing packing = {
        .loader = loader, .tensor = tensor, .matrices = &packed_keys, .values = &packed_values};
    lh_status status = run_packing(loader, heads, &packing, split_part, error);
    if (status == LH_OK) /* the two lie behind each other in both places */
        bring(loader, layer->k_b.first.data, round_up(heads * keys) + heads * values);
    return status;
}

static lh_status load_matrix(lh_loader *loader, lh_matrix *matrix, const lh_gguf_tensor *tensor,
                             const lh_tensor_part *part, lh_error *error) {
    lh_expert_matrices alone;
    lh_status status = load_matrices(loader, &alone, tensor, part, error);
    *matrix = alone.first;
    return status;
}

static lh_status load_vector(lh_loader *loader, const float **vector, const lh_gguf_tensor *tensor,
                             const lh_tensor_part *part, lh_error *error) {
    size_t size = packed_bytes(tensor, part);
    void *memory = take(loader, size);
    *vector = memory;
    lh_status status = read_bytes(loader, tensor, part->first * sizeof(float),
                                  packing_place(loader, memory), size, error);
    if (status == LH_OK)
        bring(loader, memory, size);
    return status;
}

/* Of long and short factors those count that the context asks for. */
static lh_status load_rope_factors(lh_loader *loader, lh_tensor_role role,
                                   const lh_gguf_tensor *tensor, lh_error *error) {
    bool is_long = loader->context > loader->config->rope[LH_LAYER_FULL].original_context;
    if (role == (is_long ? LH_TENSOR_ROPE_SHORT_FACTORS : LH_TENSOR_ROPE_LONG_FACTORS))
        return LH_OK;
    lh_status status = read_bytes(loader, tensor, 0, loader->pieces, (size_t)tensor->bytes, error);
    return status == LH_OK ? lh_rope_table_divide(&loader->weights->rope, loader->pieces, error)
                           : status;
}

static lh_status load_part(lh_loader *loader, uint32_t layer, const lh_gguf_tensor *tensor,
                           const lh_tensor_part *part, lh_error *error) {
    void *slot = slot_of(loader, part->role, layer);
    bool is_stack = lh_model_is_of_experts(part->role) || lh_model_is_of_heads(part->role);
    return is_stack                         ? load_matrices(loader, slot, tensor, part, error)
           : lh_model_is_matrix(part->role) ? load_matrix(loader, slot, tensor, part, error)
                                            : load_vector(loader, slot, tensor, part, error);
}

/* lh_tensor_visitor */
static lh_status load_tensor(void *context, lh_tensor_role role, uint32_t layer,
                             const lh_gguf_tensor *tensor, lh_error *error) {
    lh_loader *loader = context;
    lh_tensor_part parts[LH_TENSOR_PARTS_MAX];
    uint32_t count = is_of_rope(role) || role == LH_TENSOR_ATTN_KV_B
                         ? 0
                         : lh_model_tensor_parts(loader->config, role, parts);
    lh_status status = loader->source->acquire(loader->source->context, tensor, error);
    if (status != LH_OK)
        return status;
    if (is_of_rope(role))
        status = load_rope_factors(loader, role, tensor, error);
    if (role == LH_TENSOR_ATTN_KV_B) {
        status = load_kv_matrix(loader, &loader->weights->layers[layer - loader->range.first],
                                tensor, error);
    }
    for (uint32_t i = 0; i < count && status == LH_OK; i++)
        status = load_part(loader, layer, tensor, &parts[i], error);
    loader->source->release(loader->source->context, tensor);
    loader->source_done += tensor->bytes;
    if (status == LH_OK && loader->progress->on_progress) {
        loader->progress->on_progress(loader->progress->context, loader->source_done,
                                      loader->source_bytes);
    }
    return status;
}

static lh_status make_pieces(lh_loader *loader, lh_error *error) {
    uint32_t threads = lh_thread_pool_size(loader->compute->pool);
    loader->piece_bytes = round_up(loader->piece_bytes);
    loader->pieces = lh_aligned_array_allocate(threads, loader->piece_bytes);
    return loader->pieces
               ? LH_OK
               : lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for %u times %zu bytes of rows",
                         threads, loader->piece_bytes);
}

static lh_status map_memory(lh_loader *loader, lh_error *error) {
    const lh_compute *compute = loader->compute;
    lh_parameters *weights = loader->weights;
    weights->memory = compute->ops->map(compute, weights->memory_bytes, false);
    if (!weights->memory) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for %zu bytes of weights",
                       weights->memory_bytes);
    }
    if (compute->ops->is_host)
        return LH_OK;
    loader->beside = lh_aligned_array_allocate(loader->largest, 1);
    return loader->beside ? LH_OK
                          : lh_fail(error, LH_ERR_NO_MEMORY,
                                    "out of memory for a tensor of %zu bytes", loader->largest);
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

lh_status lh_parameters_count(const lh_gguf *gguf, const lh_model_config *config,
                              lh_layer_range range, size_t *bytes, lh_error *error) {
    lh_parameters weights = {0};
    lh_loader loader = {.config = config, .range = range, .weights = &weights};
    lh_status status = lh_model_visit_tensors(gguf, config, range, add_size, &loader, error);
    *bytes = weights.memory_bytes;
    return status;
}

lh_status lh_parameters_load(const lh_gguf *gguf, const lh_model_config *config,
                             lh_layer_range range, uint32_t context, const lh_weight_source *source,
                             const lh_compute *compute, const lh_load_progress *progress,
                             lh_parameters *weights, lh_error *error) {
    *weights = (lh_parameters){.layer_count = range.last - range.first};
    lh_loader loader = {.config = config,
                        .range = range,
                        .context = context,
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
    for (uint32_t i = 0; i < weights->layer_count && status == LH_OK; i++) {
        lh_layer *layer = &weights->layers[i];
        layer->kind = lh_model_layer_kind(config, range.first + i);
        layer->angles = config->windows_turn_alike ? LH_LAYER_FULL : layer->kind;
        layer->is_rotated = lh_model_layer_is_rotated(config, range.first + i);
    }
    if (status == LH_OK)
        status = lh_model_visit_tensors(gguf, config, range, add_size, &loader, error);
    if (status == LH_OK)
        status = map_memory(&loader, error);
    if (status == LH_OK)
        status = make_pieces(&loader, error);
    if (status == LH_OK)
        status = lh_rope_table_init(&weights->rope, config, error);
    if (status == LH_OK)
        status = lh_model_visit_tensors(gguf, config, range, load_tensor, &loader, error);
    free(loader.beside);
    free(loader.pieces);
    if (status == LH_OK)
        status = compute->ops->settle(compute, error);
    if (status != LH_OK) {
        lh_parameters_reset(weights, compute);
        return status;
    }
    tie_head(&loader);
    return LH_OK;
}

void lh_parameters_reset(lh_parameters *weights, const lh_compute *compute) {
    compute->ops->unmap(compute, weights->memory, weights->memory_bytes);
    lh_rope_table_reset(&weights->rope);
    free(weights->layers);
    *weights = (lh_parameters){0};
}
