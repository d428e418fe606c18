/* "[#####     ]  42 %  1.3 of 3.1 GB  11.2 MB/s  02:41" */
#include "gateway/models/pull_report.h"

#include "common/base/clock.h"
#include "gateway/models/pull_report_json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    BAR_COLUMNS_MAX = 40,
    BAR_BESIDES = 46, /* columns of the figures behind the bar */
    WIDTH_DEFAULT = 80,
    TERMINAL_PAUSE_MS = 200,
    LINES_PAUSE_MS = 1000
};

void lh_pull_report_init(lh_pull_report *report) {
    struct winsize size;
    *report = (lh_pull_report){.is_terminal = isatty(STDOUT_FILENO), .width = WIDTH_DEFAULT};
    if (report->is_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
        report->width = size.ws_col;
}

static void wipe_bar(lh_pull_report *report) {
    if (report->has_bar)
        printf("\r\033[K");
    report->has_bar = false;
}

static void draw_bar(const lh_pull_report *report, double share) {
    int room = (int)report->width - BAR_BESIDES;
    int columns = room < BAR_COLUMNS_MAX ? room : BAR_COLUMNS_MAX;
    if (columns < 10)
        return;
    int filled = (int)(share * columns);
    putchar('[');
    for (int i = 0; i < columns; i++)
        putchar(i < filled ? '#' : ' ');
    printf("] ");
}

static void draw(lh_pull_report *report, uint64_t bytes, uint64_t total_bytes, int64_t now_us) {
    double seconds = (double)(now_us - report->begun_us) / 1e6;
    double rate = seconds > 0 ? (double)(bytes - report->begun_bytes) / seconds : 0;
    wipe_bar(report);
    report->has_bar = true;
    if (total_bytes) {
        draw_bar(report, (double)bytes / (double)total_bytes);
        printf("%3d %% %6.2f of %.2f GB ", (int)(100 * bytes / total_bytes), (double)bytes / 1e9,
               (double)total_bytes / 1e9);
    } else {
        printf("%.2f GB ", (double)bytes / 1e9);
    }
    printf("%6.1f MB/s", rate / 1e6);
    if (total_bytes > bytes && rate > 0) {
        unsigned long left_s = (unsigned long)((double)(total_bytes - bytes) / rate);
        printf(" %02lu:%02lu", left_s / 60, left_s % 60);
    }
    fflush(stdout);
}

void lh_pull_report_begin(lh_pull_report *report, const char *name, uint32_t number, uint32_t count,
                          uint64_t bytes, uint64_t total_bytes) {
    report->name = name;
    report->number = number;
    report->count = count;
    report->begun_bytes = bytes;
    report->begun_us = report->told_us = lh_clock_us();
    if (!report->is_terminal) {
        lh_pull_report_json_write("file", "name", name, bytes,
                                  total_bytes ? total_bytes : UINT64_MAX);
        return;
    }
    if (count > 1)
        printf("%s (%u of %u)\n", name, number, count);
    else
        printf("%s\n", name);
    fflush(stdout);
}

void lh_pull_report_advance(lh_pull_report *report, uint64_t bytes, uint64_t total_bytes) {
    int64_t now_us = lh_clock_us();
    int64_t pause_ms = report->is_terminal ? TERMINAL_PAUSE_MS : LINES_PAUSE_MS;
    if (bytes < report->begun_bytes) { /* begun anew */
        report->begun_bytes = bytes;
        report->begun_us = now_us;
    }
    if (now_us - report->told_us < pause_ms * 1000)
        return;
    report->told_us = now_us;
    if (report->is_terminal)
        draw(report, bytes, total_bytes, now_us);
    else
        lh_pull_report_json_write("progress", "name", report->name, bytes,
                                  total_bytes ? total_bytes : UINT64_MAX);
}

void lh_pull_report_note(lh_pull_report *report, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!report->is_terminal) {
        lh_pull_report_json_write("note", "text", text, UINT64_MAX, UINT64_MAX);
        return;
    }
    wipe_bar(report);
    printf("%s\n", text);
    fflush(stdout);
}

void lh_pull_report_check(lh_pull_report *report, uint64_t bytes) {
    if (!report->is_terminal) {
        lh_pull_report_json_write("check", "name", report->name, bytes, UINT64_MAX);
        return;
    }
    wipe_bar(report);
    printf("checking %.2f GB\n", (double)bytes / 1e9);
    fflush(stdout);
}

void lh_pull_report_end(lh_pull_report *report) {
    wipe_bar(report);
    fflush(stdout);
}

void lh_pull_report_done(lh_pull_report *report, const char *path, uint64_t bytes, bool was_there) {
    wipe_bar(report);
    if (!report->is_terminal)
        lh_pull_report_json_write(was_there ? "present" : "done", "path", path, bytes, UINT64_MAX);
    else
        printf("%s %s\n", path, was_there ? "is here already" : "is here");
    fflush(stdout);
}
