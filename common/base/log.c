/* One write(2) per line. */
#include "common/base/log.h"

#include "common/base/log_line.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const char *const format_names[] = {"text", "json"};
static _Atomic int threshold = LH_LOG_INFO;
static _Atomic int form = LH_LOG_TEXT;

void lh_log_set_level(lh_log_level level) {
    atomic_store(&threshold, (int)level);
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

void lh_log(lh_log_level level, const char *module, const char *format, ...) {
    if ((int)level > atomic_load(&threshold))
        return;
    char line[LH_LOG_LINE_BYTES], time[40];
    render_now(time, sizeof time);
    const lh_log_head head = {time, level_names[level], module};
    va_list args;
    va_start(args, format);
    size_t length = lh_log_line_render(lh_log_current_format(), &head, format, args, line);
    va_end(args);
    ssize_t ignored = write(STDERR_FILENO, line, length);
    (void)ignored;
}
