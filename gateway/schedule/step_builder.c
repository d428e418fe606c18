/* A step's record and manifest. */
#include "gateway/schedule/step_builder.h"

#include "common/base/arithmetic.h"
#include "common/protocol/mask_code.h"
#include "gateway/schedule/sequence_ask.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* What penalties need can be long: the lists of what is asked in a step stay within half of what a
 * manifest may be, its new masks within a quarter. */
#define ASK_ENTRIES_MAX (LH_STEP_MANIFEST_BYTES_MAX / 2 / sizeof(lh_token_count))
_Static_assert(LH_TOKEN_COUNTS_MAX + LH_TOKEN_BIASES_MAX <= ASK_ENTRIES_MAX,
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
    builder->ask_entries = builder->new_mask_count = builder->wide_asks = 0;
    builder->is_traced = false;
    step->step_class = step_class;
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
    uint32_t pending = lh_sequence_pending(sequence),
             rows = lh_min_u32(builder->row_limit - step->rows, pending);
    if (step->segment_count == builder->segments_max || rows == 0)
        return 0;
    const lh_row_ask ask = lh_sequence_ask(sequence, rows);
    if (lh_row_ask_is_wide(&ask) && builder->wide_asks == LH_STEP_POOLED_MAX)
        return 0;
    bool fits =
        rows < pending || (builder->ask_entries + lh_row_ask_entries(&ask) <= ASK_ENTRIES_MAX &&
                           has_room_for_mask(builder, sequence->guide.mask));
    return fits ? rows : 0;
}

void lh_step_builder_add(lh_step_builder *builder, lh_sequence *sequence, uint32_t rows) {
    lh_inflight_step *step = builder->step;
    assert(rows > 0 && rows <= lh_sequence_pending(sequence));
    assert(rows <= builder->row_limit - step->rows && lh_step_builder_may_join(builder, sequence));
    assert(step->segment_count < builder->segments_max);
    lh_inflight_segment *record = &step->segments[step->segment_count];
    lh_step_segment *segment = &builder->segments[step->segment_count++];
    *segment = (lh_step_segment){.sequence = lh_block_table_number(sequence->kv.table),
                                 .first_position = sequence->kv.computed,
                                 .rows = rows,
                                 .ask = lh_sequence_ask(sequence, rows)};
    *record = (lh_inflight_segment){.sequence = sequence,
                                    .block_table = sequence->kv.table,
                                    .first_position = segment->first_position,
                                    .rows = rows,
                                    .due = lh_row_ask_due(&segment->ask),
                                    .is_first = !sequence->kv.is_begun};
    record->source = lh_sequence_kv_send(&sequence->kv, builder->store, sequence->history, rows,
                                         step->step_class);
    segment->forks = record->source;
    segment->source = record->source ? lh_block_table_number(record->source) : 0;
    if (segment->ask.draws && sequence->guide.mask)
        segment->ask.sampling.mask = name_mask(builder, sequence->guide.mask, record);
    builder->ask_entries += lh_row_ask_entries(&segment->ask);
    builder->wide_asks += lh_row_ask_is_wide(&segment->ask);
    builder->is_traced |= sequence->request.trace != 0;
    step->results_due += lh_row_ask_is_any(&segment->ask);
    memcpy(builder->tokens + step->rows, sequence->history + segment->first_position,
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
