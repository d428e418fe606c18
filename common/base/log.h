/* Structured log lines (logfmt) on standard error: `time level module "message" key=value ...`.
 *
 * Thread: any; a line is one write(2), so lines never mix. */
#pragma once

#include <stdbool.h>

typedef enum lh_log_level { LH_LOG_ERROR, LH_LOG_WARN, LH_LOG_INFO, LH_LOG_DEBUG } lh_log_level;

/* Lines above `level` are dropped. Default LH_LOG_INFO. */
void lh_log_set_level(lh_log_level level);

/* The level of this name ("error", "warn", "info", "debug"); false: it is none of them. */
bool lh_log_level_parse(const char *name, lh_log_level *level);

/* Writes one line. `format` holds the message and then key=value pairs, for instance
 * lh_log(LH_LOG_INFO, "chain", "chain is ready chain=%s epoch=%u", name, epoch). A line longer than
 * 1 KiB is cut. Control characters are replaced, so that no peer can forge a line. */
void lh_log(lh_log_level level, const char *module, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
