/* Twenty bytes. */
#include "worker/mesh/frame_head.h"

#include "common/base/little_endian.h"

#include <assert.h>
#include <inttypes.h>

void lh_mesh_frame_head_encode(const lh_mesh_frame_head *head, uint8_t bytes[LH_MESH_HEAD_BYTES]) {
    lh_byte_writer writer = {.bytes = bytes, .capacity = LH_MESH_HEAD_BYTES};
    lh_put_u32(&writer, head->kind);
    lh_put_u32(&writer, head->epoch);
    lh_put_u64(&writer, head->number);
    lh_put_u32(&writer, head->payload_bytes);
    assert(!writer.failed && writer.length == LH_MESH_HEAD_BYTES);
}

void lh_mesh_frame_head_decode(const uint8_t bytes[LH_MESH_HEAD_BYTES], lh_mesh_frame_head *head) {
    lh_byte_reader reader = {.bytes = bytes, .length = LH_MESH_HEAD_BYTES};
    head->kind = lh_get_u32(&reader);
    head->epoch = lh_get_u32(&reader);
    head->number = lh_get_u64(&reader);
    head->payload_bytes = lh_get_u32(&reader);
    assert(!reader.failed);
}

static bool has_length(const lh_mesh_frame_head *came, const lh_mesh_frame_head *wanted) {
    return wanted->kind == LH_MESH_FRAME_ORDER ? came->payload_bytes <= wanted->payload_bytes
                                               : came->payload_bytes == wanted->payload_bytes;
}

static const char *name_of(uint32_t kind) {
    return kind == LH_MESH_FRAME_GATHER  ? "gather"
           : kind == LH_MESH_FRAME_ORDER ? "order"
                                         : "unknown";
}

lh_status lh_mesh_frame_head_check(const lh_mesh_frame_head *came, const lh_mesh_frame_head *wanted,
                                   lh_error *error) {
    bool is_wanted = came->kind == wanted->kind && came->number == wanted->number;
    if (is_wanted && came->epoch == wanted->epoch && has_length(came, wanted))
        return LH_OK;
    lh_status status = came->epoch != wanted->epoch ? LH_ERR_STALE
                       : is_wanted                  ? LH_ERR_MALFORMED
                                                    : LH_ERR_PROTOCOL;
    return lh_fail(error, status,
                   "kind %s (%u), number %" PRIu64 " of epoch %u, %u bytes, where %s %" PRIu64
                   " of epoch %u, %s%u bytes is wanted",
                   name_of(came->kind), came->kind, came->number, came->epoch, came->payload_bytes,
                   name_of(wanted->kind), wanted->number, wanted->epoch,
                   wanted->kind == LH_MESH_FRAME_ORDER ? "up to " : "", wanted->payload_bytes);
}
