/* A stage: layers [first, last) of a model with their weights and KV cache, and the execution of
 * steps on them. Sans-I/O: activations come in as shards and go out through a callback; it never
 * sees a stream or a clock.
 *
 * One step's life, on the one compute thread:
 *
 *   lh_stage_begin    reserves KV pages and an activation buffer; the first stage embeds the tokens
 *   lh_stage_accept   once for each shard that has come: stores it, and continues the first norm's
 *                     sum of squares and the first matrix product (deferred RMSNorm, layer.c).
 *                     Shards may come in any order; the arithmetic goes on over the columns that
 *                     are complete, ascending
 *   lh_stage_finish   when all have come: the rest of the layers. Sends shards of the result while
 *                     the next are computed, or samples (last stage)
 *   lh_stage_end      always, also after an error: gives the activation buffer back
 *
 * Several steps may be between begin and finish; steps of one sequence finish in the order of
 * positions.
 *
 * When a step fails, is cancelled or ends without finishing, its positions are taken back, and
 * steps of the same sequences that began after it are stale: they end with LH_ERR_CANCELLED, and
 * the sequence goes on from the positions that are left. A sequence may be freed while steps of
 * it are unfinished: those keep its pages until they end; a step in which no other sequence is left
 * ends with LH_ERR_CANCELLED, one with others runs on for them.
 *
 * Several machines may compute one stage together (division.h). Each of these members has an
 * lh_stage of its own, with its part of the weights and of the KV cache; all of them are asked the
 * same, in the same order, with whole shards, and each gives the whole result, which is that of one
 * machine alone. What they compute of a step comes together in lh_stage_finish (gather.h). Where it
 * fails on one of them it fails on all that still wait for something; if others have got all, they
 * have its positions, and the members go on with a new epoch (lh_stage_resync_kv). The first of
 * them may lead the others (lh_stage_lead): then what it is asked goes to all. */
#pragma once

#include "common/base/status.h"
#include "common/model/model.h"
#include "worker/compute/stage/batch.h"
#include "worker/compute/stage/division.h"
#include "worker/compute/stage/kv_cache.h"
#include "worker/compute/stage/ops.h"
#include "worker/compute/tensor_source.h"
#include "worker/compute/thread_pool.h"

typedef struct lh_stage lh_stage;
typedef struct lh_stage_step lh_stage_step;
typedef struct lh_stage_leading lh_stage_leading; /* stage_order.h */

typedef struct lh_stage_options {
    lh_layer_range range;
    size_t kv_bytes;    /* budget of the KV cache */
    lh_kv_type kv_type; /* of the numbers in it */
    uint32_t context;   /* positions of one sequence; 0: the model's */
    uint32_t rows_max;  /* rows of one step */
    /* steps between begin and end at once: activation buffers are allocated at start */
    uint32_t steps_max;
    lh_activation_kind activations; /* as quantized matrices read them: Q16, or else Q8 */
    const lh_kernels *kernels;
    lh_membership membership; /* of several that compute the stage together */
    lh_thread_pool *pool;     /* outlives the stage */
    const lh_device *device;  /* likewise; NULL: the host's CPUs */
    /* where it is a GPU, products may be rounded as kernels/cuda/cuda_fast.h says; other devices
     * keep to the bits of kernels.h */
    bool is_fast;
} lh_stage_options;

/* Loads and repacks the weights. on_progress (may be NULL) is called after each tensor with bytes
 * done and total. Errors: those of the source, LH_ERR_NO_MEMORY, LH_ERR_LIMIT (sizes),
 * LH_ERR_INVALID (an option: a range without layers or beyond the model, kv_bytes too small for one
 * page, a context over the model's); LH_ERR_UNSUPPORTED, LH_ERR_UNAVAILABLE (of the device); those
 * of lh_division_make, and LH_ERR_UNSUPPORTED for a device of one of several members. */
lh_status lh_stage_create(const lh_gguf *gguf, const lh_model_config *config,
                          const lh_weight_source *source, const lh_stage_options *options,
                          void (*on_progress)(void *, uint64_t, uint64_t), void *progress_context,
                          lh_stage **stage, lh_error *error);
/* NULL is allowed. */
void lh_stage_destroy(lh_stage *stage);
/* Computes with this pool from now on; it has as many threads as the one before, and outlives the
 * stage. No step may be between begin and end. */
void lh_stage_use_pool(lh_stage *stage, lh_thread_pool *pool);
/* Of the first member of several: from now on whatever it is asked is ordered of the others, too,
 * and its steps gather with them. A call that cannot be ordered fails with that error; those that
 * give no status do nothing about it, since all later ones fail as well. A step that finishes is
 * not cancelled any more: the others would wait for it. Copied. No step may be between begin and
 * end. */
void lh_stage_lead(lh_stage *stage, const lh_stage_leading *leading);
/* What it was created with; the context is the model's where none was given. The config is the
 * model's as this member computes it. */
const lh_stage_options *lh_stage_made_with(const lh_stage *stage);
const lh_model_config *lh_stage_config(const lh_stage *stage);
/* Of several members: the most bytes that one sends of a step at a time, be it what is gathered or
 * the values of a shard; no more than all of them have together. */
size_t lh_stage_exchange_bytes_max(const lh_stage *stage);
const lh_kv_cache *lh_stage_kv(const lh_stage *stage);
/* The KV cache has so many pages from now on, where it had more: members have as many as the one
 * that has the fewest. While it holds no sequence. */
void lh_stage_limit_kv(lh_stage *stage, size_t pages);
/* Bytes of weights held. */
size_t lh_stage_weight_bytes(const lh_stage *stage);

/* A rectangle of the step's activation h[rows][width]: all of these rows, these columns. Column
 * bounds are multiples of LH_SPAN_COLUMNS (except width). values[rows][columns], tightly packed;
 * read during the call. Of a result a device may have packed them instead (lh_stage_output.wire):
 * then `packed` is what lh_wire_encode gives for the whole shard, and where it would give nothing,
 * because a value is not finite or too large, neither is there. */
typedef struct lh_stage_shard {
    uint32_t first_row, rows, first_column, columns;
    const float *values;
    const uint8_t *packed;
} lh_stage_shard;

/* LH_ERR_LIMIT: rows, positions or tokens out of range. LH_ERR_BUSY: no KV page or no activation
 * buffer is free. LH_ERR_INVALID: a segment does not continue its sequence or cannot fork
 * (lh_kv_cache_fork), the cut does not fit the width, or what is asked cannot be honoured (last
 * stage). LH_ERR_NO_MEMORY. Nothing is changed on an error. The batch is copied, but for the
 * lists of what its rows ask, which live until the step's end. A sequence may have several
 * segments, in order. */
lh_status lh_stage_begin(lh_stage *stage, const lh_batch *batch, lh_stage_step **step,
                         lh_error *error);
/* Not on the first stage. LH_ERR_INVALID: outside of the activation, overlapping what came, or not
 * finite. */
lh_status lh_stage_accept(lh_stage_step *step, const lh_stage_shard *shard, lh_error *error);
/* Whether all has come (true at once on the first stage). */
bool lh_stage_is_ready(const lh_stage_step *step);

/* Where results go. Called on the compute thread; they must not block, and must not call into the
 * stage. */
typedef struct lh_stage_output {
    void *context;
    /* not the last stage: each shard of the result, in ascending column order; values as in
     * lh_stage_shard. */
    void (*on_shard)(void *context, const lh_stage_shard *shard);
    lh_wire_type wire; /* what shards will travel as; F32: they are never packed */
    /* last stage: a part of the answer to what the rows of a segment ask, in the order of the rows:
     * one call for each row that draws or scores, and one for all rows that are pooled. segment:
     * its index in the batch. lh_row_answer_add puts the parts together. */
    void (*on_answer)(void *context, uint32_t segment, const lh_row_answer *part);
    /* last stage: the logits that the next on_answer is read from, before the sampler changes them.
     * For tests; may be NULL. */
    void (*on_logits)(void *context, uint64_t sequence, const float *logits, uint32_t vocabulary);
    /* Asked between layers; true stops with LH_ERR_CANCELLED. May be NULL. */
    bool (*is_cancelled)(void *context);
    /* Of a member: how what all have computed of this step comes together. Every member tells all
     * results, which are the same. NULL: it is alone, or leads the others. */
    const lh_gather *gather;
} lh_stage_output;

/* Precondition: lh_stage_is_ready; once. LH_ERR_CANCELLED: is_cancelled said so, or the step is
 * stale or unwanted; LH_ERR_INVALID: an earlier step of a sequence is unfinished, or the model gave
 * a logit that is no number, or a hidden state that cannot be pooled; with other members those of
 * lh_gather. */
lh_status lh_stage_finish(lh_stage_step *step, const lh_stage_output *output, lh_error *error);
/* Of the step that finished last, where this stage leads others: how its gathers went, in their
 * order, `count` at most. Returns how many; 0: it is alone. */
uint32_t lh_stage_gather_times(const lh_stage *stage, lh_gather_times *times, uint32_t count);
/* A step that has not finished with LH_OK takes its positions back: its sequences hold what they
 * held when it began. */
void lh_stage_end(lh_stage_step *step);
/* Shortens a sequence to the whole pages of its first `length` positions, or forgets it (0); as
 * lh_kv_cache_truncate. */
void lh_stage_truncate(lh_stage *stage, uint64_t sequence, uint32_t length);

/* What a step brings of masks, at once when it comes: what is named is there for all steps that
 * come after it. On all stages but the last one it does nothing. LH_ERR_INVALID: of another
 * vocabulary than the model's; LH_ERR_LIMIT: more than LH_STEP_MASKS_KEPT_MAX; LH_ERR_MALFORMED,
 * LH_ERR_NO_MEMORY. */
lh_status lh_stage_take_masks(lh_stage *stage, const lh_step_masks *masks, lh_error *error);
/* Every epoch begins without masks. */
void lh_stage_drop_masks(lh_stage *stage);

/* Only while no step is between begin and end. A new epoch: every sequence is freed. */
void lh_stage_reset(lh_stage *stage);
/* The same, but these go on, each from exactly its first `length` positions. LH_ERR_INVALID: one of
 * them has fewer here, or none; then every sequence is freed. */
lh_status lh_stage_resync_kv(lh_stage *stage, const lh_step_truncation *resync, uint32_t count,
                             lh_error *error);
