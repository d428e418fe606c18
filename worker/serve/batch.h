/* The step format on one side, what the compute side takes and gives on the other. Thread: any. */
#pragma once

#include "common/protocol/step.h"
#include "worker/compute/pipeline/pipeline.h"

/* lh_pipeline_options.encode: encoding is an lh_wire_type; a shard too large for one frame becomes
 * several. */
lh_status lh_batch_encode_shard(uint32_t encoding, const lh_stage_shard *shard, void **bytes,
                                size_t *length, lh_error *error);

/* The frame with the results: malloc'd. */
lh_status lh_batch_encode_results(const lh_step_result *results, uint32_t count, void **bytes,
                                  size_t *length, lh_error *error);
