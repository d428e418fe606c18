/* Addresses of lists are those that they will have in the GPU's memory. */
#include "worker/compute/cuda/cuda_draws.h"

#include "common/base/arithmetic.h"
#include "worker/compute/stage/candidates.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The lists are copied as they are. */
_Static_assert(sizeof(lh_token_bias) == sizeof(lh_cuda_token_bias) &&
                   offsetof(lh_token_bias, bias) == offsetof(lh_cuda_token_bias, bias),
               "biases");
_Static_assert(sizeof(lh_token_count) == sizeof(lh_cuda_token_count) &&
                   offsetof(lh_token_count, prompt_count) ==
                       offsetof(lh_cuda_token_count, prompt_count) &&
                   offsetof(lh_token_count, output_count) ==
                       offsetof(lh_cuda_token_count, output_count),
               "counts");

static size_t round_up(size_t bytes) {
    return (bytes + 15) / 16 * 16;
}

static size_t changes_bytes(uint32_t count) {
    return round_up(count * sizeof(lh_cuda_logit_changes));
}

static size_t rows_bytes(uint32_t count) {
    return round_up(count * sizeof(lh_cuda_draw_row));
}

static size_t head_bytes(uint32_t count) {
    return changes_bytes(count) + rows_bytes(count) + round_up(count * sizeof(uint32_t));
}

/* A bit for each token. */
static size_t mask_bytes(uint32_t vocabulary) {
    return ((size_t)vocabulary + 63) / 64 * sizeof(uint64_t);
}

static size_t lists_bytes(bool has_mask, uint32_t vocabulary, uint32_t biases, uint32_t counts) {
    return round_up(has_mask ? mask_bytes(vocabulary) : 0) +
           round_up(biases * sizeof(lh_cuda_token_bias)) +
           round_up(counts * sizeof(lh_cuda_token_count));
}

static size_t row_bytes(const lh_drawn_row *row, uint32_t vocabulary) {
    return lists_bytes(row->mask, vocabulary, row->sampling->bias_count,
                       row->sampling->count_count);
}

size_t lh_cuda_draws_bytes(const lh_device_work *work) {
    if (work->drawn_rows == 0)
        return 0;
    const uint32_t vocabulary = work->config->vocabulary;
    const size_t one = lists_bytes(true, vocabulary, LH_TOKEN_BIASES_MAX, LH_TOKEN_COUNTS_MAX),
                 masks = work->drawn_rows * lists_bytes(true, vocabulary, 0, 0);
    return head_bytes(work->drawn_rows) + (one > masks ? one : masks);
}

int lh_cuda_draws_init(lh_cuda_draws *draws, const lh_cuda_plugin *plugin,
                       const lh_device_work *work) {
    draws->rows_max = work->drawn_rows;
    draws->bytes = lh_cuda_draws_bytes(work);
    if (draws->bytes == 0)
        return 0;
    draws->host = malloc(draws->bytes);
    return draws->host ? plugin->allocate(&draws->memory, draws->bytes) : LH_CUDA_OUT_OF_MEMORY;
}

void lh_cuda_draws_reset(lh_cuda_draws *draws, const lh_cuda_plugin *plugin) {
    plugin->release(draws->memory);
    free(draws->host);
    *draws = (lh_cuda_draws){0};
}

/* Rows from the first on whose lists have room. */
static uint32_t count_fitting(const lh_cuda_draws *draws, uint32_t vocabulary,
                              const lh_drawn_row *rows, uint32_t count) {
    size_t left = draws->bytes - head_bytes(draws->rows_max);
    uint32_t fitting = 0;
    while (fitting < lh_min_u32(count, draws->rows_max) &&
           row_bytes(&rows[fitting], vocabulary) <= left)
        left -= row_bytes(&rows[fitting++], vocabulary);
    assert(fitting > 0);
    return fitting;
}

/* Copies a list behind those before it; returns where the GPU will find it, NULL where it is
 * empty. */
static const void *add_list(lh_cuda_draws *draws, const void *list, size_t bytes) {
    if (bytes == 0)
        return NULL;
    const uint8_t *at = (const uint8_t *)draws->memory + draws->used_bytes;
    memcpy(draws->host + draws->used_bytes, list, bytes);
    draws->used_bytes += round_up(bytes);
    return at;
}

static lh_cuda_logit_changes changes_of(lh_cuda_draws *draws, const lh_drawn_row *row,
                                        uint32_t vocabulary) {
    const lh_sampling *s = row->sampling;
    return (lh_cuda_logit_changes){
        .mask = add_list(draws, row->mask, row->mask ? mask_bytes(vocabulary) : 0),
        .biases = add_list(draws, s->biases, s->bias_count * sizeof *s->biases),
        .counts = add_list(draws, s->counts, s->count_count * sizeof *s->counts),
        .bias_count = s->bias_count,
        .count_count = s->count_count,
        .repetition_penalty = s->repetition_penalty,
        .presence_penalty = s->presence_penalty,
        .frequency_penalty = s->frequency_penalty};
}

/* Cuts that leave everything, and those of a greedy row, are off. */
static lh_cuda_draw_row draw_of(const lh_sampling *s, uint32_t vocabulary) {
    const lh_truncation cut = {.top_k = s->top_k, .top_p = s->top_p, .min_p = s->min_p};
    const bool is_cut = s->temperature != 0 && lh_truncation_is_on(&cut, vocabulary);
    return (lh_cuda_draw_row){.temperature = s->temperature,
                              .top_k = is_cut ? s->top_k : 0,
                              .top_p = is_cut ? s->top_p : 1,
                              .min_p = is_cut ? s->min_p : 0,
                              .seed = s->seed,
                              .position = s->counter};
}

void lh_cuda_draws_fill(lh_cuda_draws *draws, uint32_t vocabulary, const lh_drawn_row *rows,
                        uint32_t count) {
    count = count_fitting(draws, vocabulary, rows, count);
    lh_cuda_logit_changes *changes = (lh_cuda_logit_changes *)(void *)draws->host;
    lh_cuda_draw_row *how = (lh_cuda_draw_row *)(void *)(draws->host + changes_bytes(count));
    draws->count = count;
    draws->cuts = (lh_cuda_cuts){false, false};
    draws->used_bytes = head_bytes(count);
    for (uint32_t i = 0; i < count; i++) {
        changes[i] = changes_of(draws, &rows[i], vocabulary);
        how[i] = draw_of(rows[i].sampling, vocabulary);
        draws->cuts.top_k |= how[i].top_k > 0;
        draws->cuts.top_p |= how[i].top_p < 1;
    }
}

const lh_cuda_logit_changes *lh_cuda_draws_changes(const lh_cuda_draws *draws) {
    return draws->memory;
}

const lh_cuda_draw_row *lh_cuda_draws_rows(const lh_cuda_draws *draws) {
    const uint8_t *memory = draws->memory;
    return (const lh_cuda_draw_row *)(const void *)(memory + changes_bytes(draws->count));
}

uint32_t *lh_cuda_draws_tokens(const lh_cuda_draws *draws) {
    uint8_t *memory = draws->memory;
    return (uint32_t *)(void *)(memory + changes_bytes(draws->count) + rows_bytes(draws->count));
}
