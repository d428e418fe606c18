/* Drawn cell by cell: the block that covers most of a cell gives it its mark. */
#include "gateway/trace/trace_chart.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUSY_COLUMNS 6u  /* " 100 %" */
#define TICK_COLUMNS 12u /* between two marks of the axis, at least */

/* Where the text goes. The first failure stays, and nothing is appended after it. */
typedef struct page {
    lh_text_buffer *out;
    lh_status status;
} page;

static void put(page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(page *p, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (p->status == LH_OK && length > 0)
        p->status = lh_text_buffer_append(p->out, text, strlen(text), NULL);
}

void lh_chart_reset(lh_chart *chart) {
    free(chart->rows);
    free(chart->blocks);
    *chart = (lh_chart){0};
}

/* ---- Cells ---- */

static double overlap(const lh_chart_block *block, double begin_us, double end_us) {
    double from = fmax(block->begin_us, begin_us), to = fmin(block->end_us, end_us);
    return to > from ? to - from : 0;
}

/* The block of a row that covers most of the time; *covered: how much all of them do. */
static const lh_chart_block *find_block(const lh_chart *chart, uint32_t row, double begin_us,
                                        double end_us, double *covered) {
    const lh_chart_block *found = NULL;
    double most = 0;
    *covered = 0;
    for (size_t i = 0; i < chart->block_count; i++) {
        const lh_chart_block *block = &chart->blocks[i];
        double part = block->row == row ? overlap(block, begin_us, end_us) : 0;
        *covered += part;
        if (part > most) {
            most = part;
            found = block;
        }
    }
    return found;
}

static char mark_of(const lh_chart_block *block) {
    static const char digits[] = "123456789abcdefghijklmnopqrstuvwxyz0";
    return block->number == 0 ? block->letter : digits[(block->number - 1) % (sizeof digits - 1)];
}

static const char *colour_of(const lh_chart_block *block) {
    static const char *const colours[] = {"\033[30;46m", "\033[30;43m", "\033[30;42m",
                                          "\033[30;45m", "\033[30;44m", "\033[30;47m"};
    return block->number == 0 ? "\033[2m"
                              : colours[(block->number - 1) % (sizeof colours / sizeof colours[0])];
}

static void put_row(page *p, const lh_chart *chart, uint32_t row, const lh_chart_style *style,
                    uint32_t columns, double end_us) {
    const char *now = NULL;
    double busy = 0, per_cell = end_us / columns;
    for (uint32_t i = 0; i < columns; i++) {
        double covered;
        const lh_chart_block *block =
            find_block(chart, row, i * per_cell, (i + 1) * per_cell, &covered);
        const char *colour =
            block && style->colours && covered >= per_cell / 2 ? colour_of(block) : NULL;
        busy += fmin(covered, per_cell);
        if (colour != now && now)
            put(p, "\033[0m");
        if (colour != now && colour)
            put(p, "%s", colour);
        now = colour;
        put(p, "%c", !block ? '.' : covered >= per_cell / 2 ? mark_of(block) : '\'');
    }
    put(p, "%s%4.0f %%\n", now ? "\033[0m" : "", 100 * busy / end_us);
}

/* ---- The axis ---- */

/* 1, 2 or 5 times a power of ten, in microseconds. */
static double tick_us(double end_us, uint32_t columns) {
    double least = end_us * TICK_COLUMNS / columns, power = 1;
    while (power * 10 <= least)
        power *= 10;
    for (int i = 0; i < 3; i++) {
        static const double steps[] = {1, 2, 5};
        if (steps[i] * power >= least)
            return steps[i] * power;
    }
    return 10 * power;
}

static void put_axis(page *p, uint32_t label_columns, uint32_t columns, double end_us) {
    double step = tick_us(end_us, columns);
    uint32_t at = 0;
    put(p, "%*s  ", (int)label_columns, "ms");
    for (double time = 0; time < end_us; time += step) {
        uint32_t column = (uint32_t)(time / end_us * columns);
        char text[32];
        int length = snprintf(text, sizeof text, "|%.*f", step < 1000 ? 1 : 0, time / 1000);
        if (column + (uint32_t)length > columns)
            break;
        put(p, "%*s%s", (int)(column - at), "", text);
        at = column + (uint32_t)length;
    }
    put(p, "%*s  busy\n", (int)(columns - at), "");
}

/* ---- Head and figures ---- */

static void put_head(page *p, const lh_chart *chart) {
    put(p, "%s: %u prompt tokens in %u chunks, %u tokens%s\n", chart->id, chart->prompt_tokens,
        chart->figures.chunk_count, chart->tokens, chart->is_over ? "" : ", not over yet");
    if (chart->steps_dropped)
        put(p, "%u of its steps are not shown: only the first and the last ones are kept\n",
            chart->steps_dropped);
}

static void put_figures(page *p, const lh_chart *chart) {
    const lh_chart_figures *f = &chart->figures;
    put(p,
        "\nfirst token after %.1f ms; the prompt took %.1f = %.1f compute + %.1f wire alone + %.1f "
        "wait\n",
        f->first_token_ms, f->prefill_ms, f->compute_ms, f->wire_ms, f->wait_ms);
    if (f->bound_ms > 0)
        put(p,
            "bound %.1f ms, so %.2f times the bound; one after the other it would be %.1f ms%s\n",
            f->bound_ms, f->distance, f->sum_ms,
            f->is_whole ? "" : " (some steps' times are missing)");
    if (f->plan[0] && f->predicted_ms > 0)
        put(p, "plan %s, predicted to take %.1f ms\n", f->plan, f->predicted_ms);
    else if (f->plan[0])
        put(p, "plan %s; what it takes could not be predicted yet\n", f->plan);
    for (uint32_t i = 0; i < f->remark_count; i++)
        put(p, "%s\n", f->remarks[i]);
    if (f->decode_count && f->token_bound_ms > 0)
        put(p, "%u further tokens: %.1f ms each, bound %.1f ms, so %.2f times the bound\n",
            f->decode_count, f->token_ms, f->token_bound_ms, f->token_distance);
    put(p, "marks: t tokenize, q queue, p prefill, d decode; 1 2 3 ... the chunk, or the decode "
           "step; ' less than half of a cell\n");
    put(p, "clocks are aligned within %.2f ms\n", chart->clock_error_ms);
}

static uint32_t widest_label(const lh_chart *chart) {
    size_t widest = 2;
    for (uint32_t i = 0; i < chart->row_count; i++)
        if (strlen(chart->rows[i].label) > widest)
            widest = strlen(chart->rows[i].label);
    return (uint32_t)(widest < 30 ? widest : 30);
}

lh_status lh_chart_render(const lh_chart *chart, const lh_chart_style *style, lh_text_buffer *out) {
    page p = {.out = out};
    uint32_t width = style->width > LH_CHART_WIDTH_MIN ? style->width : LH_CHART_WIDTH_MIN;
    uint32_t labels = widest_label(chart), columns = width - labels - 2 - BUSY_COLUMNS;
    double end_us =
        chart->first_token_us > 0 && !style->whole ? chart->first_token_us : chart->end_us;
    put_head(&p, chart);
    if (end_us <= 0) {
        put(&p, "nothing has happened yet\n");
        return p.status;
    }
    put(&p, "\n");
    put_axis(&p, labels, columns, end_us);
    for (uint32_t i = 0; i < chart->row_count && p.status == LH_OK; i++) {
        put(&p, "%*.*s  ", (int)labels, (int)labels, chart->rows[i].label);
        put_row(&p, chart, i, style, columns, end_us);
    }
    put_figures(&p, chart);
    return p.status;
}
