/* On CPUs each operation is a struct of its arguments, a function that computes one part of it, and
 * the call that runs it. */
#include "worker/compute/stage/ops.h"

#include "common/base/arithmetic.h"
#include "worker/compute/stage/aligned_array.h"
#include "worker/compute/stage/attention_partials.h"
#include "worker/compute/stage/expert_slots.h"
#include "worker/compute/stage/latent.h"
#include "worker/compute/stage/work_parts.h"

#include <stdlib.h>

#include <string.h>
#include <sys/mman.h>

/* Runs whose keys and values the caller stores faster alone. */
#define STORE_ALONE_RUNS 8u

/* ---- Packing ---- */

typedef struct lh_pack_arguments {
    const lh_kernels *kernels;
    const lh_packed *packed;
    uint32_t rows;
    lh_span columns;
    const float *x;
    size_t stride;
    const float *gain;
    float *squares;
    uint32_t parts;
} lh_pack_arguments;

static void pack_part(const lh_pack_arguments *a, lh_span rows, lh_span columns) {
    const float *x = a->x + rows.begin * a->stride;
    float *squares = !a->squares ? NULL : a->squares + (size_t)rows.begin * LH_LANES;
    for (unsigned kind = 0; kind < LH_ACTIVATION_KINDS; kind++) {
        if (a->packed->data[kind]) {
            lh_activations part = lh_packed_rows(a->packed, (lh_activation_kind)kind, rows);
            a->kernels->pack_activations(&part, columns, x, a->stride, a->gain, squares);
            squares = NULL; /* counted once */
        }
    }
}

static void pack_rows(void *context, uint32_t part, uint32_t thread) {
    const lh_pack_arguments *a = context;
    (void)thread;
    pack_part(a, lh_part_of(a->rows, LH_PART_ROWS, part, a->parts), a->columns);
}

static void pack_with(const lh_compute *compute, const lh_packed *packed, uint32_t rows,
                      lh_span columns, const float *x, size_t stride, const float *gain,
                      float *squares) {
    uint32_t parts = lh_parts_of_small(compute, lh_units_in(rows, LH_PART_ROWS),
                                       (uint64_t)rows * (columns.end - columns.begin));
    lh_pack_arguments arguments = {compute->kernels, packed, rows,    columns, x,
                                   stride,           gain,   squares, parts};
    lh_thread_pool_run(compute->pool, parts, pack_rows, &arguments);
}

static void pack(const lh_compute *compute, const lh_packed *packed, uint32_t rows, lh_span columns,
                 const float *x, size_t stride, const float *gain) {
    pack_with(compute, packed, rows, columns, x, stride, gain, NULL);
}

static void norm(const lh_compute *compute, const lh_packed *packed, uint32_t rows, lh_span columns,
                 const float *x, size_t stride, const float *gain, float *squares, float *scale,
                 float epsilon) {
    if (columns.begin == 0)
        memset(squares, 0, (size_t)rows * LH_LANES * sizeof *squares);
    pack_with(compute, packed, rows, columns, x, stride, gain, squares);
    if (columns.end == packed->width)
        compute->kernels->rms_scale(scale, squares, rows, packed->width, epsilon);
}

/* ---- Products ---- */

typedef struct lh_products_arguments {
    const lh_compute *compute;
    const lh_product *products;
    uint32_t count;
    const lh_packed *x;
    lh_span in;
    bool continues;
    const float *scale;
    uint32_t units, parts; /* LH_SPAN_COLUMNS outputs each, of all products */
} lh_products_arguments;

static void product_part(const lh_products_arguments *a, const lh_product *product, lh_span out) {
    const lh_kernels *kernels = a->compute->kernels;
    lh_activation_kind kind =
        lh_activation_kind_for(product->matrix.dtype, a->compute->activations);
    const lh_activations x = lh_packed_rows(a->x, kind, product->rows);
    float *y = product->y + product->rows.begin * product->stride;
    const float *scale = a->scale ? a->scale + product->rows.begin : NULL;
    kernels->matmul(y, product->stride, &x, &product->matrix, a->in, out, a->continues);
    if (scale && product->bias)
        kernels->scale_add_rows(y, product->stride, x.rows, out, scale, product->bias);
    else if (scale)
        kernels->scale_rows(y, product->stride, x.rows, out, scale);
}

static uint32_t units_of(const lh_product *product) {
    return lh_units_in(product->out.end - product->out.begin, LH_SPAN_COLUMNS);
}

/* The output spans of all products are one row of units, cut into equal parts. */
static void products_part(void *context, uint32_t part, uint32_t thread) {
    const lh_products_arguments *a = context;
    lh_span mine = lh_part_of(a->units, 1, part, a->parts);
    uint32_t before = 0;
    (void)thread;
    for (uint32_t i = 0; i < a->count; i++) {
        const lh_product *product = &a->products[i];
        uint32_t here = units_of(product);
        uint32_t first = mine.begin > before ? lh_min_u32(mine.begin - before, here) : 0;
        uint32_t last = mine.end > before ? lh_min_u32(mine.end - before, here) : 0;
        if (first < last) {
            lh_span out = {
                product->out.begin + first * LH_SPAN_COLUMNS,
                lh_min_u32(product->out.begin + last * LH_SPAN_COLUMNS, product->out.end)};
            product_part(a, product, out);
        }
        before += here;
    }
}

/* Many products, of few rows or many each, are as many parts. */
static uint32_t parts_of_products(const lh_compute *compute, uint32_t units, uint32_t count) {
    uint32_t threads = lh_thread_pool_size(compute->pool);
    if (threads == 1 || count <= LH_PARTS_PER_THREAD)
        return lh_parts_for(compute, units);
    return lh_min_u32(units, threads * count);
}

static void products(const lh_compute *compute, const lh_product *products, uint32_t count,
                     const lh_packed *x, lh_span in, bool continues, const float *scale) {
    lh_products_arguments arguments = {.compute = compute,
                                       .products = products,
                                       .count = count,
                                       .x = x,
                                       .in = in,
                                       .continues = continues || in.begin > 0,
                                       .scale = scale};
    for (uint32_t i = 0; i < count; i++)
        arguments.units += units_of(&products[i]);
    arguments.parts = parts_of_products(compute, arguments.units, count);
    lh_thread_pool_run(compute->pool, arguments.parts, products_part, &arguments);
}

/* ---- By rows ---- */

typedef struct lh_rope_arguments {
    const lh_kernels *kernels;
    const lh_rope *rope;
    float *x;
    uint32_t rows, heads, head_dim, parts;
} lh_rope_arguments;

static void rope_part(void *context, uint32_t part, uint32_t thread) {
    const lh_rope_arguments *a = context;
    lh_span rows = lh_part_of(a->rows, LH_PART_ROWS, part, a->parts);
    (void)thread;
    size_t stride = lh_row_stride((size_t)a->heads * a->head_dim),
           angles = (size_t)rows.begin * (a->rope->dims / 2);
    a->kernels->rope(a->x + rows.begin * stride, stride, rows.end - rows.begin, a->heads,
                     a->head_dim, a->rope->dims, a->rope->interleaved, a->rope->cosine + angles,
                     a->rope->sine + angles);
}

static void rope(const lh_compute *compute, const lh_rope *rope, float *x, uint32_t rows,
                 uint32_t heads, uint32_t head_dim) {
    uint32_t parts = lh_parts_of_small(compute, lh_units_in(rows, LH_PART_ROWS),
                                       (uint64_t)rows * heads * head_dim);
    lh_rope_arguments arguments = {compute->kernels, rope, x, rows, heads, head_dim, parts};
    lh_thread_pool_run(compute->pool, parts, rope_part, &arguments);
}

typedef struct lh_norm_arguments {
    const lh_kernels *kernels;
    float *y;       /* the heads, or what is added to */
    const float *x; /* what is added */
    size_t stride;
    uint32_t rows, heads, width, parts;
    const float *gain;
    float epsilon;
} lh_norm_arguments;

static void norm_heads_part(void *context, uint32_t part, uint32_t thread) {
    const lh_norm_arguments *a = context;
    lh_span rows = lh_part_of(a->rows, LH_PART_ROWS, part, a->parts);
    (void)thread;
    a->kernels->norm_heads(a->y + rows.begin * a->stride, a->stride, rows.end - rows.begin,
                           a->heads, a->width, a->gain, a->epsilon);
}

static void norm_heads(const lh_compute *compute, float *x, size_t stride, uint32_t rows,
                       uint32_t heads, uint32_t head_dim, const float *gain, float epsilon) {
    lh_norm_arguments arguments = {.kernels = compute->kernels,
                                   .y = x,
                                   .stride = stride,
                                   .rows = rows,
                                   .heads = heads,
                                   .width = head_dim,
                                   .gain = gain,
                                   .epsilon = epsilon};
    arguments.parts = lh_parts_of_small(compute, lh_units_in(rows, LH_PART_ROWS),
                                        (uint64_t)rows * heads * head_dim);
    lh_thread_pool_run(compute->pool, arguments.parts, norm_heads_part, &arguments);
}

static void norm_add_part(void *context, uint32_t part, uint32_t thread) {
    const lh_norm_arguments *a = context;
    lh_span rows = lh_part_of(a->rows, LH_PART_ROWS, part, a->parts);
    size_t offset = (size_t)rows.begin * a->width;
    (void)thread;
    a->kernels->norm_add(a->y + offset, a->x + offset, a->width, rows.end - rows.begin, a->width,
                         a->gain, a->epsilon);
}

static void norm_add(const lh_compute *compute, float *y, const float *x, uint32_t rows,
                     uint32_t width, const float *gain, float epsilon) {
    lh_norm_arguments arguments = {.kernels = compute->kernels,
                                   .y = y,
                                   .x = x,
                                   .rows = rows,
                                   .width = width,
                                   .gain = gain,
                                   .epsilon = epsilon};
    arguments.parts =
        lh_parts_of_small(compute, lh_units_in(rows, LH_PART_ROWS), (uint64_t)rows * width);
    lh_thread_pool_run(compute->pool, arguments.parts, norm_add_part, &arguments);
}

typedef struct lh_bias_arguments {
    const lh_kernels *kernels;
    float *y;
    uint32_t rows, width, parts;
    const float *bias;
} lh_bias_arguments;

static void add_bias_part(void *context, uint32_t part, uint32_t thread) {
    const lh_bias_arguments *a = context;
    lh_span rows = lh_part_of(a->rows, LH_PART_ROWS, part, a->parts), columns = {0, a->width};
    (void)thread;
    a->kernels->add_rows(a->y + (size_t)rows.begin * a->width, a->width, rows.end - rows.begin,
                         columns, NULL, a->bias);
}

static void add_bias(const lh_compute *compute, float *y, uint32_t rows, uint32_t width,
                     const float *bias) {
    uint32_t parts =
        lh_parts_of_small(compute, lh_units_in(rows, LH_PART_ROWS), (uint64_t)rows * width);
    lh_bias_arguments arguments = {compute->kernels, y, rows, width, parts, bias};
    lh_thread_pool_run(compute->pool, parts, add_bias_part, &arguments);
}

/* ---- Gates ---- */

typedef struct lh_gate_arguments {
    const lh_kernels *kernels;
    lh_gate function;
    float *gate;
    const float *up, *shares;
    uint32_t rows, width, parts;
} lh_gate_arguments;

static void (*gate_kernel(const lh_gate_arguments *a))(float *, const float *, const float *,
                                                       size_t, uint32_t, lh_span) {
    switch (a->function) {
    case LH_GATE_GELU:
        return a->kernels->gelu_mul;
    case LH_GATE_SWIGLU_CLAMPED:
        return a->kernels->swiglu_mul;
    case LH_GATE_SILU:
        break;
    }
    return a->kernels->silu_mul;
}

static void gate_part(void *context, uint32_t part, uint32_t thread) {
    const lh_gate_arguments *a = context;
    lh_span columns = lh_part_of(a->width, LH_SPAN_COLUMNS, part, a->parts);
    (void)thread;
    gate_kernel(a)(a->gate, a->gate, a->up, lh_row_stride(a->width), a->rows, columns);
    if (a->shares)
        a->kernels->scale_rows(a->gate, lh_row_stride(a->width), a->rows, columns, a->shares);
}

static void gate(const lh_compute *compute, lh_gate function, float *gate, const float *up,
                 const float *shares, uint32_t rows, uint32_t width) {
    uint32_t parts =
        lh_parts_of_small(compute, lh_units_in(width, LH_SPAN_COLUMNS), (uint64_t)rows * width);
    lh_gate_arguments arguments = {compute->kernels, function, gate,  up,
                                   shares,           rows,     width, parts};
    lh_thread_pool_run(compute->pool, parts, gate_part, &arguments);
}

/* ---- Sequences ---- */

typedef struct lh_sequence_arguments {
    const lh_kernels *kernels;
    const lh_attention *attention;
    const lh_position_run *runs;
    uint32_t count, layer, window, parts;
    uint32_t blocks; /* of a row at most, where attention is divided by them */
    const float *sinks, *q, *keys, *values;
    float *y;
} lh_sequence_arguments;

static void store_part(void *context, uint32_t part, uint32_t thread) {
    const lh_sequence_arguments *a = context;
    lh_span runs = lh_part_of(a->count, 1, part, a->parts);
    (void)thread;
    for (uint32_t i = runs.begin; i < runs.end; i++) {
        const lh_position_run *run = &a->runs[i];
        const lh_kv_view view = lh_kv_sequence_view(run->sequence, a->layer);
        const lh_kv_shape *shape = &view.shape;
        size_t key_stride = lh_row_stride((size_t)shape->kv_heads * shape->key_dim),
               value_stride = lh_row_stride((size_t)shape->kv_heads * shape->value_dim);
        a->kernels->kv_store(&view, run->first_position, run->rows,
                             a->keys + run->first_row * key_stride, key_stride,
                             a->values + run->first_row * value_stride, value_stride);
    }
}

static void kv_store(const lh_compute *compute, const lh_position_run *runs, uint32_t count,
                     uint32_t layer, const lh_rope *turn, float *keys, const float *values) {
    const lh_kv_shape shape = lh_kv_sequence_view(runs[0].sequence, layer).shape;
    const lh_position_run *last = &runs[count - 1];
    if (turn)
        rope(compute, turn, keys, last->first_row + last->rows, shape.kv_heads, shape.key_dim);
    lh_sequence_arguments arguments = {
        .kernels = compute->kernels,
        .runs = runs,
        .count = count,
        .layer = layer,
        .keys = keys,
        .values = values,
        .parts = count < STORE_ALONE_RUNS ? 1 : lh_parts_for(compute, count)};
    lh_thread_pool_run(compute->pool, arguments.parts, store_part, &arguments);
}

/* What attention is computed in. */
typedef struct lh_attention_scratch {
    char *threads; /* what each of them has, thread_bytes apart */
    size_t thread_bytes;
    lh_attention_partials partials;
} lh_attention_scratch;

static void close_attention(void *memory) {
    lh_attention_scratch *scratch = memory;
    if (!scratch)
        return;
    free(scratch->partials.data);
    free(scratch->threads);
    free(scratch);
}

static void *open_attention(const lh_compute *compute, const lh_attention *shape, uint32_t rows,
                            uint32_t context) {
    const uint32_t threads = lh_thread_pool_size(compute->pool);
    lh_attention_scratch *scratch = calloc(1, sizeof *scratch);
    if (!scratch)
        return NULL;
    scratch->thread_bytes = lh_aligned_bytes(lh_attention_scratch_bytes(shape->head_dim));
    scratch->threads = lh_aligned_array_allocate(scratch->thread_bytes, threads);
    scratch->partials = lh_attention_partials_of(shape->heads, shape->kv_heads, shape->head_dim,
                                                 rows, context, threads);
    if (scratch->threads && lh_attention_partials_allocate(&scratch->partials))
        return scratch;
    close_attention(scratch);
    return NULL;
}

static const lh_attention_partials *partials_of(const lh_attention *attention) {
    const lh_attention_scratch *scratch = attention->scratch;
    return &scratch->partials;
}

static void *scratch_of(const lh_attention *attention, uint32_t thread) {
    const lh_attention_scratch *scratch = attention->scratch;
    return scratch->threads + thread * scratch->thread_bytes;
}

/* A part is one KV head of one run. The last runs go first, because late positions have the most
 * keys to read. */
static void attention_part(void *context, uint32_t part, uint32_t thread) {
    const lh_sequence_arguments *a = context;
    const lh_attention *attention = a->attention;
    const lh_position_run *run = &a->runs[a->count - 1 - part / attention->kv_heads];
    const lh_kv_view view = lh_kv_sequence_view(run->sequence, a->layer);
    const uint32_t kv_head = part % attention->kv_heads;
    const lh_span heads = lh_attention_heads_of(attention, kv_head);
    size_t stride = lh_row_stride((size_t)attention->heads * attention->head_dim),
           offset = run->first_row * stride + (size_t)heads.begin * attention->head_dim;
    a->kernels->attention(a->y + offset, stride, a->q + offset, stride, &view, kv_head,
                          heads.end - heads.begin, run->first_position, run->rows, a->window,
                          attention->scale, a->sinks ? a->sinks + heads.begin : NULL,
                          scratch_of(attention, thread));
}

/* A part is one block of keys of one KV head of one row. */
static void attention_block_part(void *context, uint32_t part, uint32_t thread) {
    const lh_sequence_arguments *a = context;
    const lh_attention *attention = a->attention;
    const uint32_t block = part % a->blocks, kv_head = part / a->blocks % attention->kv_heads,
                   row = part / a->blocks / attention->kv_heads;
    const lh_span heads = lh_attention_heads_of(attention, kv_head);
    const lh_position_run run = lh_attention_partials_row(a->runs, row);
    const lh_span seen = lh_attention_blocks(run.first_position, a->window);
    if (seen.begin + block >= seen.end)
        return;
    const lh_kv_view view = lh_kv_sequence_view(run.sequence, a->layer);
    const float *q =
        a->q + run.first_row * lh_row_stride((size_t)attention->heads * attention->head_dim);
    a->kernels->attention_blocks(
        lh_attention_partials_at(partials_of(attention), row, block, heads.begin),
        partials_of(attention)->block_floats, q + (size_t)heads.begin * attention->head_dim, &view,
        kv_head, heads.end - heads.begin, run.first_position, a->window, attention->scale,
        (lh_span){seen.begin + block, seen.begin + block + 1}, scratch_of(attention, thread));
}

/* A part is one KV head of one row. */
static void attention_combine_part(void *context, uint32_t part, uint32_t thread) {
    const lh_sequence_arguments *a = context;
    const lh_attention *attention = a->attention;
    const uint32_t row = part / attention->kv_heads;
    const lh_span heads = lh_attention_heads_of(attention, part % attention->kv_heads);
    const lh_position_run run = lh_attention_partials_row(a->runs, row);
    const lh_span seen = lh_attention_blocks(run.first_position, a->window);
    (void)thread;
    a->kernels->attention_combine(
        a->y + run.first_row * lh_row_stride((size_t)attention->heads * attention->head_dim) +
            (size_t)heads.begin * attention->head_dim,
        lh_attention_partials_at(partials_of(attention), row, 0, heads.begin),
        partials_of(attention)->block_floats, seen.end - seen.begin, heads.end - heads.begin,
        attention->head_dim, a->sinks ? a->sinks + heads.begin : NULL);
}

static void attention(const lh_compute *compute, const lh_attention *attention,
                      const lh_position_run *runs, uint32_t count, uint32_t layer, uint32_t window,
                      const float *sinks, const float *q, float *y) {
    lh_sequence_arguments arguments = {.kernels = compute->kernels,
                                       .attention = attention,
                                       .runs = runs,
                                       .count = count,
                                       .layer = layer,
                                       .window = window,
                                       .sinks = sinks,
                                       .q = q,
                                       .y = y};
    arguments.blocks = lh_attention_partials_divide(partials_of(attention), runs, count, window);
    if (arguments.blocks == 0) {
        lh_thread_pool_run(compute->pool, count * attention->kv_heads, attention_part, &arguments);
        return;
    }
    uint32_t parts = 0;
    for (uint32_t i = 0; i < count; i++)
        parts += runs[i].rows * attention->kv_heads;
    lh_thread_pool_run(compute->pool, parts * arguments.blocks, attention_block_part, &arguments);
    lh_thread_pool_run(compute->pool, parts, attention_combine_part, &arguments);
}

/* ---- Angles and embeddings ---- */

static void angles(const lh_compute *compute, const lh_rope_table *table,
                   const lh_position_run *runs, uint32_t count, float *const *cosine,
                   float *const *sine) {
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < runs[i].rows; j++) {
            size_t offset = (size_t)(runs[i].first_row + j) * table->half;
            for (uint32_t kind = 0; kind < table->kinds; kind++) {
                compute->kernels->rope_angles(cosine[kind] + offset, sine[kind] + offset,
                                              table->frequency[kind], table->half,
                                              runs[i].first_position + j, table->magnitude[kind]);
            }
        }
    }
}

static void embed(const lh_compute *compute, float *y, const lh_matrix *embedding,
                  const uint32_t *tokens, uint32_t rows) {
    (void)compute;
    for (uint32_t row = 0; row < rows; row++)
        lh_matrix_row(embedding, tokens[row], y + (size_t)row * embedding->inputs);
}

static void scale(const lh_compute *compute, float *y, size_t stride, uint32_t rows, uint32_t width,
                  float factor) {
    for (uint32_t row = 0; row < rows; row++)
        compute->kernels->scale_rows(y + row * stride, stride, 1, (lh_span){0, width}, &factor);
}

/* ---- Memory, which is the host's ---- */

static void *allocate(const lh_compute *compute, size_t bytes) {
    (void)compute;
    return lh_aligned_array_allocate(bytes, 1);
}

static void release(const lh_compute *compute, void *memory) {
    (void)compute;
    free(memory);
}

static void *map(const lh_compute *compute, size_t bytes, bool may_stay_empty) {
    (void)compute;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (may_stay_empty ? MAP_NORESERVE : 0);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    madvise(memory, bytes, MADV_HUGEPAGE); /* only faster: a kernel without it may refuse */
    return memory;
}

static void unmap(const lh_compute *compute, void *memory, size_t bytes) {
    (void)compute;
    if (memory)
        munmap(memory, bytes);
}

static void copy(const lh_compute *compute, void *to, const void *from, size_t bytes) {
    (void)compute;
    memcpy(to, from, bytes);
}

static void put_rows(const lh_compute *compute, void *to, size_t stride, const void *from,
                     size_t bytes, uint32_t rows) {
    (void)compute;
    for (uint32_t i = 0; i < rows; i++)
        memcpy((char *)to + i * stride, (const char *)from + i * bytes, bytes);
}

/* Whole rows lie as they are sent. */
static bool is_whole(const lh_outgoing *outgoing) {
    return outgoing->columns.end - outgoing->columns.begin == outgoing->width;
}

static void send(const lh_compute *compute, uint32_t number, const lh_outgoing *outgoing) {
    size_t columns = outgoing->columns.end - outgoing->columns.begin;
    (void)compute;
    (void)number;
    for (uint32_t row = 0; row < outgoing->rows && !is_whole(outgoing); row++) {
        memcpy(outgoing->host + row * columns,
               outgoing->h + (size_t)row * outgoing->width + outgoing->columns.begin,
               columns * sizeof(float));
    }
}

static lh_sent sent(const lh_compute *compute, uint32_t number, const lh_outgoing *outgoing) {
    (void)compute;
    (void)number;
    return (lh_sent){.values = is_whole(outgoing) ? outgoing->h : outgoing->host};
}

static void locate(const lh_compute *compute, const lh_position_run *runs, uint32_t count) {
    (void)compute;
    (void)runs;
    (void)count;
}

static lh_status settle(const lh_compute *compute, lh_error *error) {
    (void)compute;
    (void)error;
    return LH_OK;
}

const lh_ops lh_cpu_ops = {
    .is_host = true,
    .allocate = allocate,
    .release = release,
    .allocate_host = allocate,
    .release_host = release,
    .map = map,
    .unmap = unmap,
    .put = copy,
    .put_rows = put_rows,
    .copy = copy,
    .send = send,
    .sent = sent,
    .settle = settle,
    .pack = pack,
    .norm = norm,
    .scale = scale,
    .products = products,
    .embed = embed,
    .angles = angles,
    .rope = rope,
    .norm_heads = norm_heads,
    .norm_add = norm_add,
    .gate = gate,
    .add_bias = add_bias,
    .locate = locate,
    .kv_store = kv_store,
    .open_attention = open_attention,
    .close_attention = close_attention,
    .attention = attention,
    .open_latent = lh_latent_open,
    .close_latent = lh_latent_close,
    .latent_attention = lh_latent_attend,
    .open_slots = lh_expert_slots_open,
    .close_slots = lh_expert_slots_close,
    .route = lh_expert_slots_route,
    .expert_products = lh_expert_slots_products,
    .expert_sum = lh_expert_slots_sum,
    .sigmoid = lh_expert_slots_sigmoid,
};
