/* A step's record and manifest. */
#include "gateway/schedule/step_builder.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* What penalties need can be long: the token counts and biases of a step stay within half of what a
 * manifest may be. */
#define SAMPLING_ENTRIES_MAX (LH_STEP_MANIFEST_BYTES_MAX / 2 / sizeof(lh_token_count))
_Static_assert(LH_STEP_COUNTS_MAX + LH_STEP_BIASES_MAX <= SAMPLING_ENTRIES_MAX,
               "one sequence always fits");

bool lh_step_builder_init(lh_step_builder *builder, lh_kv_store *store, uint32_t rows_max,
                          uint32_t segments_max) {
    builder->store = store;
    builder->rows_max = rows_max;
    builder->segments_max = segments_max;
    builder->tokens = calloc(rows_max, sizeof *builder->tokens);
    builder->segments = calloc(segments_max, sizeof *builder->segments);
    return builder->tokens && builder->segments;
}

void lh_step_builder_reset(lh_step_builder *builder) {
    free(builder->tokens);
    free(builder->segments);
}

void lh_step_builder_begin(lh_step_builder *builder, lh_inflight_step *step,
                           lh_step_class step_class, uint32_t row_limit) {
    assert(row_limit <= builder->rows_max && step->step == 0);
    builder->step = step;
    builder->row_limit = row_limit;
    builder->sampling_entries = 0;
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

uint32_t lh_step_builder_room(const lh_step_builder *builder, const lh_sequence *sequence) {
    const lh_inflight_step *step = builder->step;
    uint32_t rows = builder->row_limit - step->rows, pending = lh_sequence_pending(sequence);
    if (step->segment_count == builder->segments_max)
        return 0;
    if (rows < pending)
        return rows;
    lh_sampling sampling = lh_sequence_sampling(sequence);
    bool fits = builder->sampling_entries + sampling_entries(&sampling) <= SAMPLING_ENTRIES_MAX;
    return fits ? pending : 0;
}

void lh_step_builder_add(lh_step_builder *builder, lh_sequence *sequence, uint32_t rows) {
    lh_inflight_step *step = builder->step;
    assert(rows > 0 && rows <= lh_sequence_pending(sequence));
    assert(rows <= builder->row_limit - step->rows && lh_step_builder_may_join(builder, sequence));
    assert(step->segment_count < builder->segments_max);
    bool sample = rows == lh_sequence_pending(sequence);
    uint32_t first_position = sequence->kv.computed;
    step->segments[step->segment_count] = (lh_inflight_segment){.sequence = sequence,
                                                                .block_table = sequence->kv.table,
                                                                .first_position = first_position,
                                                                .rows = rows,
                                                                .sample = sample,
                                                                .is_first = !sequence->kv.is_begun};
    lh_block_table *source = lh_sequence_kv_send(&sequence->kv, builder->store, sequence->history,
                                                 rows, step->step_class);
    step->segments[step->segment_count].source = source;
    lh_step_segment *segment = &builder->segments[step->segment_count++];
    *segment = (lh_step_segment){.sequence = lh_block_table_number(sequence->kv.table),
                                 .first_position = first_position,
                                 .rows = rows,
                                 .sample = sample,
                                 .forks = source,
                                 .source = source ? lh_block_table_number(source) : 0};
    builder->is_traced |= sequence->request.trace != 0;
    if (sample) {
        segment->sampling = lh_sequence_sampling(sequence);
        builder->sampling_entries += sampling_entries(&segment->sampling);
        step->samples_due++;
    }
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
                              .truncations = builder->truncations};
}
