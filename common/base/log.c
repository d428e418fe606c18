/* Renders lines, and hands them to a writer of the process. */
#include "common/base/log.h"

#include "common/base/log_line.h"
#include "common/base/log_writer.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Some thousand lines: as many as a busy minute has. While lines are written as they come, no more
 * than its first page is touched. */
#define QUEUE_BYTES (1u << 20)

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const char *const format_names[] = {"text", "json"};
static _Atomic int threshold = LH_LOG_INFO;
static _Atomic int form = LH_LOG_TEXT;

void lh_log_set_level(lh_log_level level) {
    atomic_store(&threshold, (int)level);
}

bool lh_log_shows(lh_log_level level) {
    return (int)level <= atomic_load(&threshold);
}

void lh_log_set_format(lh_log_format format) {
    atomic_store(&form, (int)format);
}

lh_log_format lh_log_current_format(void) {
    return (lh_log_format)atomic_load(&form);
}

bool lh_log_level_parse(const char *name, lh_log_level *level) {
    for (int i = 0; i < 4; i++)
        if (strcmp(name, level_names[i]) == 0) {
            *level = (lh_log_level)i;
            return true;
        }
    return false;
}

bool lh_log_format_parse(const char *name, lh_log_format *format) {
    for (int i = 0; i < 2; i++)
        if (strcmp(name, format_names[i]) == 0) {
            *format = (lh_log_format)i;
            return true;
        }
    return false;
}

static void render_now(char *text, size_t size) {
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t used = strftime(text, size, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + used, size - used, ".%03dZ", (int)(now.tv_nsec / 1000000));
}

static size_t render(lh_log_level level, const char *module, const char *format, va_list args,
                     char line[LH_LOG_LINE_BYTES]) {
    char time[40];
    render_now(time, sizeof time);
    const lh_log_head head = {time, level_names[level], module};
    return lh_log_line_render(lh_log_current_format(), &head, format, args, line);
}

static size_t render_one(lh_log_level level, const char *module, char line[LH_LOG_LINE_BYTES],
                         const char *format, ...) {
    va_list args;
    va_start(args, format);
    size_t length = render(level, module, format, args, line);
    va_end(args);
    return length;
}

static size_t render_gap(unsigned long long left_out, char line[LH_LOG_LINE_BYTES]) {
    return render_one(LH_LOG_WARN, "log", line,
                      "lines are missing here: the log did not take them left_out=%llu", left_out);
}

static char queue_memory[QUEUE_BYTES];
static lh_log_writer writer = LH_LOG_WRITER(STDERR_FILENO, render_gap, queue_memory);

static void flush_at_exit(void) {
    atexit(lh_log_flush);
}

static void put(const char *line, size_t length) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, flush_at_exit);
    lh_log_writer_put(&writer, line, length);
}

void lh_log(lh_log_level level, const char *module, const char *format, ...) {
    if (!lh_log_shows(level))
        return;
    char line[LH_LOG_LINE_BYTES];
    va_list args;
    va_start(args, format);
    size_t length = render(level, module, format, args, line);
    va_end(args);
    put(line, length);
}

void lh_log_failure(const char *program, const char *message) {
    char line[LH_LOG_LINE_BYTES];
    size_t length;
    if (lh_log_current_format() == LH_LOG_JSON)
        length = render_one(LH_LOG_ERROR, program, line, "%s", message);
    else
        length = (size_t)snprintf(line, sizeof line, "%.100s: %.1000s\n", program, message);
    put(line, length);
    lh_log_flush();
}

void lh_log_flush(void) {
    lh_log_writer_flush(&writer);
}

/* ---- A process that ends. ---- */

/* The signal has its usual effect when the handler has returned (SA_RESETHAND). */
static void on_fault(int number) {
    lh_log_writer_flush_in_handler(&writer);
    raise(number);
}

/* A sanitizer has handlers of its own by now. */
static void flush_at_faults(void) {
    static const int faults[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    const struct sigaction own = {.sa_handler = on_fault, .sa_flags = (int)SA_RESETHAND};
    struct sigaction before;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        if (sigaction(faults[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(faults[i], &own, NULL);
}

lh_status lh_log_start_thread(lh_error *error) {
    lh_status status = lh_log_writer_start(&writer, error);
    if (status != LH_OK)
        return status;
    flush_at_faults();
    return LH_OK;
}
