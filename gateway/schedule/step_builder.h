/* Puts one step together: the record of the step in flight and the manifest that is sent, side by
 * side, within the limits of both. Thread: one at a time. */
#pragma once

#include "common/protocol/step.h"
#include "gateway/schedule/inflight.h"
#include "gateway/schedule/sequence.h"

/* Of step_builder.c alone. */
typedef struct lh_step_builder {
    lh_kv_store *store;
    lh_mask_ledger *masks;
    uint32_t rows_max, segments_max, row_limit;
    size_t ask_entries; /* of the lists of what is asked */
    uint32_t wide_asks;
    bool is_traced; /* a row is of a traced request */
    lh_inflight_step *step;
    uint32_t *tokens;
    lh_step_segment *segments;
    lh_step_truncation truncations[LH_INFLIGHT_TRUNCATIONS_MAX];
    uint32_t new_mask_count;
    lh_step_mask new_masks[LH_STEP_MASKS_MAX];
    uint64_t mask_drops[LH_STEP_MASK_DROPS_MAX];
    size_t code_bytes_max; /* of one mask */
    uint8_t *codes;        /* [LH_STEP_MASKS_MAX][code_bytes_max] */
} lh_step_builder;

/* The store is told of the rows that are sent, the ledger of the masks that are named, of so many
 * tokens; both outlive the builder. False: no memory; _reset is still to be called. */
bool lh_step_builder_init(lh_step_builder *builder, lh_kv_store *store, lh_mask_ledger *masks,
                          uint32_t vocabulary, uint32_t rows_max, uint32_t segments_max);
void lh_step_builder_reset(lh_step_builder *builder);

/* Begins a step in a blank record. row_limit: of this step, <= rows_max. */
void lh_step_builder_begin(lh_step_builder *builder, lh_inflight_step *step,
                           lh_step_class step_class, uint32_t row_limit);
/* Whether the sequence may share the step: one in quarantine travels alone. */
bool lh_step_builder_may_join(const lh_step_builder *builder, const lh_sequence *sequence);
/* How many of the sequence's pending tokens still fit; 0: the step is full. */
uint32_t lh_step_builder_room(const lh_step_builder *builder, const lh_sequence *sequence);
/* Adds the next rows of the sequence, for which it has pages, and samples a token when they are its
 * last. */
void lh_step_builder_add(lh_step_builder *builder, lh_sequence *sequence, uint32_t rows);
/* Adds the truncations that may go with it, as many as there is room for. */
void lh_step_builder_add_truncations(lh_step_builder *builder);
/* Adds what the last worker is to forget of masks. */
void lh_step_builder_add_mask_drops(lh_step_builder *builder);
/* The manifest of the step, which has been launched: its pointers live until the next _begin. */
lh_step_manifest lh_step_builder_manifest(const lh_step_builder *builder, uint32_t epoch);
