/* Operations as launches, in the order of lh_ops. */
#include "worker/compute/cuda/cuda_queue.h"

#include "common/base/arithmetic.h"
#include "common/model/model_widths.h"
#include "common/protocol/step_parts.h"
#include "worker/compute/cuda/cuda_device.h"
#include "worker/compute/cuda/cuda_draws.h"
#include "worker/compute/cuda/cuda_latent.h"
#include "worker/compute/cuda/cuda_packer.h"
#include "worker/compute/cuda/cuda_recordings.h"
#include "worker/compute/cuda/cuda_rows.h"
#include "worker/compute/cuda/cuda_scratch.h"
#include "worker/compute/cuda/cuda_slots.h"
#include "worker/compute/stage/aligned_array.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A half of the staging memory: a chunk of 512 rows of a wide model. */
#define STAGING_BYTES LH_PUT_BYTES_MAX

typedef struct lh_staging {
    lh_cuda_stream stream; /* that reads it */
    uint8_t *halves[2];
    lh_cuda_event read[2]; /* the GPU has read what was put into the half */
    uint32_t half;
    size_t filled;
} lh_staging;

typedef struct lh_cuda_queue {
    const lh_cuda_plugin *plugin;
    int device;
    int failure; /* the first; 0: none */
    lh_cuda_stream compute, incoming, outgoing;
    lh_cuda_event computed, arrived, sent[LH_STEP_COLUMN_SHARDS_MAX];
    lh_staging staging, shards; /* of the compute stream, and of the incoming one */
    lh_cuda_packer packer;      /* of what goes out */
    uint32_t *tokens;           /* [rows] */
    lh_cuda_rows rows;
    lh_cuda_draws draws;
    lh_cuda_scratch scratch;
    lh_cuda_fast *fast; /* cuBLAS on the compute stream; NULL: all products are exact */
    lh_cuda_recordings recordings;
    lh_cuda_recording *recording; /* the one that is being made; NULL: none */
} lh_cuda_queue;

/* ---- Failures ---- */

static lh_cuda_queue *queue_of(const lh_compute *compute) {
    return compute->queue;
}

/* Whether what follows is of use. */
static bool works(const lh_cuda_queue *queue) {
    return queue->failure == 0;
}

static bool note(lh_cuda_queue *queue, int error) {
    if (error != 0 && queue->failure == 0)
        queue->failure = error;
    return error == 0;
}

/* A call of the plug-in, which is left out where one has failed before. */
#define ASK(queue, function, ...)                                                                  \
    note(queue, works(queue) ? (queue)->plugin->function(__VA_ARGS__) : (queue)->failure)

/* ---- Open ---- */

static void open_staging(lh_cuda_queue *queue, lh_staging *staging, lh_cuda_stream stream) {
    staging->stream = stream;
    for (uint32_t i = 0; i < 2; i++) {
        ASK(queue, create_event, &staging->read[i]);
        ASK(queue, allocate_host, (void **)&staging->halves[i], STAGING_BYTES);
    }
}

static void close_staging(const lh_cuda_plugin *plugin, lh_staging *staging) {
    for (uint32_t i = 0; i < 2; i++) {
        if (staging->read[i])
            plugin->destroy_event(staging->read[i]);
        plugin->release_host(staging->halves[i]);
    }
}

static void close_queue(void *context) {
    lh_cuda_queue *queue = context;
    if (!queue)
        return;
    const lh_cuda_plugin *plugin = queue->plugin;
    plugin->use(queue->device);
    lh_cuda_recordings_drop(&queue->recordings, plugin);
    lh_cuda_draws_reset(&queue->draws, plugin);
    lh_cuda_rows_reset(&queue->rows, plugin);
    plugin->fast_close(queue->fast);
    lh_cuda_packer_reset(&queue->packer);
    lh_cuda_scratch_reset(&queue->scratch, plugin);
    plugin->release(queue->tokens);
    for (uint32_t i = 0; i < LH_STEP_COLUMN_SHARDS_MAX; i++)
        if (queue->sent[i])
            plugin->destroy_event(queue->sent[i]);
    close_staging(plugin, &queue->shards);
    close_staging(plugin, &queue->staging);
    if (queue->arrived)
        plugin->destroy_event(queue->arrived);
    if (queue->computed)
        plugin->destroy_event(queue->computed);
    if (queue->outgoing)
        plugin->destroy_stream(queue->outgoing);
    if (queue->incoming)
        plugin->destroy_stream(queue->incoming);
    if (queue->compute)
        plugin->destroy_stream(queue->compute);
    free(queue);
}

/* What steps of this work are described in. */
static void create_tables(lh_cuda_queue *queue, const lh_cuda_device *device,
                          const lh_device_work *work) {
    ASK(queue, allocate, (void **)&queue->tokens, work->rows * sizeof *queue->tokens);
    if (works(queue))
        note(queue, lh_cuda_rows_init(&queue->rows, queue->plugin, work->rows, work->context));
    if (works(queue))
        note(queue, lh_cuda_draws_init(&queue->draws, queue->plugin, work));
    if (works(queue))
        note(queue, lh_cuda_scratch_init(&queue->scratch, device, work));
}

static void create_all(lh_cuda_queue *queue, uint32_t multiprocessors) {
    ASK(queue, use, queue->device);
    ASK(queue, create_stream, &queue->compute, false);
    ASK(queue, create_stream, &queue->incoming, true);
    ASK(queue, create_stream, &queue->outgoing, true);
    ASK(queue, create_event, &queue->computed);
    ASK(queue, create_event, &queue->arrived);
    open_staging(queue, &queue->staging, queue->compute);
    open_staging(queue, &queue->shards, queue->incoming);
    if (works(queue))
        note(queue, lh_cuda_packer_init(&queue->packer, queue->plugin, multiprocessors));
    for (uint32_t i = 0; i < LH_STEP_COLUMN_SHARDS_MAX; i++)
        ASK(queue, create_event, &queue->sent[i]);
}

static lh_status refuse(const lh_cuda_queue *queue, int problem, lh_error *error) {
    return lh_fail(error, problem == LH_CUDA_OUT_OF_MEMORY ? LH_ERR_NO_MEMORY : LH_ERR_UNAVAILABLE,
                   "GPU %d: %s", queue->device, queue->plugin->error_text(problem));
}

/* Behind all else, which a lack of cuBLAS does not concern. */
static lh_status open_fast(lh_cuda_queue *queue, const lh_cuda_device *device, lh_error *error) {
    char why[LH_ERROR_MESSAGE_BYTES] = "";
    const int problem = queue->plugin->fast_open(&queue->fast, queue->compute, device->facts.major,
                                                 device->cublas, why);
    if (problem == 0)
        return LH_OK;
    if (problem == LH_CUDA_NO_BLAS) {
        return lh_fail(error, LH_ERR_UNSUPPORTED,
                       "the gateway's --gpu-math fast wants cuBLAS on this worker: %s", why);
    }
    return refuse(queue, problem, error);
}

static lh_status open_queue(const lh_device *base, const lh_device_work *work, void **out,
                            lh_error *error) {
    const lh_cuda_device *device = (const lh_cuda_device *)base;
    lh_status status = work->config ? lh_cuda_slots_check(work->config, error) : LH_OK;
    if (status != LH_OK)
        return status;
    lh_cuda_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for a GPU's queue");
    queue->plugin = device->plugin;
    queue->device = device->number;
    create_all(queue, device->facts.multiprocessors);
    create_tables(queue, device, work);
    if (!works(queue))
        status = refuse(queue, queue->failure, error);
    else if (work->is_fast)
        status = open_fast(queue, device, error);
    if (status != LH_OK) {
        close_queue(queue);
        return status;
    }
    *out = queue;
    return LH_OK;
}

/* ---- Memory ---- */

static void *allocate(const lh_compute *compute, size_t bytes) {
    lh_cuda_queue *queue = queue_of(compute);
    void *memory = NULL;
    queue->plugin->use(queue->device);
    /* that there is no more of it is no failure of the GPU */
    if (queue->plugin->allocate(&memory, bytes > 0 ? bytes : 1) != 0)
        return NULL;
    /* kernels read keys beyond a sequence's end, which do not count: they are to be something, and
     * before a shard is put there */
    ASK(queue, clear, queue->compute, memory, bytes);
    ASK(queue, record, queue->computed, queue->compute);
    ASK(queue, wait_for, queue->incoming, queue->computed);
    return memory;
}

static void release(const lh_compute *compute, void *memory) {
    if (memory)
        queue_of(compute)->plugin->release(memory);
}

static void *allocate_host(const lh_compute *compute, size_t bytes) {
    void *memory = NULL;
    int error = queue_of(compute)->plugin->allocate_host(&memory, bytes > 0 ? bytes : 1);
    return error == 0 ? memory : NULL;
}

static void release_host(const lh_compute *compute, void *memory) {
    if (memory)
        queue_of(compute)->plugin->release_host(memory);
}

static void *map(const lh_compute *compute, size_t bytes, bool may_stay_empty) {
    (void)may_stay_empty;
    return allocate(compute, bytes);
}

static void unmap(const lh_compute *compute, void *memory, size_t bytes) {
    (void)bytes;
    release(compute, memory);
}

/* Staging memory for so many bytes, at most a half of it: for a copy that is asked of its stream at
 * once. */
static uint8_t *stage_bytes(lh_cuda_queue *queue, lh_staging *staging, size_t bytes) {
    assert(bytes <= STAGING_BYTES);
    if (staging->filled + bytes > STAGING_BYTES) {
        ASK(queue, record, staging->read[staging->half], staging->stream);
        staging->half = 1 - staging->half;
        staging->filled = 0;
        ASK(queue, finish_event, staging->read[staging->half]);
    }
    uint8_t *memory = staging->halves[staging->half] + staging->filled;
    staging->filled += lh_aligned_bytes(bytes);
    return memory;
}

static void put_staged(lh_cuda_queue *queue, lh_staging *staging, void *to, size_t stride,
                       const void *from, size_t bytes, uint32_t rows) {
    ASK(queue, use, queue->device);
    uint32_t at_once = bytes > STAGING_BYTES ? 0 : (uint32_t)(STAGING_BYTES / bytes);
    assert(at_once > 0);
    for (uint32_t done = 0, count; done < rows && works(queue); done += count) {
        count = rows - done < at_once ? rows - done : at_once;
        uint8_t *staged = stage_bytes(queue, staging, count * bytes);
        memcpy(staged, (const char *)from + done * bytes, count * bytes);
        ASK(queue, copy, staging->stream, (char *)to + done * stride, stride, staged, bytes, bytes,
            count);
    }
}

static void put_rows(const lh_compute *compute, void *to, size_t stride, const void *from,
                     size_t bytes, uint32_t rows) {
    lh_cuda_queue *queue = queue_of(compute);
    put_staged(queue, &queue->shards, to, stride, from, bytes, rows);
    ASK(queue, record, queue->arrived, queue->incoming);
    ASK(queue, wait_for, queue->compute, queue->arrived);
}

static void put(const lh_compute *compute, void *to, const void *from, size_t bytes) {
    lh_cuda_queue *queue = queue_of(compute);
    for (size_t done = 0, count; done < bytes; done += count) {
        count = bytes - done < STAGING_BYTES ? bytes - done : STAGING_BYTES;
        put_staged(queue, &queue->staging, (char *)to + done, count, (const char *)from + done,
                   count, 1);
    }
}

static void *put_memory(const lh_compute *compute, size_t bytes) {
    lh_cuda_queue *queue = queue_of(compute);
    ASK(queue, use, queue->device);
    return stage_bytes(queue, &queue->staging, bytes);
}

static void put_filled(const lh_compute *compute, void *to, const void *filled, size_t bytes) {
    lh_cuda_queue *queue = queue_of(compute);
    ASK(queue, copy, queue->staging.stream, to, bytes, filled, bytes, bytes, 1);
}

static void copy(const lh_compute *compute, void *to, const void *from, size_t bytes) {
    lh_cuda_queue *queue = queue_of(compute);
    ASK(queue, copy, queue->compute, to, bytes, from, bytes, bytes, 1);
}

static void send_floats(lh_cuda_queue *queue, const lh_outgoing *outgoing) {
    size_t bytes = (outgoing->columns.end - outgoing->columns.begin) * sizeof(float);
    ASK(queue, wait_for, queue->outgoing, queue->computed);
    ASK(queue, copy, queue->outgoing, outgoing->host, bytes, outgoing->h + outgoing->columns.begin,
        outgoing->width * sizeof(float), bytes, outgoing->rows);
}

static void send(const lh_compute *compute, uint32_t number, const lh_outgoing *outgoing) {
    lh_cuda_queue *queue = queue_of(compute);
    ASK(queue, record, queue->computed, queue->compute);
    if (outgoing->wire == LH_WIRE_F32)
        send_floats(queue, outgoing);
    else if (works(queue))
        note(queue, lh_cuda_packer_send(&queue->packer, number, outgoing, queue->computed,
                                        queue->outgoing));
    ASK(queue, record, queue->sent[number], queue->outgoing);
}

static lh_sent sent(const lh_compute *compute, uint32_t number, const lh_outgoing *outgoing) {
    lh_cuda_queue *queue = queue_of(compute);
    if (!ASK(queue, finish_event, queue->sent[number]))
        return (lh_sent){0};
    return outgoing->wire == LH_WIRE_F32 ? (lh_sent){.values = outgoing->host}
                                         : lh_cuda_packer_sent(&queue->packer, number, outgoing);
}

static lh_status settle(const lh_compute *compute, lh_error *error) {
    lh_cuda_queue *queue = queue_of(compute);
    ASK(queue, use, queue->device);
    ASK(queue, finish_stream, queue->incoming);
    ASK(queue, finish_stream, queue->compute);
    ASK(queue, finish_stream, queue->packer.stream);
    ASK(queue, finish_stream, queue->outgoing);
    return works(queue) ? LH_OK
                        : lh_fail(error, LH_ERR_UNAVAILABLE, "GPU %d has failed: %s", queue->device,
                                  queue->plugin->error_text(queue->failure));
}

/* ---- Arithmetic ---- */

static void pack(const lh_compute *compute, const lh_packed *packed, uint32_t rows, lh_span columns,
                 const float *x, size_t stride, const float *gain) {
    lh_cuda_queue *queue = queue_of(compute);
    for (unsigned kind = 0; kind < LH_ACTIVATION_KINDS; kind++) {
        const lh_activations part =
            lh_packed_rows(packed, (lh_activation_kind)kind, (lh_span){0, rows});
        if (part.data)
            ASK(queue, pack_activations, queue->compute, &part, columns, x, stride, gain, NULL);
    }
}

static void norm(const lh_compute *compute, const lh_packed *packed, uint32_t rows, lh_span columns,
                 const float *x, size_t stride, const float *gain, float *squares, float *scale,
                 float epsilon) {
    lh_cuda_queue *queue = queue_of(compute);
    bool is_counted = false;
    for (unsigned kind = 0; kind < LH_ACTIVATION_KINDS; kind++) {
        const lh_activations part =
            lh_packed_rows(packed, (lh_activation_kind)kind, (lh_span){0, rows});
        if (!part.data)
            continue;
        if (!is_counted)
            ASK(queue, norm_activations, queue->compute, &part, columns, x, stride, gain, squares,
                scale, epsilon);
        else
            ASK(queue, pack_activations, queue->compute, &part, columns, x, stride, gain, NULL);
        is_counted = true;
    }
}

static void scale_all(const lh_compute *compute, float *y, size_t stride, uint32_t rows,
                      uint32_t width, float factor) {
    lh_cuda_queue *queue = queue_of(compute);
    ASK(queue, scale, queue->compute, y, stride, rows, (lh_span){0, width}, factor);
}

static lh_activation_kind kind_read_by(const lh_compute *compute, const lh_product *product) {
    return lh_activation_kind_for(product->matrix.dtype, compute->activations);
}

/* Products, from the first on, that read the same activations. */
static uint32_t count_alike(const lh_compute *compute, const lh_product *list, uint32_t count) {
    uint32_t alike = 1;
    while (alike < count && alike < LH_CUDA_PRODUCTS_MAX &&
           kind_read_by(compute, &list[alike]) == kind_read_by(compute, list) &&
           list[alike].rows.begin == list->rows.begin && list[alike].rows.end == list->rows.end)
        alike++;
    return alike;
}

static void multiply_alike(const lh_compute *compute, const lh_product *list, uint32_t count,
                           const lh_packed *packed, lh_span in, bool continues,
                           const float *scale) {
    lh_cuda_queue *queue = queue_of(compute);
    const lh_span rows = list->rows;
    const lh_activations x = lh_packed_rows(packed, kind_read_by(compute, list), rows);
    lh_cuda_product products[LH_CUDA_PRODUCTS_MAX];
    for (uint32_t i = 0; i < count; i++)
        products[i] = (lh_cuda_product){list[i].y + rows.begin * list[i].stride, list[i].stride,
                                        list[i].matrix, list[i].out, list[i].bias};
    scale = scale ? scale + rows.begin : NULL;
    if (queue->fast)
        ASK(queue, fast_products, queue->fast, products, count, &x, in, continues, scale);
    else
        ASK(queue, products, queue->compute, products, count, &x, in, continues, scale);
}

static void products(const lh_compute *compute, const lh_product *list, uint32_t count,
                     const lh_packed *x, lh_span in, bool continues, const float *scale) {
    for (uint32_t done = 0, alike; done < count; done += alike) {
        alike = count_alike(compute, list + done, count - done);
        multiply_alike(compute, list + done, alike, x, in, continues || in.begin > 0, scale);
    }
}

static void embed(const lh_compute *compute, float *y, const lh_matrix *embedding,
                  const uint32_t *tokens, uint32_t rows) {
    lh_cuda_queue *queue = queue_of(compute);
    put(compute, queue->tokens, tokens, rows * sizeof *tokens);
    ASK(queue, matrix_rows, queue->compute, y, embedding->inputs, embedding, queue->tokens, rows);
}

/* Of one kind, by the host: cos and sin behind each other. */
static void put_angles(const lh_compute *compute, const lh_rope_table *table, uint32_t kind,
                       const lh_position_run *run, float *cosine, float *sine) {
    lh_cuda_queue *queue = queue_of(compute);
    const size_t half = table->half, bytes = run->rows * half * sizeof(float);
    const size_t offset = run->first_row * half;
    float *staged = (float *)(void *)stage_bytes(queue, &queue->staging, 2 * bytes);
    for (uint32_t row = 0; row < run->rows; row++)
        compute->kernels->rope_angles(staged + row * half, staged + (run->rows + row) * half,
                                      table->frequency[kind], table->half,
                                      run->first_position + row, table->magnitude[kind]);
    ASK(queue, copy, queue->compute, cosine + offset, bytes, staged, bytes, bytes, 1);
    ASK(queue, copy, queue->compute, sine + offset, bytes, staged + run->rows * half, bytes, bytes,
        1);
}

static void angles(const lh_compute *compute, const lh_rope_table *table,
                   const lh_position_run *runs, uint32_t count, float *const *cosine,
                   float *const *sine) {
    lh_cuda_queue *queue = queue_of(compute);
    ASK(queue, use, queue->device);
    for (uint32_t i = 0; i < count && works(queue); i++)
        for (uint32_t kind = 0; kind < table->kinds; kind++)
            put_angles(compute, table, kind, &runs[i], cosine[kind], sine[kind]);
}

static void rope(const lh_compute *compute, const lh_rope *rope, float *x, uint32_t rows,
                 uint32_t heads, uint32_t head_dim) {
    lh_cuda_queue *queue = queue_of(compute);
    ASK(queue, rope, queue->compute, x, lh_row_stride((size_t)heads * head_dim), rows, heads,
        head_dim, rope->dims, rope->interleaved, rope->cosine, rope->sine);
}

static void norm_heads(const lh_compute *compute, float *x, size_t stride, uint32_t rows,
                       uint32_t heads, uint32_t head_dim, const float *gain, float epsilon) {
    lh_cuda_queue *queue = queue_of(compute);
    ASK(queue, norm_heads, queue->compute, x, stride, rows, heads, head_dim, gain, epsilon);
}

static void norm_add(const lh_compute *compute, float *y, const float *x, uint32_t rows,
                     uint32_t width, const float *gain, float epsilon) {
    lh_cuda_queue *queue = queue_of(compute);
    ASK(queue, norm_add, queue->compute, y, x, width, rows, width, gain, epsilon);
}

static void gate(const lh_compute *compute, lh_gate function, float *y, const float *up,
                 const float *shares, uint32_t rows, uint32_t width) {
    lh_cuda_queue *queue = queue_of(compute);
    const size_t stride = lh_row_stride(width);
    const lh_span columns = {0, width};
    if (function == LH_GATE_GELU)
        ASK(queue, gelu_mul, queue->compute, y, y, up, stride, rows, columns);
    else if (function == LH_GATE_SWIGLU_CLAMPED)
        ASK(queue, swiglu_mul, queue->compute, y, y, up, stride, rows, columns);
    else
        ASK(queue, silu_mul, queue->compute, y, y, up, stride, rows, columns);
    if (shares)
        ASK(queue, scale_rows, queue->compute, y, stride, rows, columns, shares);
}

static void add_bias(const lh_compute *compute, float *y, uint32_t rows, uint32_t width,
                     const float *bias) {
    lh_cuda_queue *queue = queue_of(compute);
    ASK(queue, add_rows, queue->compute, y, width, rows, (lh_span){0, width}, NULL, bias);
}

/* ---- Sequences ---- */

static void locate(const lh_compute *compute, const lh_position_run *runs, uint32_t count) {
    lh_cuda_queue *queue = queue_of(compute);
    ASK(queue, use, queue->device);
    if (!works(queue))
        return;
    lh_cuda_rows_fill(&queue->rows, runs, count);
    put(compute, queue->rows.memory, queue->rows.host, queue->rows.used_bytes);
}

static void kv_store(const lh_compute *compute, const lh_position_run *runs, uint32_t count,
                     uint32_t layer, const lh_rope *rope, float *keys, const float *values) {
    lh_cuda_queue *queue = queue_of(compute);
    const lh_kv_view view = lh_kv_sequence_view(runs[0].sequence, layer);
    const lh_kv_shape *shape = &view.shape;
    const lh_cuda_rotation rotation =
        rope ? (lh_cuda_rotation){rope->dims, rope->interleaved, rope->cosine, rope->sine}
             : (lh_cuda_rotation){0, false, NULL, NULL};
    (void)count;
    ASK(queue, kv_store, queue->compute, shape, lh_cuda_rows_places(&queue->rows),
        lh_cuda_rows_offset(shape, layer), queue->rows.count, keys,
        lh_row_stride((size_t)shape->kv_heads * shape->key_dim), values,
        lh_row_stride((size_t)shape->kv_heads * shape->value_dim), rotation);
}

/* As many rows at a time as the scratch is enough for. */
static void attend_in_groups(lh_cuda_queue *queue, float *y, const float *q, size_t stride,
                             const lh_attention *attention, const lh_kv_shape *shape,
                             const lh_cuda_attention_rows *rows, uint32_t window,
                             const float *sinks) {
    const uint32_t group = attention->heads / attention->kv_heads,
                   at_once = lh_cuda_scratch_rows(
                       &queue->scratch,
                       queue->plugin->attention_scratch_bytes(1, attention->heads, shape->value_dim,
                                                              rows->context, window));
    for (uint32_t done = 0; done < rows->count && works(queue); done += at_once) {
        lh_cuda_attention_rows some = *rows;
        some.rows += done;
        some.count = lh_min_u32(rows->count - done, at_once);
        ASK(queue, attention, queue->compute, y + done * stride, stride, q + done * stride, stride,
            shape, group, &some, window, attention->scale, sinks, queue->scratch.memory);
    }
}

static void attention(const lh_compute *compute, const lh_attention *attention,
                      const lh_position_run *runs, uint32_t count, uint32_t layer, uint32_t window,
                      const float *sinks, const float *q, float *y) {
    lh_cuda_queue *queue = queue_of(compute);
    const lh_kv_view view = lh_kv_sequence_view(runs[0].sequence, layer);
    const lh_kv_shape *shape = &view.shape;
    const size_t stride = lh_row_stride((size_t)attention->heads * attention->head_dim);
    const lh_cuda_attention_rows rows =
        lh_cuda_rows_of_attention(&queue->rows, lh_cuda_rows_offset(shape, layer));
    (void)count;
    if (queue->rows.is_prompt) {
        ASK(queue, prompt_attention, queue->compute, y, stride, q, stride, shape,
            attention->heads / attention->kv_heads, &rows, window, attention->scale, sinks);
    } else {
        attend_in_groups(queue, y, q, stride, attention, shape, &rows, window, sinks);
    }
}

/* ---- The end ---- */

static void draw(const lh_compute *compute, float *logits, size_t stride, uint32_t vocabulary,
                 const lh_drawn_row *rows, uint32_t count, uint32_t *tokens) {
    lh_cuda_queue *queue = queue_of(compute);
    lh_cuda_draws *draws = &queue->draws;
    for (uint32_t done = 0; done < count && works(queue); done += draws->count) {
        float *some = logits + done * stride;
        lh_cuda_draws_fill(draws, vocabulary, rows + done, count - done);
        put(compute, draws->memory, draws->host, draws->used_bytes);
        ASK(queue, change_logits, queue->compute, some, stride, draws->count, vocabulary,
            lh_cuda_draws_changes(draws));
        ASK(queue, draw, queue->compute, lh_cuda_draws_tokens(draws), some, stride, draws->count,
            vocabulary, lh_cuda_draws_rows(draws), draws->cuts, queue->scratch.memory);
        const size_t bytes = draws->count * sizeof *tokens;
        ASK(queue, copy, queue->compute, tokens + done, bytes, lh_cuda_draws_tokens(draws), bytes,
            bytes, 1);
    }
}

/* ---- Latent attention ---- */

static void *open_latent(const lh_compute *compute, const lh_model_config *config, uint32_t rows,
                         uint32_t context) {
    const lh_cuda_queue *queue = queue_of(compute);
    (void)context;
    queue->plugin->use(queue->device);
    return lh_cuda_latent_open(queue->plugin, config, rows);
}

static void close_latent(const lh_compute *compute, void *latent) {
    lh_cuda_latent_close(queue_of(compute)->plugin, latent);
}

static void latent_attention(const lh_compute *compute, void *latent, const lh_expert_matrices *k_b,
                             const lh_expert_matrices *v_b, const lh_position_run *runs,
                             uint32_t count, uint32_t layer, const float *q, float *y) {
    lh_cuda_queue *queue = queue_of(compute);
    const lh_kv_view view = lh_kv_sequence_view(runs[0].sequence, layer);
    const lh_cuda_latent *l = latent;
    const lh_cuda_attention_rows all =
        lh_cuda_rows_of_attention(&queue->rows, lh_cuda_rows_offset(&view.shape, layer));
    (void)count;
    const lh_cuda_latent_call call = {
        queue->plugin, queue->compute,        compute->activations, &view.shape, k_b,
        v_b,           queue->rows.is_prompt, &queue->scratch};
    note(queue, lh_cuda_latent_attend(l, &call, &all, q, y));
}

/* ---- Mixtures of experts ---- */

static void *open_slots(const lh_compute *compute, const lh_model_config *config,
                        const lh_parameters *weights, uint32_t rows) {
    const lh_cuda_queue *queue = queue_of(compute);
    queue->plugin->use(queue->device);
    return lh_cuda_slots_open(queue->plugin, config, weights, rows);
}

static void close_slots(const lh_compute *compute, void *slots) {
    lh_cuda_slots_close(queue_of(compute)->plugin, slots);
}

static const float *route(const lh_compute *compute, void *slots, float *logits, const float *bias,
                          const float *scale, uint32_t rows) {
    lh_cuda_queue *queue = queue_of(compute);
    const lh_cuda_slots *s = slots;
    const lh_cuda_experts experts = lh_cuda_slots_for(s, rows);
    lh_cuda_routing routing = s->routing;
    routing.bias = bias;
    ASK(queue, route, queue->compute, &experts, &routing, logits, lh_row_stride(routing.experts),
        scale, rows);
    return experts.slot_shares;
}

static lh_activations expert_rows(const lh_compute *compute, const lh_expert_product *product,
                                  const lh_packed *x, uint32_t rows) {
    return lh_packed_rows(
        x, lh_activation_kind_for(product->matrices->first.dtype, compute->activations),
        (lh_span){0, rows});
}

static lh_cuda_expert_matrices expert_matrices(const lh_expert_product *product) {
    return (lh_cuda_expert_matrices){product->matrices->first, product->matrices->each_bytes,
                                     product->biases};
}

static void expert_products(const lh_compute *compute, void *slots,
                            const lh_expert_product *products, uint32_t count, const lh_packed *x) {
    lh_cuda_queue *queue = queue_of(compute);
    const lh_cuda_slots *s = slots;
    const uint32_t rows = queue->rows.count;
    const lh_cuda_experts experts = lh_cuda_slots_for(s, rows);
    for (uint32_t i = 0; i < count; i++) {
        const lh_activations packed = expert_rows(compute, &products[i], x, rows);
        const lh_cuda_expert_matrices w = expert_matrices(&products[i]);
        ASK(queue, expert_products, queue->compute, products[i].y, products[i].stride, &packed, &w,
            &experts, &s->routing, rows);
    }
}

static void expert_sum(const lh_compute *compute, void *slots, const lh_expert_product *product,
                       const lh_packed *x, lh_span out) {
    lh_cuda_queue *queue = queue_of(compute);
    const lh_cuda_slots *s = slots;
    const uint32_t rows = queue->rows.count;
    const lh_cuda_experts experts = lh_cuda_slots_for(s, rows);
    const lh_activations packed = expert_rows(compute, product, x, rows * s->routing.used);
    const lh_cuda_expert_matrices w = expert_matrices(product);
    ASK(queue, expert_sum, queue->compute, product->y, product->stride, &packed, &w, out, &experts,
        &s->routing, rows);
}

static void sigmoid(const lh_compute *compute, float *y, const float *x, size_t stride,
                    uint32_t rows) {
    lh_cuda_queue *queue = queue_of(compute);
    ASK(queue, sigmoid, queue->compute, y, x, stride, rows);
}

/* ---- Repeating ---- */

static bool begin_repeat(const lh_compute *compute, const lh_repeat *repeat) {
    lh_cuda_queue *queue = queue_of(compute);
    queue->rows.context = lh_cuda_room(queue->rows.context);
    const lh_cuda_kind kind = {repeat->buffer, repeat->rows, repeat->projected, queue->rows.context,
                               queue->rows.is_prompt};
    lh_cuda_recording *recording =
        lh_cuda_recordings_find(&queue->recordings, queue->plugin, &kind);
    if (recording->graph) {
        ASK(queue, replay, recording->graph, queue->compute);
        return true;
    }
    if (++recording->times > 1 && ASK(queue, begin_recording, queue->compute))
        queue->recording = recording;
    return false;
}

static void end_repeat(const lh_compute *compute) {
    lh_cuda_queue *queue = queue_of(compute);
    lh_cuda_recording *recording = queue->recording;
    if (!recording)
        return;
    queue->recording = NULL;
    /* also where something failed meanwhile: the stream is to work again */
    if (note(queue, queue->plugin->end_recording(queue->compute, &recording->graph)))
        ASK(queue, replay, recording->graph, queue->compute);
}

static const lh_ops cuda_ops = {
    .allocate = allocate,
    .release = release,
    .allocate_host = allocate_host,
    .release_host = release_host,
    .map = map,
    .unmap = unmap,
    .put = put,
    .put_memory = put_memory,
    .put_filled = put_filled,
    .put_rows = put_rows,
    .copy = copy,
    .send = send,
    .sent = sent,
    .packs = true,
    .sends_ahead = LH_STEP_COLUMN_SHARDS_MAX - 1,
    .settle = settle,
    .begin_repeat = begin_repeat,
    .end_repeat = end_repeat,
    .pack = pack,
    .norm = norm,
    .scale = scale_all,
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
    .attention = attention,
    .draw = draw,
    .open_latent = open_latent,
    .close_latent = close_latent,
    .latent_attention = latent_attention,
    .open_slots = open_slots,
    .close_slots = close_slots,
    .route = route,
    .expert_products = expert_products,
    .expert_sum = expert_sum,
    .sigmoid = sigmoid,
};

static uint64_t work_bytes(const lh_device *base, const lh_device_work *work) {
    const lh_cuda_device *device = (const lh_cuda_device *)base;
    const lh_model_config *config = work->config;
    uint64_t bytes = work->rows * sizeof(uint32_t) + /* tokens */
                     lh_cuda_rows_bytes(work->rows, work->context) + lh_cuda_draws_bytes(work) +
                     lh_cuda_scratch_bytes(device, work);
    if (work->is_fast)
        bytes += device->plugin->fast_bytes();
    if (config && config->latent.rank > 0)
        bytes += lh_cuda_latent_bytes(config, work->rows);
    if (config && config->experts > 0)
        bytes += lh_cuda_slots_bytes(config, work->rows);
    return bytes;
}

const lh_device lh_cuda_queue_device = {
    .name = "cuda",
    .ops = &cuda_ops,
    .open = open_queue,
    .close = close_queue,
    .work_bytes = work_bytes,
};
