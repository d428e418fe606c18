/* The weights come straight from the file's bytes. */
#include "tests/worker/support/stage_chain.h"

#include "tests/worker/support/mapped_weights.h"
#include "tests/worker/support/own_weights.h"
#include "worker/serve/frames.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define STAGES_MAX 64u
/* A row and a block of columns each, when cut as far as they go. */
#define SHARDS_MAX (1u << 16)

typedef struct kept_shard {
    lh_stage_shard shard;
    size_t offset; /* of its values */
} kept_shard;

/* One member of all stages. */
typedef struct chain_member {
    stage_chain *chain;
    uint32_t number;
    lh_thread_pool *pool;
    lh_stage *stage[STAGES_MAX];
    lh_stage_step *step; /* that it runs now */
    uint64_t results;    /* a digest of what it has told of it */
    lh_status status;
    lh_error error;
} chain_member;

struct stage_chain {
    lh_gguf *gguf;
    const uint8_t *bytes; /* [length] */
    size_t length;
    lh_model_config config;
    stage_chain_options options;
    uint32_t stages;
    chain_member members[LH_MEMBERS_MAX];
    member_exchange *exchange;
    kept_shard *shards; /* what the last stage that ran gave */
    uint32_t shard_count;
    float *values;
    size_t value_count;
    uint8_t *wire_bytes;   /* a shard on its way */
    float *arrived;        /* and what comes out of it */
    const lh_batch *batch; /* of the step that runs */
    const stage_chain_events *events;
};

/* Of several members each finds no more than what it says that it needs. */
static lh_status create_stage(stage_chain *chain, const lh_stage_options *options, lh_stage **stage,
                              lh_error *error) {
    uint8_t *own = NULL;
    if (options->membership.members > 1)
        own = own_weights(chain->bytes, chain->length, chain->gguf, &chain->config, options->range,
                          &options->membership);
    const lh_weight_source source = mapped_weights(own ? own : chain->bytes);
    lh_status status =
        lh_stage_create(chain->gguf, &chain->config, &source, options, NULL, NULL, stage, error);
    free(own);
    return status;
}

static lh_status create_stages(stage_chain *chain, chain_member *member, lh_error *error) {
    const stage_chain_options *o = &chain->options;
    lh_stage_options options = {.kv_bytes = o->kv_bytes,
                                .context = o->context,
                                .rows_max = o->rows_max,
                                .steps_max = 2,
                                .activations = o->activations,
                                .kv_type = o->kv_type,
                                .is_fast = o->is_fast,
                                .membership = {.members = o->members, .number = member->number}};
    memcpy(options.membership.weights, o->weights, sizeof o->weights);
    lh_status status = lh_kernels_select(o->isa, &options.kernels, error);
    if (status == LH_OK)
        status = lh_thread_pool_create(o->threads, &member->pool, error);
    options.pool = member->pool;
    for (uint32_t i = 0; i < o->stages && status == LH_OK; i++) {
        options.device = o->is_device_everywhere || o->device_stage == i ? o->device : NULL;
        options.range.first = chain->config.layers * i / o->stages;
        options.range.last = chain->config.layers * (i + 1) / o->stages;
        status = create_stage(chain, &options, &member->stage[i], error);
    }
    return status;
}

static lh_status create_members(stage_chain *chain, lh_error *error) {
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < chain->options.members && status == LH_OK; i++) {
        chain->members[i].chain = chain;
        chain->members[i].number = i;
        status = create_stages(chain, &chain->members[i], error);
    }
    return status;
}

lh_status stage_chain_create(const void *bytes, size_t length, const stage_chain_options *options,
                             stage_chain **out, lh_error *error) {
    stage_chain *chain = calloc(1, sizeof *chain);
    if (!chain || options->stages > STAGES_MAX)
        abort();
    chain->bytes = bytes;
    chain->length = length;
    chain->options = *options;
    chain->stages = options->stages;
    if (chain->options.members == 0)
        chain->options.members = 1;
    chain->exchange = member_exchange_create(chain->options.members, (member_link){0});
    lh_status status = lh_gguf_parse(bytes, length, length, &chain->gguf, error);
    if (status == LH_OK)
        status = lh_model_config_read(chain->gguf, &chain->config, error);
    if (status == LH_OK)
        status = create_members(chain, error);
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
    for (uint32_t m = 0; m < chain->options.members; m++) {
        for (uint32_t i = 0; i < chain->stages; i++)
            lh_stage_destroy(chain->members[m].stage[i]);
        lh_thread_pool_destroy(chain->members[m].pool);
    }
    member_exchange_destroy(chain->exchange);
    free(chain->wire_bytes);
    free(chain->arrived);
    free(chain->values);
    free(chain->shards);
    lh_gguf_destroy(chain->gguf);
    free(chain);
}

const lh_model_config *stage_chain_config(const stage_chain *chain) {
    return &chain->config;
}

lh_stage *stage_chain_stage(const stage_chain *chain, uint32_t number) {
    return chain->members[0].stage[number];
}

member_exchange *stage_chain_exchange(const stage_chain *chain) {
    return chain->exchange;
}

/* Some more of what a member has told (FNV-1a). */
static void note(chain_member *member, const void *bytes, size_t length) {
    for (size_t i = 0; i < length; i++)
        member->results = (member->results ^ ((const uint8_t *)bytes)[i]) * 1099511628211u;
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
    arrived.packed = NULL;
    if (shard->packed)
        memcpy(chain->wire_bytes, shard->packed, lh_wire_bytes(wire, shard->rows, shard->columns));
    else if (!shard->values ||
             !lh_wire_encode(wire, shard->values, shard->rows, shard->columns, chain->wire_bytes))
        abort();
    if (!lh_wire_decode(wire, chain->wire_bytes, shard->rows, shard->columns, chain->arrived))
        abort();
    return arrived;
}

static void on_shard(void *context, const lh_stage_shard *sent) {
    chain_member *member = context;
    stage_chain *chain = member->chain;
    if (sent->values)
        note(member, sent->values, (size_t)sent->rows * sent->columns * sizeof(float));
    if (member->number > 0)
        return;
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

static void on_sample(void *context, uint64_t sequence, const lh_row_answer *result) {
    chain_member *member = context;
    const stage_chain_events *events = member->chain->events;
    note(member, &result->token, sizeof result->token);
    note(member, &result->digest, sizeof result->digest);
    if (member->number == 0)
        events->on_sample(events->context, sequence, result);
}

static void on_logits(void *context, uint64_t sequence, const float *logits, uint32_t vocabulary) {
    chain_member *member = context;
    const stage_chain_events *events = member->chain->events;
    note(member, logits, vocabulary * sizeof *logits);
    if (member->number == 0)
        events->on_logits(events->context, sequence, logits, vocabulary);
}

static void on_score(void *context, uint32_t segment, const lh_token_score *score) {
    chain_member *member = context;
    const stage_chain_events *events = member->chain->events;
    note(member, &score->logprob, sizeof score->logprob);
    if (events->on_score && member->number == 0)
        events->on_score(events->context, segment, score);
}

static void on_pooled(void *context, uint32_t segment, const int64_t *sums, uint32_t width) {
    chain_member *member = context;
    const stage_chain_events *events = member->chain->events;
    note(member, sums, width * sizeof *sums);
    if (member->number == 0)
        events->on_pooled(events->context, segment, sums, width);
}

static void on_answer(void *context, uint32_t segment, const lh_row_answer *part) {
    const chain_member *member = context;
    if (part->score_count > 0)
        on_score(context, segment, part->scores);
    else if (part->pooled_count > 0)
        on_pooled(context, segment, part->pooled, part->pooled_count);
    else
        on_sample(context, member->chain->batch->segments[segment].sequence, part);
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

static lh_status accept_all(const stage_chain *chain, lh_stage_step *step, lh_error *error) {
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < chain->shard_count && status == LH_OK; i++) {
        lh_stage_shard shard = chain->shards[i].shard;
        shard.values = chain->values + chain->shards[i].offset;
        status = lh_stage_accept(step, &shard, error);
    }
    return status;
}

static lh_status begin_member(chain_member *member, uint32_t number, const lh_batch *batch,
                              lh_error *error) {
    lh_status status = lh_stage_begin(member->stage[number], batch, &member->step, error);
    if (status == LH_OK && number > 0)
        status = accept_all(member->chain, member->step, error);
    return status;
}

static void *finish_member(void *context) {
    chain_member *member = context;
    stage_chain *chain = member->chain;
    const lh_stage_output output = {.context = member,
                                    .on_shard = on_shard,
                                    .wire = chain->options.wire,
                                    .on_answer = on_answer,
                                    .on_logits = chain->events->on_logits ? on_logits : NULL,
                                    .gather =
                                        member_exchange_gather(chain->exchange, member->number)};
    member->results = 14695981039346656037u;
    member->status = lh_stage_finish(member->step, &output, &member->error);
    if (member->status != LH_OK)
        member_exchange_fail(chain->exchange, member->status);
    return NULL;
}

/* The first member runs here, the others on threads of their own. What one cannot do, none can. */
static lh_status finish_all(stage_chain *chain, lh_error *error) {
    const uint32_t count = chain->options.members;
    pthread_t threads[LH_MEMBERS_MAX];
    for (uint32_t i = 1; i < count; i++)
        if (pthread_create(&threads[i], NULL, finish_member, &chain->members[i]) != 0)
            abort();
    finish_member(&chain->members[0]);
    for (uint32_t i = 1; i < count; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < count; i++) {
        const chain_member *member = &chain->members[i];
        if (member->status != chain->members[0].status ||
            (member->status == LH_OK && member->results != chain->members[0].results))
            abort();
    }
    if (error)
        *error = chain->members[0].error;
    return chain->members[0].status;
}

static lh_status run_stage(stage_chain *chain, uint32_t number, const lh_batch *batch,
                           lh_error *error) {
    lh_status status = LH_OK;
    order_shards(chain);
    for (uint32_t i = 0; i < chain->options.members && status == LH_OK; i++)
        status = begin_member(&chain->members[i], number, batch, error);
    chain->shard_count = 0;
    chain->value_count = 0;
    member_exchange_begin(chain->exchange);
    if (status == LH_OK)
        status = finish_all(chain, error);
    for (uint32_t i = 0; i < chain->options.members && chain->members[i].step; i++) {
        lh_stage_end(chain->members[i].step);
        chain->members[i].step = NULL;
    }
    return status;
}

lh_status stage_chain_run(stage_chain *chain, const lh_batch *batch,
                          const stage_chain_events *events, lh_error *error) {
    lh_status status = LH_OK;
    lh_batch with_cut = *batch;
    with_cut.cut = lh_step_cut_evenly(chain->config.width, chain->options.column_shards);
    chain->events = events;
    chain->batch = batch;
    for (uint32_t i = 0; i < chain->stages && status == LH_OK; i++)
        status = run_stage(chain, i, &with_cut, error);
    return status;
}

static void ignore_sample(void *context, uint64_t sequence, const lh_row_answer *result) {
    (void)context;
    (void)sequence;
    (void)result;
}

static void keep_logits(void *context, uint64_t sequence, const float *logits,
                        uint32_t vocabulary) {
    float *values = context;
    memcpy(values + sequence * vocabulary, logits, vocabulary * sizeof *logits);
}

lh_status stage_chain_keep_logits(stage_chain *chain, const lh_batch *batch, float *values,
                                  lh_error *error) {
    const stage_chain_events events = {
        .context = values, .on_sample = ignore_sample, .on_logits = keep_logits};
    return stage_chain_run(chain, batch, &events, error);
}

void stage_chain_free(stage_chain *chain, uint64_t sequence) {
    for (uint32_t m = 0; m < chain->options.members; m++)
        for (uint32_t i = 0; i < chain->stages; i++)
            lh_stage_truncate(chain->members[m].stage[i], sequence, 0);
}
