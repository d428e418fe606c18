/* GET /trace/{id}'s answer as a chart. Thread: any. */
#pragma once

#include "gateway/trace/trace_chart.h"

/* Events of unknown kinds are left out. LH_ERR_MALFORMED: the bytes are no trace; LH_ERR_NO_MEMORY.
 * On success the caller resets the chart. */
lh_status lh_chart_parse(const char *bytes, size_t length, lh_chart *chart, lh_error *error);
/* The "message" of an error's answer; "" where there is none. `text` is cut to `bytes`, and
 * printable. */
void lh_chart_parse_error(const char *bytes, size_t length, char *text, size_t text_bytes);
