/* A trace as a chart of text: a row for each track, a block for each piece of work, marked by the
 * number of its chunk. Plain data in, text out. Thread: any. */
#pragma once

#include "common/base/text_buffer.h"

#include <stdbool.h>
#include <stdint.h>

#define LH_CHART_LABEL_BYTES 72u
#define LH_CHART_REMARKS_MAX 8u /* more are left out */

typedef struct lh_chart_row {
    char label[LH_CHART_LABEL_BYTES]; /* printable */
    int pid, tid;                     /* by which rows are ordered */
} lh_chart_row;

typedef struct lh_chart_block {
    uint32_t row;
    double begin_us, end_us;
    uint32_t number; /* of its chunk or decode step, from 1; 0: a phase of the request */
    char letter;     /* the phase's */
} lh_chart_block;

typedef struct lh_chart_figures {
    double first_token_ms, prefill_ms, compute_ms, wire_ms, wait_ms, bound_ms, distance, sum_ms;
    uint32_t chunk_count, decode_count;
    double token_ms, token_bound_ms, token_distance; /* where decode_count is not 0 */
    bool is_whole;
    char plan[96]; /* printable; "": not told */
    double predicted_ms;
    char remarks[LH_CHART_REMARKS_MAX][192]; /* printable */
    uint32_t remark_count;
} lh_chart_figures;

typedef struct lh_chart {
    char id[160]; /* printable */
    uint32_t prompt_tokens, tokens, steps_dropped;
    double clock_error_ms;
    double first_token_us, end_us; /* since the request was received; first_token_us 0: none came */
    bool is_over;
    lh_chart_figures figures;
    lh_chart_row *rows;
    uint32_t row_count;
    lh_chart_block *blocks;
    size_t block_count, block_capacity;
} lh_chart;

void lh_chart_reset(lh_chart *chart);

typedef struct lh_chart_style {
    uint32_t width; /* columns in all, at least LH_CHART_WIDTH_MIN */
    bool whole;     /* up to the end; else up to the first token, where there is one */
    bool colours;   /* ANSI */
} lh_chart_style;

#define LH_CHART_WIDTH_MIN 60u

/* Appends the chart. LH_ERR_NO_MEMORY. */
lh_status lh_chart_render(const lh_chart *chart, const lh_chart_style *style, lh_text_buffer *out);
