/* The second half sees all arrays from its first row on. */
#include "worker/compute/stage/halves.h"

#include "common/model/model_widths.h"
#include "worker/compute/stage/work_parts.h"

#include <assert.h>

/* Rows with which each matrix is multiplied, from which on a step goes in halves: fewer take about
 * as long as the reading of the weights, which halves do twice. With an 8B's shapes in Q4_K two
 * steps of 32 rows take 1.04 times what one of 64 does, and two of 16 take 1.7 times what one of 32
 * does (build/tests/stage_times --chunks, AVX-512 VNNI, on a busy machine). */
#define HALVES_ROWS_MIN 64u

/* Of a mixture an expert sees but some. */
static uint64_t rows_of_a_matrix(const lh_model_config *config, uint32_t rows) {
    return config->experts == 0 ? rows : (uint64_t)rows * config->experts_used / config->experts;
}

uint32_t lh_halves_first_rows(const lh_model_config *config, uint32_t members, uint32_t rows) {
    if (members < 2 || config->norms_whole_rows || rows_of_a_matrix(config, rows) < HALVES_ROWS_MIN)
        return rows;
    return lh_units_in(rows / 2, LH_PART_ROWS) * LH_PART_ROWS;
}

void lh_halves_make_whole(lh_halves *halves, const lh_layer_run *whole) {
    halves->count = 1;
    halves->of[0].run = *whole;
}

/* ---- From row `first` on ---- */

static float *floats_from(float *floats, uint32_t first, size_t stride) {
    return floats ? floats + first * stride : NULL;
}

static lh_packed packed_from(const lh_packed *packed, uint32_t first) {
    lh_packed from = {.width = packed->width};
    for (unsigned kind = 0; kind < LH_ACTIVATION_KINDS; kind++)
        from.data[kind] =
            lh_packed_rows(packed, (lh_activation_kind)kind, (lh_span){first, first}).data;
    return from;
}

static lh_activation_buffer buffer_from(const lh_activation_buffer *buffer,
                                        const lh_model_config *config, size_t angles,
                                        uint32_t first) {
    const size_t keys = lh_row_stride(lh_model_key_width(config));
    lh_activation_buffer from = {
        .h = floats_from(buffer->h, first, config->width),
        .normed = packed_from(&buffer->normed, first),
        .squares = floats_from(buffer->squares, first, LH_LANES),
        .q = floats_from(buffer->q, first, lh_row_stride((size_t)config->heads * config->head_dim)),
        .k = floats_from(buffer->k, first, keys),
        .v = floats_from(buffer->v, first, keys),
        .q_a = floats_from(buffer->q_a, first, lh_row_stride(config->latent.query_rank))};
    for (uint32_t kind = 0; kind < LH_LAYER_KINDS; kind++) {
        from.cosine[kind] = floats_from(buffer->cosine[kind], first, angles);
        from.sine[kind] = floats_from(buffer->sine[kind], first, angles);
    }
    return from;
}

static lh_experts experts_from(const lh_experts *experts, const lh_model_config *config,
                               uint32_t first) {
    const uint32_t slots = first * config->experts_used;
    const size_t wide = lh_row_stride(config->expert_width),
                 shared = lh_row_stride(config->shared_expert_width);
    return (lh_experts){.logits =
                            floats_from(experts->logits, first, lh_row_stride(config->experts)),
                        .slots = experts->later_slots,
                        .gated_packed = packed_from(&experts->gated_packed, slots),
                        .gate = floats_from(experts->gate, slots, wide),
                        .up = floats_from(experts->up, slots, wide),
                        .gated_shared = packed_from(&experts->gated_shared, first),
                        .shared_gate = floats_from(experts->shared_gate, first, shared),
                        .shared_up = floats_from(experts->shared_up, first, shared),
                        .shared_logit = floats_from(experts->shared_logit, first, lh_row_stride(1)),
                        .shared_share = floats_from(experts->shared_share, first, 1)};
}

/* What is computed in within one operation stays: halves take turns with it. */
static lh_scratch scratch_from(const lh_scratch *scratch, const lh_model_config *config,
                               uint32_t first) {
    const size_t wide = lh_row_stride(config->feed_forward_width);
    lh_scratch from = *scratch;
    from.scale = floats_from(scratch->scale, first, 1);
    from.attended =
        floats_from(scratch->attended, first, lh_row_stride(lh_model_attended_width(config)));
    from.attended_packed = packed_from(&scratch->attended_packed, first);
    from.gate = floats_from(scratch->gate, first, wide);
    from.up = floats_from(scratch->up, first, wide);
    from.gated_packed = packed_from(&scratch->gated_packed, first);
    from.branch = floats_from(scratch->branch, first, config->width);
    from.experts = experts_from(&scratch->experts, config, first);
    return from;
}

static uint32_t runs_before(const lh_layer_run *whole, uint32_t row) {
    uint32_t count = 0;
    while (count < whole->run_count && whole->runs[count].first_row < row)
        count++;
    assert(count > 0 && whole->runs[count - 1].first_row + whole->runs[count - 1].rows == row);
    return count;
}

void lh_halves_make(lh_halves *halves, const lh_layer_run *whole, uint32_t first_rows,
                    lh_position_run *runs) {
    const uint32_t first_runs = runs_before(whole, first_rows);
    lh_half *earlier = &halves->of[0], *later = &halves->of[1];
    assert(first_rows % LH_PART_ROWS == 0 && first_rows < whole->rows && runs == whole->runs);
    halves->count = 2;
    earlier->run = later->run = *whole;
    earlier->run.rows = first_rows;
    earlier->run.run_count = first_runs;
    later->buffer = buffer_from(whole->buffer, whole->config, whole->angles, first_rows);
    later->scratch = scratch_from(whole->scratch, whole->config, first_rows);
    later->run.buffer = &later->buffer;
    later->run.scratch = &later->scratch;
    later->run.rows = whole->rows - first_rows;
    later->run.runs = runs + first_runs;
    later->run.run_count = whole->run_count - first_runs;
    for (uint32_t i = first_runs; i < whole->run_count; i++)
        runs[i].first_row -= first_rows;
}
