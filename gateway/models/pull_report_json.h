/* One event of a pull as a line of JSON on standard output. Thread: any. */
#pragma once

#include <stdint.h>

/* {"event": event, "name"|"text"|"path": text, "bytes": bytes, "total_bytes": total}: what is NULL
 * or UINT64_MAX is left out. */
void lh_pull_report_json_write(const char *event, const char *field, const char *text,
                               uint64_t bytes, uint64_t total_bytes);
