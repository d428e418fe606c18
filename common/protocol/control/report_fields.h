/* A worker's report as JSON: the body of PUT /fleet/workers/{name} (CONTROL.md). A pure codec.
 * Thread: any. */
#pragma once

#include "common/json/json_fields.h"
#include "common/protocol/worker_report.h"

/* The table, for documents. */
extern const lh_json_record lh_worker_report_record;

/* The JSON text, without the name, which is in the path: malloc'd, the caller frees; NULL: out of
 * memory. */
char *lh_worker_report_render(const lh_worker_report *report);

/* Everything that CONTROL.md names must be there and in range, but for what a worker may not have
 * measured; what it does not name is ignored. LH_ERR_INVALID, LH_ERR_MALFORMED (not JSON),
 * LH_ERR_UNSUPPORTED (another protocol): the message names the field. */
lh_status lh_worker_report_parse(const char *name, const char *bytes, size_t length,
                                 lh_worker_report *report, lh_error *error);
