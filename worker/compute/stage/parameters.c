/* Loading goes twice over the tensors of the range: once to add up the packed sizes, once to pack
 * into the block. Threads read and pack a few rows at a time, so that beside the block it takes
 * little memory, however large a tensor is. */
#include "worker/compute/stage/parameters.h"

#include "worker/compute/stage/aligned_array.h"
#include "worker/compute/stage/kv_matrix.h"
#include "worker/compute/stage/packing.h"

#include <assert.h>
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
    const lh_division *division;
    uint32_t context;
    const lh_weight_source *source;
    const lh_compute *compute;
    const lh_load_progress *progress;
    lh_parameters *weights;
    size_t used;
    uint64_t source_bytes, source_done;
    size_t piece_bytes; /* the most that a thread reads at a time */
    uint8_t *pieces;    /* [threads][piece_bytes] */
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

/* Of one matrix of `outputs` rows of a tensor, which has shape[2] of them. */
static size_t matrix_bytes(const lh_gguf_tensor *tensor, uint32_t outputs) {
    return lh_matrix_bytes((lh_dtype)tensor->type, outputs, (uint32_t)tensor->shape[0]);
}

/* The heads that a member has of the model's. */
static lh_span own_heads(const lh_loader *loader) {
    const lh_span all = {0, loader->config->heads};
    return loader->division->members < 2
               ? all
               : lh_division_own(loader->division, &loader->division->heads);
}

/* The matrices that it holds of a tensor that has several, or is one. */
static lh_span stack_of(const lh_loader *loader, const lh_gguf_tensor *tensor,
                        lh_tensor_role role) {
    return lh_model_is_of_heads(role) ? own_heads(loader)
                                      : (lh_span){0, (uint32_t)tensor->shape[2]};
}

/* Elements that it holds of a vector, or of each vector where a tensor has one for each expert. */
static uint64_t elements_of_each(const lh_gguf_tensor *tensor, const lh_tensor_part *part) {
    return part->count < tensor->shape[0] ? part->count : tensor->shape[0];
}

/* 0: on overflow. */
static size_t packed_bytes(const lh_loader *loader, const lh_gguf_tensor *tensor,
                           const lh_tensor_part *part) {
    size_t bytes;
    const lh_span stack = stack_of(loader, tensor, part->role);
    if (!lh_model_is_matrix(part->role))
        return (size_t)(elements_of_each(tensor, part) * tensor->shape[1]) * sizeof(float);
    return __builtin_mul_overflow(matrix_bytes(tensor, (uint32_t)part->count),
                                  (size_t)(stack.end - stack.begin), &bytes)
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
    return lh_aligned_bytes(((size_t)shape->key_dim + shape->value_dim) * row_bytes(tensor));
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
    loader->weights->memory_bytes += lh_aligned_bytes(bytes);
    return LH_OK;
}

static lh_status add_kv_size(lh_loader *loader, const lh_gguf_tensor *tensor, lh_error *error) {
    const lh_kv_matrix kv = kv_matrix_of(loader, tensor);
    const lh_span own = own_heads(loader);
    size_t heads = own.end - own.begin;
    reserve_piece(loader, kv_rows_bytes(&kv, tensor) + lh_kv_matrix_scratch_bytes(&kv));
    size_t keys = heads * lh_kv_matrix_key_bytes(&kv),
           values = heads * lh_kv_matrix_value_bytes(&kv);
    lh_status status = add_bytes(loader, keys, tensor, error);
    return status == LH_OK ? add_bytes(loader, values, tensor, error) : status;
}

/* What the stage holds of a tensor, part by part; returns how many there are. */
static uint32_t parts_of(const lh_loader *loader, lh_tensor_role role,
                         lh_tensor_part parts[LH_TENSOR_PARTS_MAX]) {
    const uint32_t count = lh_model_tensor_parts(loader->config, role, parts);
    for (uint32_t i = 0; i < count; i++) {
        const bool is_head = role == LH_TENSOR_EMBEDDING && loader->range.first > 0;
        lh_division_cut(loader->division, is_head ? LH_TENSOR_HEAD : parts[i].role, &parts[i]);
    }
    return count;
}

/* Keys and values of its own heads, in one matrix. */
static lh_tensor_slice slice_of_kv(const lh_loader *loader, const lh_gguf_tensor *tensor) {
    const lh_kv_matrix kv = kv_matrix_of(loader, tensor);
    const uint64_t head = ((uint64_t)kv.key_dim + kv.value_dim) * row_bytes(tensor);
    const lh_span own = own_heads(loader);
    return (lh_tensor_slice){own.begin * head, (own.end - own.begin) * head, 0, 1};
}

/* The part's rows, in each of the matrices that it holds. */
static lh_tensor_slice slice_of_part(const lh_loader *loader, const lh_gguf_tensor *tensor,
                                     const lh_tensor_part *part) {
    const lh_span stack = stack_of(loader, tensor, part->role);
    const uint64_t row = row_bytes(tensor), matrix = tensor->shape[1] * row;
    return (lh_tensor_slice){stack.begin * matrix + part->first * row, part->count * row, matrix,
                             stack.end - stack.begin};
}

/* Vectors are small. */
uint32_t lh_parameters_slices(const lh_model_config *config, lh_layer_range range,
                              const lh_division *division, lh_tensor_role role,
                              const lh_gguf_tensor *tensor,
                              lh_tensor_slice slices[LH_TENSOR_PARTS_MAX]) {
    const lh_loader loader = {.config = config, .range = range, .division = division};
    lh_tensor_part parts[LH_TENSOR_PARTS_MAX];
    slices[0] = (lh_tensor_slice){0, tensor->bytes, 0, 1};
    if (role == LH_TENSOR_ATTN_KV_B)
        slices[0] = slice_of_kv(&loader, tensor);
    if (role == LH_TENSOR_ATTN_KV_B || !lh_model_is_matrix(role))
        return 1;
    const uint32_t count = parts_of(&loader, role, parts);
    for (uint32_t i = 0; i < count; i++)
        slices[i] = slice_of_part(&loader, tensor, &parts[i]);
    return count;
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
    uint32_t count = parts_of(loader, role, parts);
    for (uint32_t i = 0; i < count; i++) {
        lh_status status =
            add_bytes(loader, packed_bytes(loader, tensor, &parts[i]), tensor, error);
        if (status != LH_OK)
            return status;
    }
    if (lh_model_is_matrix(role))
        reserve_piece(loader, rows_at_a_time(tensor) * row_bytes(tensor));
    return LH_OK;
}

static void *take(lh_loader *loader, size_t bytes) {
    void *memory = (char *)loader->weights->memory + loader->used;
    loader->used += lh_aligned_bytes(bytes);
    assert(loader->used <= loader->weights->memory_bytes);
    return memory;
}

static lh_status read_bytes(const lh_loader *loader, const lh_gguf_tensor *tensor, uint64_t offset,
                            void *bytes, size_t length, lh_error *error) {
    return loader->source->read(loader->source->context, tensor, offset, bytes, length, error);
}

/* To `arrays` of the device's or the host's memory; the caller says what the parts are. */
static lh_packing packing_of(const lh_loader *loader, const lh_gguf_tensor *tensor, uint32_t parts,
                             const void *context) {
    return (lh_packing){.compute = loader->compute,
                        .tensor = tensor,
                        .scratch = loader->pieces,
                        .scratch_bytes = loader->piece_bytes,
                        .parts = parts,
                        .array_count = 1,
                        .context = context};
}

/* ---- Matrices: parts are some rows of one ---- */

typedef struct lh_matrix_parts {
    const lh_loader *loader;
    const lh_gguf_tensor *tensor;
    lh_matrix matrix;               /* one of those that the tensor holds */
    uint32_t before;                /* matrices of the tensor that others hold */
    uint64_t first_row;             /* of each */
    uint32_t rows_each, parts_each; /* rows of a part, parts of a matrix */
} lh_matrix_parts;

/* Whole tiles, so that each part is a matrix of its own. */
static lh_span rows_of_part(const lh_matrix_parts *parts, uint32_t part) {
    const uint32_t begin = part % parts->parts_each * parts->rows_each,
                   left = parts->matrix.outputs - begin;
    return (lh_span){begin, begin + (left < parts->rows_each ? left : parts->rows_each)};
}

static size_t rows_offset(const void *context, uint32_t array, uint32_t part) {
    const lh_matrix_parts *parts = context;
    const lh_matrix *matrix = &parts->matrix;
    (void)array;
    return part / parts->parts_each *
               lh_matrix_bytes(matrix->dtype, matrix->outputs, matrix->inputs) +
           lh_matrix_bytes(matrix->dtype, rows_of_part(parts, part).begin, matrix->inputs);
}

static lh_status pack_rows(const void *context, uint32_t part, void *const *places,
                           uint8_t *scratch, lh_error *error) {
    const lh_matrix_parts *parts = context;
    const lh_span rows = rows_of_part(parts, part);
    const uint32_t count = rows.end - rows.begin;
    const size_t row = row_bytes(parts->tensor);
    const uint64_t before =
        (uint64_t)(parts->before + part / parts->parts_each) * parts->tensor->shape[1] +
        parts->first_row + rows.begin;
    const lh_matrix some = {parts->matrix.dtype, count, parts->matrix.inputs, places[0]};
    lh_status status =
        read_bytes(parts->loader, parts->tensor, before * row, scratch, count * row, error);
    if (status == LH_OK)
        lh_matrix_pack(&some, scratch, (lh_span){0, count});
    return status;
}

static lh_status load_matrices(lh_loader *loader, lh_expert_matrices *matrices,
                               const lh_gguf_tensor *tensor, const lh_tensor_part *part,
                               lh_error *error) {
    const lh_span stack = stack_of(loader, tensor, part->role);
    uint32_t rows = rows_at_a_time(tensor), outputs = (uint32_t)part->count;
    *matrices =
        (lh_expert_matrices){.first = {.dtype = (lh_dtype)tensor->type,
                                       .outputs = outputs,
                                       .inputs = (uint32_t)tensor->shape[0],
                                       .data = take(loader, packed_bytes(loader, tensor, part))},
                             .each_bytes = matrix_bytes(tensor, outputs)};
    const lh_matrix_parts parts = {.loader = loader,
                                   .tensor = tensor,
                                   .matrix = matrices->first,
                                   .before = stack.begin,
                                   .first_row = part->first,
                                   .rows_each = rows,
                                   .parts_each = (outputs + rows - 1) / rows};
    lh_packing packing =
        packing_of(loader, tensor, parts.parts_each * (stack.end - stack.begin), &parts);
    packing.arrays[0] = matrices->first.data;
    packing.offset = rows_offset;
    packing.pack = pack_rows;
    return lh_packing_run(&packing, error);
}

/* ---- Latent attention's keys and values: parts are heads ---- */

typedef struct lh_head_parts {
    const lh_loader *loader;
    const lh_gguf_tensor *tensor;
    lh_kv_matrix shape;
    uint32_t before; /* heads that others hold */
} lh_head_parts;

static size_t head_offset(const void *context, uint32_t array, uint32_t part) {
    const lh_head_parts *parts = context;
    return part * (array == 0 ? lh_kv_matrix_key_bytes(&parts->shape)
                              : lh_kv_matrix_value_bytes(&parts->shape));
}

static lh_status split_head(const void *context, uint32_t part, void *const *places,
                            uint8_t *scratch, lh_error *error) {
    const lh_head_parts *parts = context;
    const lh_kv_matrix *shape = &parts->shape;
    const size_t row = row_bytes(parts->tensor),
                 head = ((size_t)shape->key_dim + shape->value_dim) * row;
    lh_status status = read_bytes(parts->loader, parts->tensor, (parts->before + part) * head,
                                  scratch, head, error);
    if (status == LH_OK)
        lh_kv_matrix_split(shape, scratch, row, places[0], places[1],
                           scratch + kv_rows_bytes(shape, parts->tensor));
    return status;
}

static lh_status load_kv_matrix(lh_loader *loader, lh_layer *layer, const lh_gguf_tensor *tensor,
                                lh_error *error) {
    const lh_kv_matrix shape = kv_matrix_of(loader, tensor);
    size_t keys = lh_kv_matrix_key_bytes(&shape), values = lh_kv_matrix_value_bytes(&shape);
    const lh_span own = own_heads(loader);
    uint32_t heads = own.end - own.begin;
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
    const lh_head_parts parts = {loader, tensor, shape, own.begin};
    lh_packing packing = packing_of(loader, tensor, heads, &parts);
    packing.array_count = 2;
    packing.arrays[0] = layer->k_b.first.data;
    packing.arrays[1] = layer->v_b.first.data;
    packing.offset = head_offset;
    packing.pack = split_head;
    return lh_packing_run(&packing, error);
}

static lh_status load_matrix(lh_loader *loader, lh_matrix *matrix, const lh_gguf_tensor *tensor,
                             const lh_tensor_part *part, lh_error *error) {
    lh_expert_matrices alone;
    lh_status status = load_matrices(loader, &alone, tensor, part, error);
    *matrix = alone.first;
    return status;
}

/* ---- Vectors: parts are whole ones, of which a tensor may have one for each expert ---- */

typedef struct lh_vector_parts {
    const lh_loader *loader;
    const lh_gguf_tensor *tensor;
    uint64_t first, each; /* elements of each that are its own */
} lh_vector_parts;

static size_t vector_offset(const void *context, uint32_t array, uint32_t part) {
    const lh_vector_parts *parts = context;
    (void)array;
    return (size_t)(part * parts->each) * sizeof(float);
}

static lh_status read_vector(const void *context, uint32_t part, void *const *places,
                             uint8_t *scratch, lh_error *error) {
    const lh_vector_parts *parts = context;
    (void)scratch;
    return read_bytes(parts->loader, parts->tensor,
                      (part * parts->tensor->shape[0] + parts->first) * sizeof(float), places[0],
                      (size_t)parts->each * sizeof(float), error);
}

static lh_status load_vector(lh_loader *loader, const float **vector, const lh_gguf_tensor *tensor,
                             const lh_tensor_part *part, lh_error *error) {
    const lh_vector_parts parts = {loader, tensor, part->first, elements_of_each(tensor, part)};
    lh_packing packing = packing_of(loader, tensor, (uint32_t)tensor->shape[1], &parts);
    packing.arrays[0] = take(loader, packed_bytes(loader, tensor, part));
    packing.offset = vector_offset;
    packing.pack = read_vector;
    *vector = packing.arrays[0];
    return lh_packing_run(&packing, error);
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
    uint32_t count =
        is_of_rope(role) || role == LH_TENSOR_ATTN_KV_B ? 0 : parts_of(loader, role, parts);
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
    loader->piece_bytes = lh_aligned_bytes(loader->piece_bytes);
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
    return weights->memory
               ? LH_OK
               : lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for %zu bytes of weights",
                         weights->memory_bytes);
}

/* Rows of a matrix, from a whole tile on, as one of its own. */
static lh_matrix rows_of(const lh_matrix *matrix, lh_span rows) {
    lh_matrix some = *matrix;
    some.outputs = rows.end - rows.begin;
    some.data = (char *)matrix->data + lh_matrix_bytes(matrix->dtype, rows.begin, matrix->inputs);
    return some;
}

static void tie_head(const lh_loader *loader) {
    lh_parameters *weights = loader->weights;
    const lh_division *division = loader->division;
    if (lh_model_has(loader->config, LH_TENSOR_HEAD) ||
        loader->range.last != loader->config->layers) {
        return;
    }
    if (loader->range.first == 0) {
        weights->head = rows_of(&weights->embedding, lh_division_own(division, &division->tokens));
        return;
    }
    weights->head = weights->embedding;
    weights->embedding = (lh_matrix){0};
}

lh_status lh_parameters_count(const lh_gguf *gguf, const lh_model_config *config,
                              lh_layer_range range, const lh_division *division, size_t *bytes,
                              lh_error *error) {
    lh_parameters weights = {0};
    lh_loader loader = {
        .config = config, .range = range, .division = division, .weights = &weights};
    lh_status status = lh_model_visit_tensors(gguf, config, range, add_size, &loader, error);
    *bytes = weights.memory_bytes;
    return status;
}

lh_status lh_parameters_load(const lh_gguf *gguf, const lh_model_config *config,
                             lh_layer_range range, const lh_division *division, uint32_t context,
                             const lh_weight_source *source, const lh_compute *compute,
                             const lh_load_progress *progress, lh_parameters *weights,
                             lh_error *error) {
    *weights = (lh_parameters){.layer_count = range.last - range.first};
    lh_loader loader = {.config = config,
                        .range = range,
                        .division = division,
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
