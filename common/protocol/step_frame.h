/* Frames of the step format (PROTOCOL.md) and the decoders of one whole payload each. Private to
 * common/protocol. Thread: any. */
#pragma once

#include "common/protocol/step.h"

#define LH_STEP_FRAME_HEAD_BYTES  16u
#define LH_STEP_SHARD_HEAD_BYTES  24u
#define LH_STEP_SEGMENT_BYTES     20u /* before what it has besides */
#define LH_STEP_TRUNCATION_BYTES  12u
#define LH_STEP_MASK_BYTES        16u /* before its code */
#define LH_STEP_RESULT_HEAD_BYTES 12u /* before its answer */

#define LH_STEP_FLAG_TIMED     1u /* of a manifest */
#define LH_STEP_FLAG_KV_RESYNC 2u
#define LH_STEP_FLAG_FORKS     2u /* of a segment, beside those of its ask */

typedef enum lh_step_frame_type {
    LH_STEP_FRAME_MANIFEST = 1,
    LH_STEP_FRAME_SHARD = 2,
    LH_STEP_FRAME_RESULTS = 3,
    LH_STEP_FRAME_TIMES = 4 /* of answers alone */
} lh_step_frame_type;

typedef struct lh_step_frame_head {
    uint32_t type, payload_bytes, payload_crc32c;
} lh_step_frame_head;

/* Writes the head before a payload that lies at frame + LH_STEP_FRAME_HEAD_BYTES. */
void lh_step_frame_seal(uint8_t *frame, lh_step_frame_type type, size_t payload_bytes);

/* LH_ERR_CORRUPT: the head's own checksum; LH_ERR_MALFORMED: no such type; LH_ERR_LIMIT: too long
 * for its type. */
lh_status lh_step_frame_head_decode(const uint8_t bytes[LH_STEP_FRAME_HEAD_BYTES],
                                    lh_step_frame_head *head, lh_error *error);

/* For both directions: whether the counts are within the limits (LH_ERR_LIMIT). */
lh_status lh_step_check_counts(const lh_step_manifest *manifest, lh_error *error);

/* Decodes the payload into *manifest, whose arrays lie in *memory: malloc'd, the caller frees it
 * (NULL after an error). LH_ERR_MALFORMED, LH_ERR_UNSUPPORTED (version), LH_ERR_LIMIT,
 * LH_ERR_NO_MEMORY. */
lh_status lh_step_decode_manifest(const uint8_t *payload, size_t length, lh_step_manifest *manifest,
                                  void **memory, lh_error *error);

/* The head of a shard, checked against the manifest's rows and the width; the values follow it in
 * the payload. LH_ERR_MALFORMED, LH_ERR_UNSUPPORTED (wire type). */
lh_status lh_step_decode_shard_head(const uint8_t *payload, size_t length, uint32_t rows,
                                    uint32_t width, lh_step_shard_header *header, lh_error *error);

/* *results is malloc'd, the lists of the answers in the same block; the caller frees it (NULL after
 * an error). LH_ERR_MALFORMED, LH_ERR_LIMIT, LH_ERR_NO_MEMORY. */
lh_status lh_step_decode_results(const uint8_t *payload, size_t length, lh_step_result **results,
                                 uint32_t *count, lh_error *error);
