/* Trace events to blocks. Every field may be missing or of another type: the server may be of
 * another version, or none of ours. */
#include "gateway/trace/trace_chart_json.h"

#include "common/base/growing_array.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 256u

/* Names come from a peer, and control characters in them would drive the terminal. */
static void copy_printable(char *text, size_t bytes, const char *from) {
    size_t used = 0;
    for (; from && *from && used + 1 < bytes; from++)
        text[used++] = *from >= ' ' && *from <= '~' ? *from : '?';
    text[used] = '\0';
}

static double number_of(const json_t *object, const char *key) {
    double value = json_number_value(json_object_get(object, key));
    return isfinite(value) && fabs(value) < 1e15 ? value : 0;
}

static uint32_t count_of(const json_t *object, const char *key) {
    double value = number_of(object, key);
    return value > 0 && value < UINT32_MAX ? (uint32_t)value : 0;
}

static int int_of(const json_t *object, const char *key) {
    double value = number_of(object, key);
    return fabs(value) < 1e9 ? (int)value : 0;
}

/* ---- Rows ---- */

static const char *thread_name(const json_t *events, const char *kind, int pid, int tid) {
    size_t index;
    json_t *event;
    json_array_foreach(events, index, event) {
        const char *name = json_string_value(json_object_get(event, "name"));
        bool is_it = name && strcmp(name, kind) == 0 && int_of(event, "pid") == pid &&
                     int_of(event, "tid") == tid;
        if (is_it)
            return json_string_value(json_object_get(json_object_get(event, "args"), "name"));
    }
    return NULL;
}

/* "worker-1", and for its wire "-> worker-2". */
static void name_row(const json_t *events, lh_chart_row *row) {
    const char *process = thread_name(events, "process_name", row->pid, 1);
    const char *thread = thread_name(events, "thread_name", row->pid, row->tid);
    static const char wire[] = "wire to ", worker[] = "worker ";
    if (thread && strncmp(thread, wire, sizeof wire - 1) == 0) {
        memcpy(row->label, "> ", 2);
        copy_printable(row->label + 2, sizeof row->label - 2, thread + sizeof wire - 1);
        return;
    }
    if (process && strncmp(process, worker, sizeof worker - 1) == 0)
        process += sizeof worker - 1;
    copy_printable(row->label, sizeof row->label, process ? process : thread);
}

static int compare_rows(const void *one, const void *other) {
    const lh_chart_row *a = one, *b = other;
    return a->pid != b->pid ? (a->pid > b->pid) - (a->pid < b->pid)
                            : (a->tid > b->tid) - (a->tid < b->tid);
}

static int find_row(const lh_chart *chart, int pid, int tid) {
    for (uint32_t i = 0; i < chart->row_count; i++)
        if (chart->rows[i].pid == pid && chart->rows[i].tid == tid)
            return (int)i;
    return -1;
}

static lh_status list_rows(const json_t *events, lh_chart *chart, lh_error *error) {
    size_t index;
    json_t *event;
    chart->rows = calloc(ROWS_MAX, sizeof *chart->rows);
    if (!chart->rows)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the chart");
    json_array_foreach(events, index, event) {
        const char *name = json_string_value(json_object_get(event, "name"));
        int pid = int_of(event, "pid"), tid = int_of(event, "tid");
        if (!name || strcmp(name, "thread_name") != 0 || find_row(chart, pid, tid) >= 0 ||
            chart->row_count == ROWS_MAX)
            continue;
        lh_chart_row *row = &chart->rows[chart->row_count++];
        *row = (lh_chart_row){.pid = pid, .tid = tid};
        name_row(events, row);
    }
    if (chart->row_count)
        qsort(chart->rows, chart->row_count, sizeof *chart->rows, compare_rows);
    return LH_OK;
}

/* ---- Blocks ---- */

/* How a kind of event is marked. '#': by the number of its step; 0: not at all, for it holds others
 * or is held. */
static char mark_of(const char *kind) {
    static const struct {
        const char *kind;
        char mark;
    } marks[] = {{"tokenize", 't'}, {"queue", 'q'},   {"prefill", 'p'}, {"decode", 'd'},
                 {"begin", '#'},    {"accept", '#'},  {"finish", '#'},  {"manifest", '#'},
                 {"shard", '#'},    {"results", '#'}, {"gather", '#'}};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (strcmp(kind, marks[i].kind) == 0)
            return marks[i].mark;
    return 0;
}

static lh_status add_block(const json_t *event, lh_chart *chart, lh_error *error) {
    const char *phase = json_string_value(json_object_get(event, "ph"));
    const char *kind = json_string_value(json_object_get(event, "cat"));
    int row = find_row(chart, int_of(event, "pid"), int_of(event, "tid"));
    if (!phase || strcmp(phase, "X") != 0 || !kind || row < 0)
        return LH_OK;
    lh_chart_block block = {
        .row = (uint32_t)row, .begin_us = number_of(event, "ts"), .letter = mark_of(kind)};
    block.end_us = block.begin_us + number_of(event, "dur");
    if (block.end_us > chart->end_us)
        chart->end_us = block.end_us;
    if (block.letter == '#')
        block.number = count_of(json_object_get(event, "args"), "number");
    if (!block.letter || (block.letter == '#' && !block.number))
        return LH_OK;
    if (!lh_growing_array_reserve(&chart->blocks, &chart->block_capacity, chart->block_count + 1,
                                  sizeof *chart->blocks))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the chart");
    chart->blocks[chart->block_count++] = block;
    return LH_OK;
}

/* ---- Figures ---- */

static void read_figures(const json_t *timing, lh_chart_figures *figures) {
    const json_t *decode = json_object_get(timing, "decode");
    *figures = (lh_chart_figures){.first_token_ms = number_of(timing, "time_to_first_token_ms"),
                                  .prefill_ms = number_of(timing, "prefill_ms"),
                                  .compute_ms = number_of(timing, "compute_ms"),
                                  .wire_ms = number_of(timing, "wire_ms"),
                                  .wait_ms = number_of(timing, "wait_ms"),
                                  .bound_ms = number_of(timing, "bound_ms"),
                                  .distance = number_of(timing, "distance"),
                                  .sum_ms = number_of(timing, "sum_ms"),
                                  .chunk_count = count_of(timing, "chunk_count"),
                                  .decode_count = count_of(decode, "tokens"),
                                  .token_ms = number_of(decode, "token_ms"),
                                  .token_bound_ms = number_of(decode, "bound_ms"),
                                  .token_distance = number_of(decode, "distance"),
                                  .is_whole = json_is_true(json_object_get(timing, "complete")),
                                  .predicted_ms = number_of(timing, "predicted_ms")};
    copy_printable(figures->plan, sizeof figures->plan,
                   json_string_value(json_object_get(timing, "plan")));
    size_t index;
    json_t *remark;
    json_array_foreach(json_object_get(timing, "remarks"), index, remark) {
        if (index < LH_CHART_REMARKS_MAX)
            copy_printable(figures->remarks[figures->remark_count++], sizeof figures->remarks[0],
                           json_string_value(remark));
    }
}

static void read_head(const json_t *other, lh_chart *chart) {
    const char *name;
    json_t *error;
    copy_printable(chart->id, sizeof chart->id, json_string_value(json_object_get(other, "id")));
    chart->prompt_tokens = count_of(other, "prompt_tokens");
    chart->tokens = count_of(other, "tokens");
    chart->steps_dropped = count_of(other, "steps_dropped");
    chart->is_over = json_is_true(json_object_get(other, "over"));
    json_object_foreach(json_object_get(other, "clock_error_ms"), name, error) {
        if (json_number_value(error) > chart->clock_error_ms)
            chart->clock_error_ms = json_number_value(error);
    }
    read_figures(json_object_get(other, "timing"), &chart->figures);
    chart->first_token_us = chart->figures.first_token_ms * 1000;
}

lh_status lh_chart_parse(const char *bytes, size_t length, lh_chart *chart, lh_error *error) {
    *chart = (lh_chart){0};
    json_t *root = json_loadb(bytes, length, 0, NULL);
    const json_t *events = json_object_get(root, "traceEvents"),
                 *other = json_object_get(root, "otherData");
    if (!json_is_array(events) || !json_is_object(other)) {
        json_decref(root);
        return lh_fail(error, LH_ERR_MALFORMED,
                       "what came is not a trace; is this the gateway's API?");
    }
    read_head(other, chart);
    lh_status status = list_rows(events, chart, error);
    size_t index;
    json_t *event;
    json_array_foreach(events, index, event) {
        if (status == LH_OK)
            status = add_block(event, chart, error);
    }
    json_decref(root);
    if (status != LH_OK)
        lh_chart_reset(chart);
    return status;
}

void lh_chart_parse_error(const char *bytes, size_t length, char *text, size_t text_bytes) {
    json_t *root = json_loadb(bytes, length, 0, NULL);
    const json_t *message = json_object_get(json_object_get(root, "error"), "message");
    copy_printable(text, text_bytes, json_string_value(message));
    json_decref(root);
}
