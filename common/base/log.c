/* One write(2) per line. */
#include "common/base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const names[] = {"error", "warn", "info", "debug"};
static _Atomic int threshold = LH_LOG_INFO;

void lh_log_set_level(lh_log_level level) {
    atomic_store(&threshold, (int)level);
}

bool lh_log_level_parse(const char *name, lh_log_level *level) {
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) {
            *level = (lh_log_level)i;
            return true;
        }
    return false;
}

void lh_log(lh_log_level level, const char *module, const char *format, ...) {
    if ((int)level > atomic_load(&threshold))
        return;
    char line[1024];
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t used = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &utc);
    used += (size_t)snprintf(line + used, sizeof line - used,
                             ".%03ldZ %-5s %s: ", now.tv_nsec / 1000000, names[level], module);
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(line + used, sizeof line - used - 1, format, args);
    va_end(args);
    if (wanted < 0)
        return;
    size_t end = used + (size_t)wanted;
    if (end > sizeof line - 2)
        end = sizeof line - 2;
    for (size_t i = used; i < end; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    line[end++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, end);
    (void)ignored;
}
