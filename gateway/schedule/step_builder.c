/* A step's record and manifest. */
#include "gateway/schedule/step_builder.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* What penalties need can be long: the token counts and biases of a step stay within half of what a manifest
 * may be. */
#define SAMPLING_ENTRIES_MAX (LH_STEP_MANIFEST_BYTES_MAX / 2 / sizeof(lh_step_token_count))

struct lh_step_builder {
    lh_kv_store *store;
    uint32_t rows_max, segments_max, releases_max, row_limit;
    size_t sampling_entries;
    lh_flight *flight;
    uint32_t *tokens;
    lh_step_segment *segments;
    lh_step_release *releases;
};

lh_status lh_step_builder_create(lh_kv_store *store, uint32_t rows_max, uint32_t segments_max,
                                 uint32_t releases_max, lh_step_builder **builder, lh_error *error) {
    lh_step_builder *b = calloc(1, sizeof *b);
    if (!b)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a step");
    b->store = store;
    b->rows_max = rows_max;
    b->segments_max = segments_max;
    b->releases_max = releases_max;
    b->tokens = calloc(rows_max, sizeof *b->tokens);
    b->segments = calloc(segments_max, sizeof *b->segments);
    b->releases = calloc(releases_max, sizeof *b->releases);
    if (!b->tokens || !b->segments || !b->releases) {
        lh_step_builder_destroy(b);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a step of %u rows", rows_max);
    }
    *builder = b;
    return LH_OK;
}

void lh_step_builder_destroy(lh_step_builder *builder) {
    if (!builder)
        return;
    free(builder->tokens);
    free(builder->segments);
    free(builder->releases);
    free(builder);
}

void lh_step_builder_begin(lh_step_builder *builder, lh_flight *flight, lh_step_class step_class,
                           uint32_t row_limit) {
    assert(row_limit <= builder->rows_max);
    builder->flight = flight;
    builder->row_limit = row_limit;
    builder->sampling_entries = 0;
    flight->step_class = step_class;
}

static size_t sampling_entries(const lh_step_sampling *sampling) {
    return (size_t)sampling->bias_count + sampling->count_count;
}

uint32_t lh_step_builder_room(const lh_step_builder *builder, const lh_sequence *sequence) {
    const lh_flight *flight = builder->flight;
    uint32_t rows = builder->row_limit - flight->rows, pending = lh_sequence_pending(sequence);
    if (flight->segment_count == builder->segments_max)
        return 0;
    if (rows < pending)
        return rows;
    lh_step_sampling sampling = lh_sequence_sampling(sequence);
    bool fits = builder->sampling_entries + sampling_entries(&sampling) <= SAMPLING_ENTRIES_MAX;
    return fits || flight->segment_count == 0 ? pending : 0;
}

void lh_step_builder_add(lh_step_builder *builder, lh_sequence *sequence, uint32_t rows) {
    lh_flight *flight = builder->flight;
    assert(rows > 0 && rows <= lh_sequence_pending(sequence) && rows <= builder->row_limit - flight->rows);
    bool sample = rows == lh_sequence_pending(sequence);
    lh_step_segment *segment = &builder->segments[flight->segment_count];
    lh_kv_holding *source = lh_kv_store_send(builder->store, sequence->kv, sequence->history,
                                             sequence->fed + rows, flight->step_class);
    *segment = (lh_step_segment){.sequence = lh_kv_holding_number(sequence->kv),
                                 .first_position = sequence->fed,
                                 .rows = rows,
                                 .sample = sample,
                                 .forks = source != NULL,
                                 .source = source ? lh_kv_holding_number(source) : 0};
    if (sample) {
        segment->sampling = lh_sequence_sampling(sequence);
        builder->sampling_entries += sampling_entries(&segment->sampling);
        flight->draws_due++;
    }
    memcpy(builder->tokens + flight->rows, sequence->history + sequence->fed, rows * sizeof *builder->tokens);
    flight->segments[flight->segment_count++] = (lh_flight_segment){.sequence = sequence,
                                                                    .holding = sequence->kv,
                                                                    .source = source,
                                                                    .first_position = sequence->fed,
                                                                    .rows = rows,
                                                                    .sample = sample,
                                                                    .is_first = !sequence->is_begun};
    flight->rows += rows;
    sequence->fed += rows;
    sequence->is_begun = true;
}

void lh_step_builder_add_releases(lh_step_builder *builder) {
    lh_flight *flight = builder->flight;
    while (flight->release_count < builder->releases_max &&
           lh_kv_store_next_release(builder->store, flight->step_class,
                                    &builder->releases[flight->release_count],
                                    &flight->releases[flight->release_count]))
        flight->release_count++;
}

lh_step_manifest lh_step_builder_manifest(const lh_step_builder *builder, uint32_t epoch, uint64_t step) {
    const lh_flight *flight = builder->flight;
    return (lh_step_manifest){.epoch = epoch,
                              .step = step,
                              .step_class = flight->step_class,
                              .rows = flight->rows,
                              .tokens = builder->tokens,
                              .segment_count = flight->segment_count,
                              .release_count = flight->release_count,
                              .segments = builder->segments,
                              .releases = builder->releases};
}
