/* Runs of one sequence that follow each other share its addresses. */
#include "worker/compute/cuda/cuda_rows.h"

#include "common/base/arithmetic.h"
#include "common/protocol/step_parts.h"

#include <assert.h>
#include <stdlib.h>

/* From so many rows a run on, in the mean, they are a prompt's. */
#define PROMPT_RUN_ROWS 8u

static size_t places_bytes(uint32_t rows) {
    return rows * sizeof(lh_cuda_kv_place);
}

static size_t head_bytes(uint32_t rows) {
    return places_bytes(rows) + rows * sizeof(lh_cuda_attention_row);
}

/* Every row may be of a sequence of its own, as long as the context. */
size_t lh_cuda_rows_bytes(uint32_t rows, uint32_t context) {
    const size_t sequences = lh_min_u32(rows, LH_STEP_SEGMENTS_MAX),
                 pages = ((size_t)context + LH_KV_PAGE_POSITIONS - 1) / LH_KV_PAGE_POSITIONS;
    return head_bytes(rows) + sequences * 2 * pages * sizeof(void *);
}

int lh_cuda_rows_init(lh_cuda_rows *rows, const lh_cuda_plugin *plugin, uint32_t rows_max,
                      uint32_t context) {
    *rows = (lh_cuda_rows){.rows_max = rows_max, .bytes = lh_cuda_rows_bytes(rows_max, context)};
    rows->host = calloc(1, rows->bytes);
    return rows->host ? plugin->allocate(&rows->memory, rows->bytes) : LH_CUDA_OUT_OF_MEMORY;
}

void lh_cuda_rows_reset(lh_cuda_rows *rows, const lh_cuda_plugin *plugin) {
    plugin->release(rows->memory);
    free(rows->host);
    *rows = (lh_cuda_rows){0};
}

static uint32_t last_page(const lh_position_run *run) {
    return (run->first_position + run->rows - 1) / LH_KV_PAGE_POSITIONS;
}

/* Pages of the runs from the first on that are of one sequence; *next is the one behind them. */
static uint32_t pages_of_sequence(const lh_position_run *runs, uint32_t count, uint32_t first,
                                  uint32_t *next) {
    uint32_t pages = 0, i = first;
    for (; i < count && runs[i].sequence == runs[first].sequence; i++)
        pages = last_page(&runs[i]) + 1 > pages ? last_page(&runs[i]) + 1 : pages;
    *next = i;
    return pages;
}

/* The rows of runs [first, next), whose pages' addresses lie at `at` in the GPU's memory. */
static void fill_rows(lh_cuda_rows *rows, const lh_position_run *runs, uint32_t first,
                      uint32_t next, const lh_kv_view *view, const uint8_t *at, uint32_t pages) {
    lh_cuda_kv_place *places = (lh_cuda_kv_place *)(void *)rows->host;
    lh_cuda_attention_row *list =
        (lh_cuda_attention_row *)(void *)(rows->host + places_bytes(rows->rows_max));
    for (uint32_t i = first; i < next; i++) {
        for (uint32_t j = 0; j < runs[i].rows; j++) {
            uint32_t position = runs[i].first_position + j, row = runs[i].first_row + j,
                     page = position / LH_KV_PAGE_POSITIONS;
            places[row] =
                (lh_cuda_kv_place){view->key_pages[page], view->value_pages[page], position};
            list[row] =
                (lh_cuda_attention_row){(void *const *)at, (void *const *)at + pages, position};
            rows->count = row + 1 > rows->count ? row + 1 : rows->count;
            rows->context = position + 1 > rows->context ? position + 1 : rows->context;
        }
    }
}

void lh_cuda_rows_fill(lh_cuda_rows *rows, const lh_position_run *runs, uint32_t count) {
    size_t used = head_bytes(rows->rows_max);
    rows->count = rows->context = 0;
    for (uint32_t i = 0, next; i < count; i = next) {
        const lh_kv_view view = lh_kv_sequence_view(runs[i].sequence, 0);
        uint32_t pages = pages_of_sequence(runs, count, i, &next);
        void **list = (void **)(void *)(rows->host + used);
        assert(used + 2 * (size_t)pages * sizeof(void *) <= rows->bytes);
        for (uint32_t page = 0; page < pages; page++) {
            list[page] = view.key_pages[page];
            list[pages + page] = view.value_pages[page];
        }
        fill_rows(rows, runs, i, next, &view, (const uint8_t *)rows->memory + used, pages);
        used += 2 * (size_t)pages * sizeof(void *);
    }
    rows->used_bytes = used;
    rows->is_prompt = rows->count >= PROMPT_RUN_ROWS * count;
}

const lh_cuda_kv_place *lh_cuda_rows_places(const lh_cuda_rows *rows) {
    return rows->memory;
}

lh_cuda_attention_rows lh_cuda_rows_of_attention(const lh_cuda_rows *rows, size_t offset) {
    const uint8_t *list = (const uint8_t *)rows->memory + places_bytes(rows->rows_max);
    return (lh_cuda_attention_rows){(const lh_cuda_attention_row *)(const void *)list, rows->count,
                                    rows->context, offset};
}

size_t lh_cuda_rows_offset(const lh_kv_shape *shape, uint32_t layer) {
    return layer *
           (lh_kv_page_bytes(shape, shape->key_dim) + lh_kv_page_bytes(shape, shape->value_dim));
}
