/* Whether what the last worker tells of a segment can be: tokens of the vocabulary that its grammar
 * allows, numbers in their ranges, as many as were asked for and in their order. Pure. Thread:
 * any. */
#pragma once

#include "gateway/schedule/inflight.h"

/* The segment waits for the result; width: of what is pooled. */
bool lh_result_is_plausible(const lh_inflight_segment *segment, const lh_step_result *result,
                            uint32_t vocabulary, uint32_t width);
/* The last worker does not have the mask that the segment names. */
bool lh_result_lacks_mask(const lh_inflight_segment *segment, const lh_step_result *result);
