/* Structured log lines on standard error, as text (`time level module: message key=value ...`) or
 * as JSON, one object a line. Times are RFC 3339, in UTC. Nobody waits for whoever reads them
 * (log_writer.h).
 *
 * Thread: any; a line is one write(2), so lines never mix. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>

typedef enum lh_log_level { LH_LOG_ERROR, LH_LOG_WARN, LH_LOG_INFO, LH_LOG_DEBUG } lh_log_level;

typedef enum lh_log_format { LH_LOG_TEXT, LH_LOG_JSON } lh_log_format;

/* Lines above `level` are dropped. Default LH_LOG_INFO. */
void lh_log_set_level(lh_log_level level);
/* Whether lines of this level are written. */
bool lh_log_shows(lh_log_level level);
/* Default LH_LOG_TEXT. */
void lh_log_set_format(lh_log_format format);
lh_log_format lh_log_current_format(void);

/* The level of this name ("error", "warn", "info", "debug"); false: it is none of them. */
bool lh_log_level_parse(const char *name, lh_log_level *level);
/* The format of this name ("text", "json"); false: it is none of them. */
bool lh_log_format_parse(const char *name, lh_log_format *format);

/* Writes one line. `format` holds the message and then key=value pairs, with quotes where a value
 * may hold spaces, for instance
 * lh_log(LH_LOG_INFO, "fleet", "chain is down chain=%s epoch=%u reason=\"%s\"", name, epoch, why).
 * What is a field and what is a number is read from the format, never from what was put into it
 * (log_line.h), so that no peer can forge a field or a line. A value that is empty, or not a
 * number where one belongs (NaN), is "-", and null in JSON. Keys are no `time`, `level`, `module`
 * or `message`: tests/style/test_logs.py. A line longer than 4 KiB is cut. */
void lh_log(lh_log_level level, const char *module, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes why a program ends: as a line of the log where that is JSON, else as `program: message`.
 * Then it waits as lh_log_flush does. */
void lh_log_failure(const char *program, const char *message);

/* From now on a thread of its own writes the lines of a program that serves. They are all written
 * when the process ends by exit(), abort() or a fault, unless standard error takes nothing for a
 * second. Once, after the sandbox is entered. LH_ERR_NO_MEMORY. */
lh_status lh_log_start_thread(lh_error *error);
/* Waits until all lines are written, for a second at most: before _exit(). */
void lh_log_flush(void);
