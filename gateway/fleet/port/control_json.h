/* The control plane's JSON (common/protocol/CONTROL.md) and the text of GET /fleet. Thread: any. */
#pragma once

#include "gateway/fleet/fleet.h"
#include "gateway/fleet/port/model_file.h"

#include <stddef.h>
#include <stdint.h>

/* The body of PUT /fleet/workers/{name}. Everything that CONTROL.md names must be there and in
 * range, but for what a worker may not have measured; what it does not name is ignored.
 * LH_ERR_INVALID, LH_ERR_MALFORMED (not JSON), LH_ERR_UNSUPPORTED (another protocol): the message
 * names the field. */
lh_status lh_control_json_parse_report(const char *name, const char *bytes, size_t length,
                                       lh_worker_report *report, lh_error *error);

/* What the assignments say of the model. */
typedef struct lh_fleet_model {
    const char *name;
    const lh_model_file *file;
    const char *weights_path, *tensors_path, *blocks_path, *pieces_path; /* on the fleet port */
} lh_fleet_model;

/* Each gives a malloc'd text, which the caller frees; NULL: out of memory. */
char *lh_control_json_render_answer(const lh_fleet_answer *answer, const lh_fleet_model *model);
/* {"tensors": {"NAME": "sha256 hex"}, "blocks": {"rows", "url", "pieces_url", "sha256": {"NAME":
 * "sha256 hex"}}}. Precondition: lh_model_file_has_digests. */
char *lh_control_json_render_tensors(const lh_fleet_model *model);
