/* Sizes that the step format has, and what HTTP/2 puts around them. */
#include "gateway/cost/hop_bytes.h"

/* Bytes around what a step carries: HEADERS, most of them from the table, and the heads of the
 * first and the last DATA frame. */
#define REQUEST_BYTES 68.0
/* The heads of the frame, of the shard in it, and of a DATA frame. */
#define SHARD_HEAD_BYTES 49.0

/* Of that many segments of that many rows. */
static double manifest_bytes(uint32_t rows, uint32_t segments, bool draws) {
    const lh_step_segment segment = {.rows = rows, .ask.draws = draws};
    return (double)lh_step_manifest_bytes(
        &(lh_step_manifest){.rows = rows, .segment_count = segments, .segments = &segment});
}

static double results_bytes(uint32_t count) {
    return (double)lh_step_results_bytes(&(lh_step_result){.sequence = 0}, count);
}

void lh_cost_hop_set_bytes(lh_cost_hop *hop, lh_hop_place place, lh_wire_type wire,
                           uint32_t width) {
    bool is_last = place == LH_HOP_LAST;
    hop->step_bytes = REQUEST_BYTES + (is_last ? manifest_bytes(0, 0, false) + results_bytes(1)
                                               : manifest_bytes(0, 1, false));
    hop->step_row_bytes = manifest_bytes(1, 0, false) - manifest_bytes(0, 0, false);
    hop->draw_bytes = is_last ? results_bytes(1) - results_bytes(0)
                              : manifest_bytes(1, 1, true) - manifest_bytes(0, 0, false);
    hop->row_bytes = place == LH_HOP_INNER ? (double)lh_wire_bytes(wire, 1, width) : 0;
    hop->shard_bytes = SHARD_HEAD_BYTES;
}
