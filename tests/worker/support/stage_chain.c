/* The weights come straight from the file's bytes. */
#include "tests/worker/support/stage_chain.h"

#include "worker/serve/frames.h"

#include <stdlib.h>
#include <string.h>

#define STAGES_MAX 64u
/* A row and a block of columns each, when cut as far as they go. */
#define SHARDS_MAX (1u << 16)

typedef struct kept_shard {
    lh_stage_shard shard;
    size_t offset; /* of its values */
} kept_shard;

struct stage_chain {
    lh_gguf *gguf;
    const uint8_t *bytes;
    lh_model_config config;
    stage_chain_options options;
    lh_thread_pool *pool;
    uint32_t stages;
    lh_stage *stage[STAGES_MAX];
    kept_shard *shards; /* what the last stage that ran gave */
    uint32_t shard_count;
    float *values;
    size_t value_count;
    uint8_t *wire_bytes; /* a shard on its way */
    float *arrived;      /* and what comes out of it */
    const stage_chain_events *events;
};

static lh_status acquire(void *context, const lh_gguf_tensor *tensor, lh_error *error) {
    (void)context;
    (void)tensor;
    (void)error;
    return LH_OK;
}

static lh_status read_tensor(void *context, const lh_gguf_tensor *tensor, uint64_t offset,
                             void *bytes, size_t length, lh_error *error) {
    (void)error;
    memcpy(bytes, ((const stage_chain *)context)->bytes + tensor->offset + offset, length);
    return LH_OK;
}

static void release(void *context, const lh_gguf_tensor *tensor) {
    (void)context;
    (void)tensor;
}

static lh_status create_stages(stage_chain *chain, lh_error *error) {
    const stage_chain_options *o = &chain->options;
    const lh_weight_source source = {chain, acquire, read_tensor, release};
    lh_stage_options options = {.kv_bytes = o->kv_bytes,
                                .context = o->context,
                                .rows_max = o->rows_max,
                                .steps_max = 2,
                                .activations = o->activations,
                                .kv_type = o->kv_type,
                                .pool = chain->pool};
    lh_status status = lh_kernels_select(o->isa, &options.kernels, error);
    for (uint32_t i = 0; i < o->stages && status == LH_OK; i++) {
        options.device = o->is_device_everywhere || o->device_stage == i ? o->device : NULL;
        options.range.first = chain->config.layers * i / o->stages;
        options.range.last = chain->config.layers * (i + 1) / o->stages;
        status = lh_stage_create(chain->gguf, &chain->config, &source, &options, NULL, NULL,
                                 &chain->stage[i], error);
        chain->stages += status == LH_OK;
    }
    return status;
}

lh_status stage_chain_create(const void *bytes, size_t length, const stage_chain_options *options,
                             stage_chain **out, lh_error *error) {
    stage_chain *chain = calloc(1, sizeof *chain);
    if (!chain || options->stages > STAGES_MAX)
        abort();
    chain->bytes = bytes;
    chain->options = *options;
    lh_status status = lh_gguf_parse(bytes, length, length, &chain->gguf, error);
    if (status == LH_OK)
        status = lh_model_config_read(chain->gguf, &chain->config, error);
    if (status == LH_OK)
        status = lh_thread_pool_create(options->threads, &chain->pool, error);
    if (status == LH_OK)
        status = create_stages(chain, error);
    if (status != LH_OK) {
        stage_chain_destroy(chain);
        return status;
    }
    chain->shards = malloc(SHARDS_MAX * sizeof *chain->shards);
    size_t activation_bytes = (size_t)options->rows_max * chain->config.width * sizeof(float);
    chain->values = malloc(activation_bytes);
    chain->arrived = malloc(activation_bytes);
    chain->wire_bytes =
        malloc(lh_wire_bytes(options->wire, options->rows_max, chain->config.width));
    if (!chain->shards || !chain->values || !chain->arrived || !chain->wire_bytes)
        abort();
    *out = chain;
    return LH_OK;
}

void stage_chain_destroy(stage_chain *chain) {
    for (uint32_t i = 0; i < chain->stages; i++)
        lh_stage_destroy(chain->stage[i]);
    free(chain->wire_bytes);
    free(chain->arrived);
    free(chain->values);
    free(chain->shards);
    lh_thread_pool_destroy(chain->pool);
    lh_gguf_destroy(chain->gguf);
    free(chain);
}

const lh_model_config *stage_chain_config(const stage_chain *chain) {
    return &chain->config;
}

lh_stage *stage_chain_stage(const stage_chain *chain, uint32_t number) {
    return chain->stage[number];
}

static void keep(stage_chain *chain, lh_stage_shard shard, size_t stride) {
    if (chain->shard_count == SHARDS_MAX)
        abort();
    kept_shard *kept = &chain->shards[chain->shard_count++];
    *kept = (kept_shard){shard, chain->value_count};
    for (uint32_t row = 0; row < shard.rows; row++) {
        memcpy(chain->values + chain->value_count, shard.values + row * stride,
               shard.columns * sizeof(float));
        chain->value_count += shard.columns;
    }
}

/* The shard as the next stage gets it. */
static lh_stage_shard carry(stage_chain *chain, const lh_stage_shard *shard) {
    lh_wire_type wire = chain->options.wire;
    lh_stage_shard arrived = *shard;
    arrived.values = chain->arrived;
    if (!lh_wire_encode(wire, shard->values, shard->rows, shard->columns, chain->wire_bytes) ||
        !lh_wire_decode(wire, chain->wire_bytes, shard->rows, shard->columns, chain->arrived)) {
        abort();
    }
    return arrived;
}

static void on_shard(void *context, const lh_stage_shard *sent) {
    stage_chain *chain = context;
    const lh_stage_shard carried = carry(chain, sent), *shard = &carried;
    if (chain->options.order != SHARDS_CUT_AND_MIXED) {
        keep(chain, *shard, shard->columns);
        return;
    }
    for (uint32_t row = 0; row < shard->rows; row++) {
        for (uint32_t column = 0; column < shard->columns; column += LH_SPAN_COLUMNS) {
            uint32_t left = shard->columns - column;
            keep(chain,
                 (lh_stage_shard){.first_row = shard->first_row + row,
                                  .rows = 1,
                                  .first_column = shard->first_column + column,
                                  .columns = left < LH_SPAN_COLUMNS ? left : LH_SPAN_COLUMNS,
                                  .values = shard->values + (size_t)row * shard->columns + column},
                 shard->columns);
        }
    }
}

static void on_sample(void *context, uint64_t sequence, const lh_sample_result *result) {
    const stage_chain_events *events = ((stage_chain *)context)->events;
    events->on_sample(events->context, sequence, result);
}

static void on_logits(void *context, uint64_t sequence, const float *logits, uint32_t vocabulary) {
    const stage_chain_events *events = ((stage_chain *)context)->events;
    events->on_logits(events->context, sequence, logits, vocabulary);
}

static void on_score(void *context, uint32_t segment, const lh_token_score *score) {
    const stage_chain_events *events = ((stage_chain *)context)->events;
    if (events->on_score)
        events->on_score(events->context, segment, score);
}

static void on_pooled(void *context, uint32_t segment, const int64_t *sums, uint32_t width) {
    const stage_chain_events *events = ((stage_chain *)context)->events;
    events->on_pooled(events->context, segment, sums, width);
}

static void swap(kept_shard *a, kept_shard *b) {
    kept_shard held = *a;
    *a = *b;
    *b = held;
}

static void order_shards(stage_chain *chain) {
    uint32_t count = chain->shard_count;
    uint64_t random = 88172645463325252u;
    if (chain->options.order == SHARDS_DESCENDING)
        for (uint32_t i = 0; i < count / 2; i++)
            swap(&chain->shards[i], &chain->shards[count - 1 - i]);
    for (uint32_t i = count; chain->options.order == SHARDS_CUT_AND_MIXED && i > 1; i--) {
        random ^= random << 13; /* xorshift64 (Marsaglia 2003) */
        random ^= random >> 7;
        random ^= random << 17;
        swap(&chain->shards[i - 1], &chain->shards[random % i]);
    }
}

static lh_status accept_all(stage_chain *chain, lh_stage_step *step, lh_error *error) {
    lh_status status = LH_OK;
    order_shards(chain);
    for (uint32_t i = 0; i < chain->shard_count && status == LH_OK; i++) {
        lh_stage_shard shard = chain->shards[i].shard;
        shard.values = chain->values + chain->shards[i].offset;
        status = lh_stage_accept(step, &shard, error);
    }
    return status;
}

lh_status stage_chain_run(stage_chain *chain, const lh_batch *batch,
                          const stage_chain_events *events, lh_error *error) {
    const lh_stage_output output = {.context = chain,
                                    .on_shard = on_shard,
                                    .on_sample = on_sample,
                                    .on_score = on_score,
                                    .on_pooled = on_pooled,
                                    .on_logits = events->on_logits ? on_logits : NULL};
    lh_status status = LH_OK;
    lh_batch with_cut = *batch;
    with_cut.cut = lh_step_cut_evenly(chain->config.width, chain->options.column_shards);
    chain->events = events;
    for (uint32_t i = 0; i < chain->stages && status == LH_OK; i++) {
        lh_stage_step *step;
        status = lh_stage_begin(chain->stage[i], &with_cut, &step, error);
        if (status != LH_OK)
            break;
        if (i > 0)
            status = accept_all(chain, step, error);
        chain->shard_count = 0;
        chain->value_count = 0;
        if (status == LH_OK)
            status = lh_stage_finish(step, &output, error);
        lh_stage_end(step);
    }
    return status;
}

void stage_chain_free(stage_chain *chain, uint64_t sequence) {
    for (uint32_t i = 0; i < chain->stages; i++)
        lh_stage_truncate(chain->stage[i], sequence, 0);
}
