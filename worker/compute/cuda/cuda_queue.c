/* Operations as launches, in the order of lh_ops. */
#include "worker/compute/cuda/cuda_queue.h"

#include "common/base/arithmetic.h"
#include "common/model/model_widths.h"
#include "common/protocol/step_parts.h"
#include "worker/compute/cuda/cuda_device.h"
#include "worker/compute/cuda/cuda_draws.h"
#include "worker/compute/cuda/cuda_latent.h"
#include "worker/compute/cuda/cuda_recordings.h"
#include "worker/compute/cuda/cuda_rows.h"
#include "worker/compute/cuda/cuda_slots.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A half of the staging memory: a chunk of 512 rows of a wide model. */
#define STAGING_BYTES (8u << 20)

typedef struct lh_staging {
    uint8_t *halves[2];
    lh_cuda_event read[2]; /* the GPU has read what was put into the half */
    uint32_t half;
    size_t filled;
} lh_staging;

typedef struct lh_cuda_queue {
    const lh_cuda_plugin *plugin;
    int device;
    int failure; /* the first; 0: none */
    lh_cuda_stream compute, outgoing;
    lh_cuda_event computed, sent[LH_STEP_COLUMN_SHARDS_MAX];
    lh_staging staging;
    uint32_t *tokens; /* [rows] */
    lh_cuda_rows rows;
    lh_cuda_draws draws;
    void *scratch; /* of attention and draws; grows */
    size_t scratch_bytes;
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

static void close_queue(void *context) {
    lh_cuda_queue *queue = context;
    if (!queue)
        return;
    const lh_cuda_plugin *plugin = queue->plugin;
    plugin->use(queue->device);
    lh_cuda_recordings_drop(&queue->recordings, plugin);
    lh_cuda_draws_reset(&queue->draws, plugin);
    lh_cuda_rows_reset(&queue->rows, plugin);
    plugin->release(queue->scratch);
    plugin->release(queue->tokens);
    for (uint32_t i = 0; i < LH_STEP_COLUMN_SHARDS_MAX; i++)
        if (queue->sent[i])
            plugin->destroy_event(queue->sent[i]);
    for (uint32_t i = 0; i < 2; i++) {
        if (queue->staging.read[i])
            plugin->destroy_event(queue->staging.read[i]);
        plugin->release_host(queue->staging.halves[i]);
    }
    if (queue->computed)
        plugin->destroy_event(queue->computed);
    if (queue->outgoing)
        plugin->destroy_stream(queue->outgoing);
    if (queue->compute)
        plugin->destroy_stream(queue->compute);
    free(queue);
}

static void create_all(lh_cuda_queue *queue, uint32_t rows) {
    ASK(queue, use, queue->device);
    ASK(queue, create_stream, &queue->compute, false);
    ASK(queue, create_stream, &queue->outgoing, true);
    ASK(queue, create_event, &queue->computed);
    for (uint32_t i = 0; i < 2; i++) {
        ASK(queue, create_event, &queue->staging.read[i]);
        ASK(queue, allocate_host, (void **)&queue->staging.halves[i], STAGING_BYTES);
    }
    for (uint32_t i = 0; i < LH_STEP_COLUMN_SHARDS_MAX; i++)
        ASK(queue, create_event, &queue->sent[i]);
    ASK(queue, allocate, (void **)&queue->tokens, rows * sizeof *queue->tokens);
    note(queue, lh_cuda_rows_init(&queue->rows, queue->plugin, rows));
}

static lh_status open_queue(const lh_device *base, const lh_model_config *config, uint32_t rows,
                            void **out, lh_error *error) {
    const lh_cuda_device *device = (const lh_cuda_device *)base;
    lh_status status = config ? lh_cuda_slots_check(config, error) : LH_OK;
    if (status != LH_OK)
        return status;
    lh_cuda_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for a GPU's queue");
    queue->plugin = device->plugin;
    queue->device = device->number;
    create_all(queue, rows);
    if (!works(queue)) {
        status = lh_fail(error, LH_ERR_UNAVAILABLE, "GPU %d: %s", queue->device,
                         queue->plugin->error_text(queue->failure));
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
    /* kernels read keys beyond a sequence's end, which do not count: they are to be something */
    ASK(queue, clear, queue->compute, memory, bytes);
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

/* Staging memory for so many bytes, at most a half of it: for a copy that is asked for at once. */
static uint8_t *stage_bytes(lh_cuda_queue *queue, size_t bytes) {
    lh_staging *staging = &queue->staging;
    assert(bytes <= STAGING_BYTES);
    if (staging->filled + bytes > STAGING_BYTES) {
        ASK(queue, record, staging->read[staging->half], queue->compute);
        staging->half = 1 - staging->half;
        staging->filled = 0;
        ASK(queue, finish_event, staging->read[staging->half]);
    }
    uint8_t *memory = staging->halves[staging->half] + staging->filled;
    staging->filled += (bytes + 63) / 64 * 64;
    return memory;
}

static void put_rows(const lh_compute *compute, void *to, size_t stride, const void *from,
                     size_t bytes, uint32_t rows) {
    lh_cuda_queue *queue = queue_of(compute);
    ASK(queue, use, queue->device);
    uint32_t at_once = bytes > STAGING_BYTES ? 0 : (uint32_t)(STAGING_BYTES / bytes);
    assert(at_once > 0);
    for (uint32_t done = 0, count; done < rows && works(queue); done += count) {
        count = rows - done < at_once ? rows - done : at_once;
        uint8_t *staged = stage_bytes(queue, count * bytes);
        memcpy(staged, (const char *)from + done * bytes, count * bytes);
        ASK(queue, copy, queue->compute, (char *)to + done * stride, stride, staged, bytes, bytes,
            count);
    }
}

static void put(const lh_compute *compute, void *to, const void *from, size_t bytes) {
    for (size_t done = 0, count; done < bytes; done += count) {
        count = bytes - done < STAGING_BYTES ? bytes - done : STAGING_BYTES;
        put_rows(compute, (char *)to + done, count, (const char *)from + done, count, 1);
    }
}

static void copy(const lh_compute *compute, void *to, const void *from, size_t bytes) {
    lh_cuda_queue *queue = queue_of(compute);
    ASK(queue, copy, queue->compute, to, bytes, from, bytes, bytes, 1);
}

static void send(const lh_compute *compute, uint32_t number, const lh_outgoing *outgoing) {
    lh_cuda_queue *queue = queue_of(compute);
    size_t bytes = (outgoing->columns.end - outgoing->columns.begin) * sizeof(float);
    ASK(queue, record, queue->computed, queue->compute);
    ASK(queue, wait_for, queue->outgoing, queue->computed);
    ASK(queue, copy, queue->outgoing, outgoing->host, bytes, outgoing->h + outgoing->columns.begin,
        outgoing->width * sizeof(float), bytes, outgoing->rows);
    ASK(queue, record, queue->sent[number], queue->outgoing);
}

static float *sent(const lh_compute *compute, uint32_t number, const lh_outgoing *outgoing) {
    lh_cuda_queue *queue = queue_of(compute);
    return ASK(queue, finish_event, queue->sent[number]) ? outgoing->host : NULL;
}

static lh_status settle(const lh_compute *compute, lh_error *error) {
    lh_cuda_queue *queue = queue_of(compute);
    ASK(queue, use, queue->device);
    ASK(queue, finish_stream, queue->compute);
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

static void multiply(lh_cuda_queue *queue, const lh_compute *compute, const lh_product *product,
                     const lh_packed *packed, lh_span in, bool continues, const float *scale) {
    const lh_activations x = lh_packed_rows(
        packed, lh_activation_kind_for(product->matrix.dtype, compute->activations), product->rows);
    float *y = product->y + product->rows.begin * product->stride;
    ASK(queue, matmul, queue->compute, y, product->stride, &x, &product->matrix, in, product->out,
        continues);
    if (!scale)
        return;
    scale += product->rows.begin;
    if (product->bias)
        ASK(queue, scale_add_rows, queue->compute, y, product->stride, x.rows, product->out, scale,
            product->bias);
    else
        ASK(queue, scale_rows, queue->compute, y, product->stride, x.rows, product->out, scale);
}

static void products(const lh_compute *compute, const lh_product *list, uint32_t count,
                     const lh_packed *x, lh_span in, bool continues, const float *scale) {
    for (uint32_t i = 0; i < count; i++)
        multiply(queue_of(compute), compute, &list[i], x, in, continues || in.begin > 0, scale);
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
    float *staged = (float *)(void *)stage_bytes(queue, 2 * bytes);
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
    const void *before = queue->rows.memory;
    note(queue, lh_cuda_rows_fill(&queue->rows, queue->plugin, runs, count));
    if (queue->rows.memory != before)
        lh_cuda_recordings_drop(&queue->recordings, queue->plugin);
    put(compute, queue->rows.memory, queue->rows.host, queue->rows.used_bytes);
}

static void kv_store(const lh_compute *compute, const lh_position_run *runs, uint32_t count,
                     uint32_t layer, const float *keys, const float *values) {
    lh_cuda_queue *queue = queue_of(compute);
    const lh_kv_view view = lh_kv_sequence_view(runs[0].sequence, layer);
    const lh_kv_shape *shape = &view.shape;
    (void)count;
    ASK(queue, kv_store, queue->compute, shape, lh_cuda_rows_places(&queue->rows),
        lh_cuda_rows_offset(shape, layer), queue->rows.count, keys,
        lh_row_stride((size_t)shape->kv_heads * shape->key_dim), values,
        lh_row_stride((size_t)shape->kv_heads * shape->value_dim),
        (lh_cuda_rotation){0, false, NULL, NULL});
}

/* Grows to so many bytes; what is being read of it, the runtime waits for. */
static bool reserve_scratch(lh_cuda_queue *queue, size_t bytes) {
    if (bytes <= queue->scratch_bytes || !works(queue))
        return works(queue);
    assert(!queue->recording);
    lh_cuda_recordings_drop(&queue->recordings, queue->plugin);
    queue->plugin->release(queue->scratch);
    queue->scratch = NULL;
    queue->scratch_bytes = bytes + bytes / 2;
    return ASK(queue, allocate, &queue->scratch, queue->scratch_bytes);
}

static void attention(const lh_compute *compute, const lh_attention *attention,
                      const lh_position_run *runs, uint32_t count, uint32_t layer, uint32_t window,
                      const float *sinks, const float *q, float *y) {
    lh_cuda_queue *queue = queue_of(compute);
    const lh_kv_view view = lh_kv_sequence_view(runs[0].sequence, layer);
    const lh_kv_shape *shape = &view.shape;
    const uint32_t group = attention->heads / attention->kv_heads;
    const size_t stride = lh_row_stride((size_t)attention->heads * attention->head_dim);
    const lh_cuda_attention_rows rows =
        lh_cuda_rows_of_attention(&queue->rows, lh_cuda_rows_offset(shape, layer));
    (void)count;
    if (queue->rows.is_prompt) {
        ASK(queue, prompt_attention, queue->compute, y, stride, q, stride, shape, group, &rows,
            window, attention->scale, sinks);
    } else if (reserve_scratch(queue, queue->plugin->attention_scratch_bytes(
                                          rows.count, attention->heads, shape->value_dim,
                                          rows.context, window))) {
        ASK(queue, attention, queue->compute, y, stride, q, stride, shape, group, &rows, window,
            attention->scale, sinks, queue->scratch);
    }
}

/* ---- The end ---- */

static void draw(const lh_compute *compute, float *logits, size_t stride, uint32_t vocabulary,
                 const lh_drawn_row *rows, uint32_t count, uint32_t *tokens) {
    lh_cuda_queue *queue = queue_of(compute);
    lh_cuda_draws *draws = &queue->draws;
    if (!works(queue) ||
        !note(queue, lh_cuda_draws_fill(draws, queue->plugin, vocabulary, rows, count)) ||
        !reserve_scratch(queue, queue->plugin->draw_scratch_bytes(count, vocabulary)))
        return;
    put(compute, draws->memory, draws->host, draws->used_bytes);
    ASK(queue, change_logits, queue->compute, logits, stride, count, vocabulary,
        lh_cuda_draws_changes(draws));
    ASK(queue, draw, queue->compute, lh_cuda_draws_tokens(draws), logits, stride, count, vocabulary,
        lh_cuda_draws_rows(draws), draws->cuts, queue->scratch);
    const size_t bytes = count * sizeof *tokens;
    ASK(queue, copy, queue->compute, tokens, bytes, lh_cuda_draws_tokens(draws), bytes, bytes, 1);
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
    if (!reserve_scratch(queue, queue->plugin->attention_scratch_bytes(
                                    lh_min_u32(all.count, l->rows_max), l->heads, l->shape.rank,
                                    all.context, LH_ATTENTION_ALL)))
        return;
    const lh_cuda_latent_call call = {
        queue->plugin, queue->compute,        compute->activations, &view.shape, k_b,
        v_b,           queue->rows.is_prompt, queue->scratch};
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
    const lh_cuda_slots *s = lh_cuda_slots_for(slots, bias, rows);
    ASK(queue, route, queue->compute, &s->experts, &s->routing, logits,
        lh_row_stride(s->routing.experts), scale, rows);
    return s->experts.slot_shares;
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
    for (uint32_t i = 0; i < count; i++) {
        const lh_activations rows = expert_rows(compute, &products[i], x, s->rows);
        const lh_cuda_expert_matrices w = expert_matrices(&products[i]);
        ASK(queue, expert_products, queue->compute, products[i].y, products[i].stride, &rows, &w,
            &s->experts, &s->routing, s->rows);
    }
}

static void expert_sum(const lh_compute *compute, void *slots, const lh_expert_product *product,
                       const lh_packed *x, lh_span out) {
    lh_cuda_queue *queue = queue_of(compute);
    const lh_cuda_slots *s = slots;
    const lh_activations rows = expert_rows(compute, product, x, s->rows * s->routing.used);
    const lh_cuda_expert_matrices w = expert_matrices(product);
    ASK(queue, expert_sum, queue->compute, product->y, product->stride, &rows, &w, out, &s->experts,
        &s->routing, s->rows);
}

static void sigmoid(const lh_compute *compute, float *y, const float *x, size_t stride,
                    uint32_t rows) {
    lh_cuda_queue *queue = queue_of(compute);
    ASK(queue, sigmoid, queue->compute, y, x, stride, rows);
}

/* ---- Repeating ---- */

/* Room for keys in steps: attention has blocks of threads for so many, of which those without keys
 * end at once. So a recording serves while a context doubles. */
static uint32_t context_of_kind(uint32_t context) {
    uint32_t room = LH_ATTENTION_BLOCK;
    while (room < context && room <= UINT32_MAX / 2)
        room *= 2;
    return room;
}

static bool begin_repeat(const lh_compute *compute, const lh_repeat *repeat) {
    lh_cuda_queue *queue = queue_of(compute);
    queue->rows.context = context_of_kind(queue->rows.context);
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
    .put_rows = put_rows,
    .copy = copy,
    .send = send,
    .sent = sent,
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

const lh_device lh_cuda_queue_device = {"cuda", &cuda_ops, open_queue, close_queue, NULL};
