/* What a pull tells while it works: a bar on a terminal, else a line of JSON for each event, on
 * standard output. Thread: one at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_pull_report {
    bool is_terminal;
    uint32_t width; /* of the terminal, columns */
    /* Of the file in progress: */
    const char *name;
    uint32_t number, count; /* file 2 of 5 */
    uint64_t begun_bytes;   /* had been here before */
    int64_t begun_us, told_us;
    bool has_bar; /* is to be wiped before anything else is written */
} lh_pull_report;

/* Looks at standard output. */
void lh_pull_report_init(lh_pull_report *report);
/* A file begins, of which `bytes` are here; total_bytes 0: not known yet. `name` is a safe one, and
 * outlives the file. */
void lh_pull_report_begin(lh_pull_report *report, const char *name, uint32_t number, uint32_t count,
                          uint64_t bytes, uint64_t total_bytes);
/* So many bytes are here now. Told several times a second on a terminal, else once a second. */
void lh_pull_report_advance(lh_pull_report *report, uint64_t bytes, uint64_t total_bytes);
/* A sentence, such as that the file has changed and begins anew. */
void lh_pull_report_note(lh_pull_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The file is here; its bytes are compared with the digest, and looked into. */
void lh_pull_report_check(lh_pull_report *report, uint64_t bytes);
/* It has failed, which the caller tells: the bar goes. */
void lh_pull_report_end(lh_pull_report *report);
/* The model is in its place; path is its first file. */
void lh_pull_report_done(lh_pull_report *report, const char *path, uint64_t bytes, bool was_there);
