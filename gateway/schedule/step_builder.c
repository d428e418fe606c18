/* A step's record and manifest. */
#include "gateway/schedule/step_builder.h"

#include "common/protocol/mask_code.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* What penalties need can be long: the token counts and biases of a step stay within half of what a
 * manifest may be, its new masks within a quarter. */
#define SAMPLING_ENTRIES_MAX (LH_STEP_MANIFEST_BYTES_MAX / 2 / sizeof(lh_token_count))
_Static_assert(LH_TOKEN_COUNTS_MAX + LH_TOKEN_BIASES_MAX <= SAMPLING_ENTRIES_MAX,
               "one sequence always fits");

bool lh_step_builder_init(lh_step_builder *builder, lh_kv_store *store, lh_mask_ledger *masks,
                          uint32_t vocabulary, uint32_t rows_max, uint32_t segments_max) {
    builder->store = store;
    builder->masks = masks;
    builder->code_bytes_max = lh_mask_code_bytes_max(vocabulary);
    builder->codes = calloc(LH_STEP_MASKS_MAX, builder->code_bytes_max);
    builder->rows_max = rows_max;
    builder->segments_max = segments_max;
    builder->tokens = calloc(rows_max, sizeof *builder->tokens);
    builder->segments = calloc(segments_max, sizeof *builder->segments);
    return builder->codes && builder->tokens && builder->segments;
}

void lh_step_builder_reset(lh_step_builder *builder) {
    free(builder->codes);
    free(builder->tokens);
    free(builder->segments);
}

void lh_step_builder_begin(lh_step_builder *builder, lh_inflight_step *step,
                           lh_step_class step_class, uint32_t row_limit) {
    assert(row_limit <= builder->rows_max && step->step == 0);
    builder->step = step;
    builder->row_limit = row_limit;
    builder->sampling_entries = builder->new_mask_count = builder->pooled = 0;
    builder->is_traced = false;
    step->step_class = step_class;
}

static size_t sampling_entries(const lh_sampling *sampling) {
    return (size_t)sampling->bias_count + sampling->count_count;
}

bool lh_step_builder_may_join(const lh_step_builder *builder, const lh_sequence *sequence) {
    const lh_inflight_step *step = builder->step;
    return step->segment_count == 0 || (!lh_sequence_is_quarantined(sequence) &&
                                        !lh_sequence_is_quarantined(step->segments[0].sequence));
}

/* ---- Masks ---- */

static bool is_brought(const lh_step_builder *builder, const lh_kept_mask *mask) {
    for (uint32_t i = 0; i < builder->new_mask_count; i++)
        if (builder->new_masks[i].number == lh_kept_mask_number(mask))
            return true;
    return false;
}

/* Whether the step may name the mask: the last worker has it, or it can go along. */
static bool has_room_for_mask(const lh_step_builder *builder, const lh_mask *mask) {
    const lh_kept_mask *kept = mask ? lh_mask_ledger_find(builder->masks, mask->id) : NULL;
    if (!mask || (kept && (lh_kept_mask_is_known(kept) || is_brought(builder, kept))))
        return true;
    return builder->new_mask_count < LH_STEP_MASKS_MAX &&
           (kept || lh_mask_ledger_has_room(builder->masks));
}

static void bring_mask(lh_step_builder *builder, const lh_mask *mask, const lh_kept_mask *kept) {
    uint8_t *code = builder->codes + builder->new_mask_count * builder->code_bytes_max;
    assert(builder->new_mask_count < LH_STEP_MASKS_MAX);
    assert(lh_mask_code_bytes_max(mask->vocabulary) == builder->code_bytes_max);
    builder->new_masks[builder->new_mask_count++] =
        (lh_step_mask){.number = lh_kept_mask_number(kept),
                       .vocabulary = mask->vocabulary,
                       .code_bytes = (uint32_t)lh_mask_encode(mask->words, mask->vocabulary, code),
                       .code = code};
}

/* The draw of the segment is from the tokens of the mask. */
static uint64_t name_mask(lh_step_builder *builder, const lh_mask *mask,
                          lh_inflight_segment *segment) {
    lh_kept_mask *kept = lh_mask_ledger_find(builder->masks, mask->id);
    if (!kept)
        kept = lh_mask_ledger_enter(builder->masks, mask->id);
    segment->mask = kept;
    segment->brings_mask = !lh_kept_mask_is_known(kept);
    if (segment->brings_mask && !is_brought(builder, kept))
        bring_mask(builder, mask, kept);
    lh_mask_ledger_name(builder->masks, kept);
    return lh_kept_mask_number(kept);
}

void lh_step_builder_add_mask_drops(lh_step_builder *builder) {
    lh_inflight_step *step = builder->step;
    lh_kept_mask *mask;
    while (step->mask_drop_count < LH_STEP_MASK_DROPS_MAX &&
           (mask = lh_mask_ledger_next_drop(builder->masks))) {
        builder->mask_drops[step->mask_drop_count] = lh_kept_mask_number(mask);
        step->mask_drops[step->mask_drop_count++] = mask;
    }
}

/* ---- Rows ---- */

uint32_t lh_step_builder_room(const lh_step_builder *builder, const lh_sequence *sequence) {
    const lh_inflight_step *step = builder->step;
    uint32_t rows = builder->row_limit - step->rows, pending = lh_sequence_pending(sequence);
    bool has_sums =
        sequence->request.pooling == LH_POOLING_NONE || builder->pooled < LH_STEP_POOLED_MAX;
    if (step->segment_count == builder->segments_max || !has_sums)
        return 0;
    if (rows < pending)
        return rows;
    lh_sampling sampling = lh_sequence_sampling(sequence);
    bool fits = builder->sampling_entries + sampling_entries(&sampling) <= SAMPLING_ENTRIES_MAX &&
                has_room_for_mask(builder, sequence->guide.mask);
    return fits ? pending : 0;
}

void lh_step_builder_add(lh_step_builder *builder, lh_sequence *sequence, uint32_t rows) {
    lh_inflight_step *step = builder->step;
    assert(rows > 0 && rows <= lh_sequence_pending(sequence));
    assert(rows <= builder->row_limit - step->rows && lh_step_builder_may_join(builder, sequence));
    assert(step->segment_count < builder->segments_max);
    bool sample =
        sequence->request.pooling == LH_POOLING_NONE && rows == lh_sequence_pending(sequence);
    uint32_t first_position = sequence->kv.computed;
    const lh_step_scoring scoring = lh_sequence_scoring(sequence, rows);
    const lh_step_pooling pooling = lh_sequence_pooling(sequence, rows);
    step->segments[step->segment_count] = (lh_inflight_segment){.sequence = sequence,
                                                                .block_table = sequence->kv.table,
                                                                .first_position = first_position,
                                                                .rows = rows,
                                                                .sample = sample,
                                                                .scoring = scoring,
                                                                .pooling = pooling,
                                                                .is_first = !sequence->kv.is_begun};
    lh_block_table *source = lh_sequence_kv_send(&sequence->kv, builder->store, sequence->history,
                                                 rows, step->step_class);
    step->segments[step->segment_count].source = source;
    lh_step_segment *segment = &builder->segments[step->segment_count++];
    *segment = (lh_step_segment){.sequence = lh_block_table_number(sequence->kv.table),
                                 .first_position = first_position,
                                 .rows = rows,
                                 .sample = sample,
                                 .scoring = scoring,
                                 .pooling = pooling,
                                 .forks = source,
                                 .source = source ? lh_block_table_number(source) : 0};
    step->segments[step->segment_count - 1].has_result = lh_step_segment_has_result(segment);
    builder->pooled += pooling.rows > 0;
    builder->is_traced |= sequence->request.trace != 0;
    if (sample) {
        segment->sampling = lh_sequence_sampling(sequence);
        builder->sampling_entries += sampling_entries(&segment->sampling);
        if (sequence->guide.mask)
            segment->sampling.mask =
                name_mask(builder, sequence->guide.mask, &step->segments[step->segment_count - 1]);
    }
    step->results_due += lh_step_segment_has_result(segment);
    memcpy(builder->tokens + step->rows, sequence->history + first_position,
           rows * sizeof *builder->tokens);
    step->rows += rows;
}

void lh_step_builder_add_truncations(lh_step_builder *builder) {
    lh_inflight_step *step = builder->step;
    while (step->truncation_count < LH_INFLIGHT_TRUNCATIONS_MAX &&
           lh_kv_store_next_truncation(builder->store, step->step_class,
                                       &builder->truncations[step->truncation_count],
                                       &step->truncations[step->truncation_count]))
        step->truncation_count++;
}

lh_step_manifest lh_step_builder_manifest(const lh_step_builder *builder, uint32_t epoch) {
    const lh_inflight_step *step = builder->step;
    return (lh_step_manifest){.epoch = epoch,
                              .step = step->step,
                              .step_class = step->step_class,
                              .timed = builder->is_traced,
                              .rows = step->rows,
                              .tokens = builder->tokens,
                              .segment_count = step->segment_count,
                              .truncation_count = step->truncation_count,
                              .segments = builder->segments,
                              .truncations = builder->truncations,
                              .masks = {.drop_count = step->mask_drop_count,
                                        .count = builder->new_mask_count,
                                        .drops = builder->mask_drops,
                                        .list = builder->new_masks}};
}
