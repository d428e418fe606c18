/* What the compute side gives, as frames of the step format; *bytes is malloc'd. Thread: any. */
#pragma once

#include "common/protocol/step.h"
#include "worker/compute/stage/stage.h"

/* lh_pipeline_options.encode: a shard too large for one frame becomes several. LH_ERR_NO_MEMORY,
 * and the errors of lh_step_encode_shard, also where a device has packed it. */
lh_status lh_frames_of_shard(lh_wire_type wire, const lh_stage_shard *shard, void **bytes,
                             size_t *length, lh_error *error);

/* LH_ERR_NO_MEMORY, and the errors of lh_step_encode_results. */
lh_status lh_frames_of_results(const lh_step_result *results, uint32_t count, void **bytes,
                               size_t *length, lh_error *error);
