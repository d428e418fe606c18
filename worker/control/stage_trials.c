/* One trial is one step: begin, one shard in, finish. */
#include "worker/control/stage_trials.h"

#include "common/base/clock.h"
#include "common/model/model_widths.h"
#include "worker/control/calibration.h"
#include "worker/control/core_clock.h"
#include "worker/serve/frames.h"

#include <stdlib.h>

/* The first of them; further ones count down. No step of the gateway has come yet that could mean
 * another one by it. */
#define SEQUENCE UINT64_MAX

typedef struct bench {
    lh_stage *stage;
    lh_wire_type wire;
    const _Atomic bool *cancelled;
    lh_core_clock clock;
    /* [rows_max][width]: what the stage before would send; NULL: the first stage */
    float *activation;
    uint32_t *tokens;          /* [rows_max] */
    lh_step_segment *segments; /* [rows_max] */
    uint32_t sequences;        /* that the stage may hold: SEQUENCE and the ids before it */
    int64_t emit_at_us;        /* 0: no shard of the result is there yet */
    lh_error failure;          /* of the encoding; its status is LH_OK while there is none */
} bench;

/* Numbers without a pattern: Knuth's multiplicative hash. */
static uint32_t scramble(uint32_t number) {
    return number * 2654435761u;
}

static lh_status fill(bench *b, lh_error *error) {
    const lh_model_config *config = lh_stage_config(b->stage);
    uint32_t rows = lh_stage_made_with(b->stage)->rows_max, width = config->width;
    bool is_first = lh_stage_made_with(b->stage)->range.first == 0;
    b->tokens = calloc(rows, sizeof *b->tokens);
    b->activation = is_first ? NULL : calloc((size_t)rows * width, sizeof *b->activation);
    b->segments = calloc(rows, sizeof *b->segments);
    if (!b->tokens || !b->segments || (!is_first && !b->activation))
        return lh_fail(error, LH_ERR_NO_MEMORY, "calibration with %u rows: out of memory", rows);
    for (uint32_t i = 0; i < rows; i++)
        b->tokens[i] = scramble(i) % config->vocabulary;
    for (size_t i = 0; !is_first && i < (size_t)rows * width; i++)
        b->activation[i] = (float)(scramble((uint32_t)i) >> 8) / (1 << 24) - 0.5f;
    return LH_OK;
}

/* ---- One step ---- */

static void on_shard(void *context, const lh_stage_shard *shard) {
    bench *b = context;
    void *bytes;
    size_t length;
    if (b->emit_at_us == 0)
        b->emit_at_us = lh_core_clock_us(&b->clock);
    if (b->failure.status == LH_OK &&
        lh_frames_of_shard(b->wire, shard, &bytes, &length, &b->failure) == LH_OK) {
        free(bytes);
    }
}

static void on_answer(void *context, uint32_t segment, const lh_row_answer *part) {
    (void)context;
    (void)segment;
    (void)part;
}

static bool is_cancelled(void *context) {
    const bench *b = context;
    return atomic_load(b->cancelled);
}

static lh_status finish(bench *b, lh_stage_step *step, lh_error *error) {
    lh_stage_output output = {.context = b,
                              .on_shard = on_shard,
                              .wire = b->wire,
                              .on_answer = on_answer,
                              .is_cancelled = is_cancelled};
    lh_status status = lh_stage_finish(step, &output, error);
    if (status == LH_OK && b->failure.status != LH_OK) {
        *error = b->failure;
        status = b->failure.status;
    }
    return status;
}

static lh_status run_step(bench *b, const lh_batch *batch, lh_calibration_times *times,
                          lh_error *error) {
    const lh_stage_shard shard = {
        .rows = batch->rows, .columns = lh_stage_config(b->stage)->width, .values = b->activation};
    lh_stage_step *step;
    int64_t wall_us = lh_clock_us(), begin_us = lh_core_clock_us(&b->clock), take_us = 0;
    lh_status status = lh_stage_begin(b->stage, batch, &step, error);
    if (status != LH_OK)
        return status;
    if (b->activation) {
        take_us = -lh_core_clock_us(&b->clock);
        status = lh_stage_accept(step, &shard, error);
        take_us += lh_core_clock_us(&b->clock);
    }
    b->emit_at_us = 0;
    if (status == LH_OK)
        status = finish(b, step, error);
    int64_t end_us = lh_core_clock_us(&b->clock);
    lh_stage_end(step);
    *times =
        (lh_calibration_times){.wall_us = (double)(lh_clock_us() - wall_us),
                               .total_us = (double)(end_us - begin_us),
                               .take_us = (double)take_us,
                               .emit_us = b->emit_at_us > 0 ? (double)(end_us - b->emit_at_us) : 0};
    return status;
}

static void free_all(bench *b) {
    for (; b->sequences > 0; b->sequences--)
        lh_stage_truncate(b->stage, SEQUENCE - (b->sequences - 1), 0);
}

static lh_status run_trial(bench *b, const lh_calibration_trial *trial, lh_calibration_times *times,
                           lh_error *error) {
    uint32_t count = trial->draws ? trial->rows : 1;
    for (uint32_t i = 0; i < count; i++) {
        b->segments[i] = (lh_step_segment){
            .sequence = SEQUENCE - i,
            .first_position = trial->position,
            .rows = trial->rows / count,
            .ask.draws = trial->draws,
            .ask.sampling = {
                .top_p = 1, .repetition_penalty = 1, .counter = trial->position + trial->rows}};
    }
    const uint32_t width = lh_stage_config(b->stage)->width;
    const lh_batch batch = {.rows = trial->rows,
                            .tokens = b->tokens,
                            .segment_count = count,
                            .segments = b->segments,
                            .cut = lh_step_cut_evenly(width, trial->shards)};
    if (trial->position == 0)
        free_all(b);
    b->sequences = count;
    return run_step(b, &batch, times, error);
}

/* ---- All of them ---- */

/* Multiplications for a row's products in one layer. */
static double layer_products(const lh_model_config *config) {
    double width = config->width, queries = (double)config->heads * config->head_dim;
    double keys = lh_model_key_width(config), rank = config->latent.rank;
    double mixed =
        (double)config->experts_used * config->expert_width + config->shared_expert_width;
    double wide = 3 * (config->experts > 0 ? mixed : config->feed_forward_width);
    if (rank == 0)
        return width * (2 * queries + 2 * keys + wide);
    double heads = config->heads, attended = lh_model_attended_width(config);
    double absorbed = rank * (queries - heads * config->rope_dims + attended);
    return width * (queries + keys + attended + wide) + absorbed;
}

/* What attention over one position is of a row's products. */
static double attention_part(const lh_model_config *config) {
    double rank = config->latent.rank, heads = config->heads;
    double products =
        rank == 0 ? 2 * heads * config->head_dim : heads * (rank + lh_model_key_width(config));
    return products / layer_products(config);
}

/* What the output head is of a row's products in all the stage's layers. */
static double draw_part(const lh_model_config *config, uint32_t layers) {
    return (double)config->width * config->vocabulary / (layers * layer_products(config));
}

static lh_calibration_limits limits_of(const lh_stage *stage, double budget_us) {
    const lh_model_config *config = lh_stage_config(stage);
    const lh_stage_options *options = lh_stage_made_with(stage);
    size_t pages = lh_kv_cache_pages_free(lh_stage_kv(stage));
    uint64_t held = (uint64_t)pages * LH_KV_PAGE_POSITIONS;
    return (lh_calibration_limits){
        .rows_max = options->rows_max,
        .positions_max = held < options->context ? (uint32_t)held : options->context,
        .sequences_max = pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX,
        .column_blocks = (config->width + LH_SPAN_COLUMNS - 1) / LH_SPAN_COLUMNS,
        .is_last = options->range.last == config->layers,
        .attention_part = attention_part(config),
        .draw_part = draw_part(config, options->range.last - options->range.first),
        .budget_us = budget_us};
}

lh_status lh_stage_trials_run(lh_stage *stage, lh_wire_type wire, double budget_us,
                              const _Atomic bool *cancelled, lh_compute_profile *profile,
                              lh_error *error) {
    bench b = {.stage = stage, .wire = wire, .cancelled = cancelled, .failure = {.status = LH_OK}};
    lh_calibration calibration;
    lh_calibration_limits limits = limits_of(stage, budget_us);
    lh_calibration_trial trial;
    lh_calibration_times times;
    lh_status status = fill(&b, error);
    lh_core_clock_open(&b.clock, lh_thread_pool_slowdown(lh_stage_made_with(stage)->pool));
    lh_calibration_start(&calibration, &limits);
    while (status == LH_OK && lh_calibration_next(&calibration, &trial)) {
        status = run_trial(&b, &trial, &times, error);
        if (status == LH_OK)
            lh_calibration_note(&calibration, &times);
    }
    free_all(&b);
    lh_calibration_read(&calibration, profile);
    lh_core_clock_close(&b.clock);
    free(b.activation);
    free(b.segments);
    free(b.tokens);
    return status;
}
