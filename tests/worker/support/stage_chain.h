/* A whole model in one process: its stages one after the other, with the shards of each handed to
 * the next in memory. */
#pragma once

#include "common/gguf/gguf.h"
#include "common/protocol/wire_type.h"
#include "tests/worker/support/member_exchange.h"
#include "worker/compute/stage/stage.h"

typedef enum shard_order { SHARDS_ASCENDING, SHARDS_DESCENDING, SHARDS_CUT_AND_MIXED } shard_order;

typedef struct stage_chain_options {
    uint32_t stages, column_shards, threads;
    /* each stage is computed by so many members (stage.h), on threads of their own; 0: one */
    uint32_t members;
    uint32_t weights[LH_MEMBERS_MAX];
    uint32_t rows_max;
    uint32_t context;        /* 0: the model's */
    size_t kv_bytes;         /* of one stage */
    const char *isa;         /* NULL: the best */
    const lh_device *device; /* of stage number device_stage alone, or of all */
    uint32_t device_stage;
    bool is_device_everywhere;
    bool is_fast;                   /* as in lh_stage_options */
    lh_activation_kind activations; /* Q16, or else Q8 */
    lh_kv_type kv_type;
    lh_wire_type wire; /* what shards go through on their way: its very codec */
    /* in which a stage gets its shards; the last one cuts them into rows and blocks first */
    shard_order order;
} stage_chain_options;

typedef struct stage_chain stage_chain;

typedef struct stage_chain_events {
    void *context;
    /* A part of an answer (stage.h), by what it is. */
    void (*on_sample)(void *context, uint64_t sequence, const lh_row_answer *result);
    void (*on_logits)(void *context, uint64_t sequence, const float *logits,
                      uint32_t vocabulary); /* may be NULL */
    void (*on_score)(void *context, uint32_t segment, const lh_token_score *score); /* likewise */
    void (*on_pooled)(void *context, uint32_t segment, const int64_t *sums, uint32_t width);
} stage_chain_events;

/* The bytes of the file must outlive the chain. Errors of the model and the stages; aborts when out
 * of memory. */
lh_status stage_chain_create(const void *bytes, size_t length, const stage_chain_options *options,
                             stage_chain **chain, lh_error *error);
void stage_chain_destroy(stage_chain *chain);
const lh_model_config *stage_chain_config(const stage_chain *chain);
/* Its first member. */
lh_stage *stage_chain_stage(const stage_chain *chain, uint32_t number);
/* How its members give each other what they compute. */
member_exchange *stage_chain_exchange(const stage_chain *chain);
/* One step through all stages. Aborts where members of one do not give the same results. */
lh_status stage_chain_run(stage_chain *chain, const lh_batch *batch,
                          const stage_chain_events *events, lh_error *error);
/* The same, for the logits alone: values[sequence][vocabulary] of those that draw. */
lh_status stage_chain_keep_logits(stage_chain *chain, const lh_batch *batch, float *values,
                                  lh_error *error);
void stage_chain_free(stage_chain *chain, uint64_t sequence);
