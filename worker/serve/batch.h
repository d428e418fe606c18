/* The step format on one side, what the compute side takes and gives on the other. Thread: any. */
#pragma once

#include "common/protocol/step.h"
#include "worker/compute/pipeline/pipeline.h"

/* A hop's cut as a batch has it. */
lh_column_cut lh_batch_cut(const lh_step_cut *cut);
/* The manifest as a batch; its segments are malloc'd (*segments, the caller frees), all else points
 * into the manifest. LH_ERR_NO_MEMORY. */
lh_status lh_batch_from_manifest(const lh_step_manifest *manifest, lh_batch *batch,
                                 lh_batch_segment **segments, lh_error *error);

/* lh_pipeline_options.encode: encoding is an lh_wire_type; a shard too large for one frame becomes
 * several. */
lh_status lh_batch_encode_shard(uint32_t encoding, const lh_stage_shard *shard, void **bytes,
                                size_t *length, lh_error *error);

/* The frame with the results: malloc'd. */
lh_status lh_batch_encode_results(const lh_step_result *results, uint32_t count, void **bytes,
                                  size_t *length, lh_error *error);
