/* What is written to standard error between two calls: log lines, so that a test can read them.
 * Aborts where it cannot. Thread: one at a time; lines of all threads are captured. */
#pragma once

void log_capture_begin(void);
/* Standard error is what it was; all that was written: malloc'd, the caller frees. */
char *log_capture_end(void);
