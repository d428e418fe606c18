/* What the fleet port answers in JSON (common/protocol/CONTROL.md). Thread: any. */
#pragma once

#include "gateway/fleet/fleet.h"
#include "gateway/fleet/port/model_file.h"

/* What the assignments say of the model. */
typedef struct lh_fleet_model {
    const char *name;
    const lh_model_file *file;
    const char *weights_path, *tensors_path, *blocks_path, *pieces_path; /* on the fleet port */
} lh_fleet_model;

/* The reply to a report. Each gives a malloc'd text, which the caller frees; NULL: out of memory.
 */
char *lh_control_json_render_answer(const lh_fleet_answer *answer, const lh_fleet_model *model);
/* {"tensors": {"NAME": "sha256 hex"}, "blocks": {"rows", "url", "pieces_url", "sha256": {"NAME":
 * "sha256 hex"}}}. Precondition: lh_model_file_has_digests. */
char *lh_control_json_render_tensors(const lh_fleet_model *model);
