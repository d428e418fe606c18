/* A wait for a place, a prompt and its tokens, added up. */
#include "gateway/schedule/finish_estimate.h"

#include "common/base/arithmetic.h"

#include <assert.h>
#include <math.h>

double lh_finish_estimate_us(const lh_cost_chain *costs, const lh_sequence *sequence, uint64_t rows,
                             uint32_t rows_max, uint32_t here, uint32_t places) {
    assert(places > 0 && rows_max > 0);
    uint32_t length = sequence->length, beside = lh_min_u32(here + 1, places);
    double prompt_us = (double)rows * lh_cost_busiest_us(costs, 0, rows_max) / rows_max;
    double ring_us = lh_cost_decode_step(costs, length, 1).ring_us;
    double busy_us = lh_cost_decode_step(costs, length, beside).busiest_us;
    double tokens_us = sequence->request.max_tokens * fmax(ring_us, busy_us);
    double turns = here < places ? 0 : (double)(here - places + 1) / places;
    return turns * tokens_us + prompt_us + tokens_us;
}
