/* The step format: the bytes of POST /chains/{chain}/steps/{step}, specified in PROTOCOL.md. A pure
 * codec: no sockets, no clock. Both programs use it: the gateway submits steps and reads results,
 * each worker reads and submits.
 *
 *   body  = manifest frame, shard frame ...    (between workers; END_STREAM ends it)
 *         | manifest frame, results frame      (on the last hop)
 *   frame = u32 type, u32 payload bytes, u32 CRC32C of the payload, u32 CRC32C of these 12 bytes,
 *           payload
 *
 * Little-endian. Every length is checked against the limits below before it is believed.
 * Thread: any; one reader at a time by one thread. */
#pragma once

#include "common/base/status.h"
#include "common/protocol/step_parts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_STEP_CONTENT_TYPE       "application/x-longhaul-step"
#define LH_STEP_PROTOCOL_VERSION   8u
#define LH_STEP_ROWS_MAX           8192u
#define LH_STEP_TRUNCATIONS_MAX    1024u
#define LH_STEP_WIDTH_MAX          65536u
#define LH_STEP_MANIFEST_BYTES_MAX (4u << 20)
/* Of one frame: a larger shard goes as several, split by rows. */
#define LH_STEP_SHARD_BYTES_MAX (4u << 20)
#define LH_STEP_CUTS_MAX        64u /* hops between workers */
/* Of one step: so that new masks of the largest vocabulary take a quarter of a manifest at most. */
#define LH_STEP_MASKS_MAX      32u
#define LH_STEP_MASK_DROPS_MAX 64u
#define LH_STEP_HOP_LIMIT_MAX  64u
/* Steps of a chain whose requests may be open at once: the gateway keeps to it, a worker refuses
 * more. Well below the streams that a connection may have (PROTOCOL.md). */
#define LH_STEPS_OPEN_MAX 192u

/* Steps of one class leave in order, whole; a decode step overtakes prefill steps. */
typedef enum lh_step_class { LH_STEP_DECODE = 0, LH_STEP_PREFILL = 1 } lh_step_class;

typedef struct lh_step_manifest {
    uint32_t epoch;
    uint64_t step; /* ascending within a chain and epoch */
    lh_step_class step_class;
    bool timed;    /* answers carry the times of each worker */
    bool resyncs;  /* no rows; the truncations name all sequences that go on in this epoch */
    uint32_t rows; /* sum over segments; 0 for a step that only truncates */
    const uint32_t *tokens; /* [rows] */
    uint32_t segment_count, truncation_count;
    const lh_step_segment *segments;
    const lh_step_truncation *truncations; /* to be done after the rows of this step */
    /* of the hops ahead between workers: the first is that of the receiver's own result. A hop
     * without a cut gets one shard of all columns */
    uint32_t cut_count;
    const lh_step_cut *cuts;
    /* how many workers compute it, the receiver being the first, LH_STEP_HOP_LIMIT_MAX at most; no
     * segment draws then. 0: all, and the ring */
    uint32_t hop_limit;
    lh_step_masks masks; /* none where there is a hop limit, or in a KV resync */
} lh_step_manifest;

typedef struct lh_step_shard_header {
    uint32_t first_row, rows, first_column, columns;
    lh_wire_type wire;
    uint32_t payload_bytes; /* of the frame */
} lh_step_shard_header;

/* ---- Encoding: each appends to a caller's buffer of `capacity` bytes and sets *length.
 * LH_ERR_LIMIT: a count is over its limit, or the buffer is too small (lh_step_manifest_bytes says
 * how much is needed). */
size_t lh_step_manifest_bytes(const lh_step_manifest *manifest);
lh_status lh_step_encode_manifest(const lh_step_manifest *manifest, uint8_t *buffer,
                                  size_t capacity, size_t *length, lh_error *error);
/* Bytes of one shard frame; 0 when it would be over LH_STEP_SHARD_BYTES_MAX. */
size_t lh_step_shard_bytes(lh_wire_type wire, uint32_t rows, uint32_t columns);
/* The most rows of `columns` (1 .. LH_STEP_WIDTH_MAX) values that fit one shard frame: at least 1.
 */
uint32_t lh_step_shard_rows_max(lh_wire_type wire, uint32_t columns);
/* values[rows][columns], tightly packed floats. LH_ERR_INVALID: a value is not finite or too large
 * for the wire type (wire_type.h), or a bound is off the column blocks. */
lh_status lh_step_encode_shard(lh_wire_type wire, uint32_t first_row, uint32_t rows,
                               uint32_t first_column, uint32_t columns, const float *values,
                               uint8_t *buffer, size_t capacity, size_t *length, lh_error *error);
/* The same in two halves, for values that are packed already: *values is where their lh_wire_bytes
 * go between the two. */
lh_status lh_step_begin_shard(lh_wire_type wire, uint32_t first_row, uint32_t rows,
                              uint32_t first_column, uint32_t columns, uint8_t *buffer,
                              size_t capacity, uint8_t **values, lh_error *error);
void lh_step_end_shard(lh_wire_type wire, uint32_t rows, uint32_t columns, uint8_t *buffer,
                       size_t *length);
/* LH_ERR_INVALID, in the words of lh_step_encode_shard for values that do not fit the type. */
lh_status lh_step_refuse_shard(uint32_t first_row, uint32_t first_column, lh_error *error);
/* As many column shards as wanted of equal width to a block, but no more than the blocks and the
 * limit allow. */
lh_step_cut lh_step_cut_evenly(uint32_t width, uint32_t shards);
size_t lh_step_results_bytes(const lh_step_result *results, uint32_t count);
lh_status lh_step_encode_results(const lh_step_result *results, uint32_t count, uint8_t *buffer,
                                 size_t capacity, size_t *length, lh_error *error);

/* ---- Decoding ---- */

/* A whole manifest frame, as lh_step_encode_manifest writes it, of exactly `length` bytes. The
 * manifest's arrays lie in *memory: malloc'd, the caller frees it (NULL after an error).
 * LH_ERR_MALFORMED, LH_ERR_CORRUPT (CRC), LH_ERR_LIMIT, LH_ERR_UNSUPPORTED (version),
 * LH_ERR_NO_MEMORY. */
lh_status lh_step_decode_manifest_frame(const uint8_t *frame, size_t length,
                                        lh_step_manifest *manifest, void **memory, lh_error *error);

/* Bytes in as they come, events out. */

typedef struct lh_step_reader lh_step_reader;

/* Pointers are valid during the call. A status that is not LH_OK ends the reading and is returned
 * by _feed. on_shard or on_results may be NULL: such frames are refused (LH_ERR_MALFORMED). */
typedef struct lh_step_reader_events {
    lh_status (*on_manifest)(void *context, const lh_step_manifest *manifest, lh_error *error);
    /* CRC, bounds and finiteness are checked; values[rows][columns] as floats. */
    lh_status (*on_shard)(void *context, const lh_step_shard_header *header, const float *values,
                          lh_error *error);
    lh_status (*on_results)(void *context, const lh_step_result *results, uint32_t count,
                            lh_error *error);
} lh_step_reader_events;

/* width: columns of the activation (0: no shard may come, as on the first hop and on the last). The
 * events are copied. */
lh_status lh_step_reader_create(uint32_t width, const lh_step_reader_events *events, void *context,
                                lh_step_reader **reader, lh_error *error);
void lh_step_reader_destroy(lh_step_reader *reader);
/* LH_ERR_MALFORMED, LH_ERR_CORRUPT (CRC), LH_ERR_LIMIT, LH_ERR_UNSUPPORTED (version),
 * LH_ERR_NO_MEMORY. After an error it takes no more and gives the same error again. Memory is
 * bounded by the limits above and grows only with bytes that have come. */
lh_status lh_step_reader_feed(lh_step_reader *reader, const uint8_t *bytes, size_t length,
                              lh_error *error);
/* What it holds of a frame that has not come to its end. */
size_t lh_step_reader_unfinished_bytes(const lh_step_reader *reader);
/* The body has ended: LH_ERR_MALFORMED when something is cut or missing (shards must cover the
 * whole activation). */
lh_status lh_step_reader_finish(lh_step_reader *reader, lh_error *error);
