/* A wait for a place, a prompt and its tokens, added up. */
#include "gateway/schedule/finish_estimate.h"

#include "common/base/arithmetic.h"

#include <assert.h>

double lh_finish_estimate_us(const lh_cost_chain *costs, const lh_finish_question *question) {
    const lh_finish_question *q = question;
    assert(q->cached <= q->length && q->places > 0 && q->rows_max > 0);
    uint32_t beside = lh_min_u32(q->here + 1, q->places);
    double rows = (double)(q->rows_before + q->length - q->cached);
    double prompt_us = rows * lh_cost_busiest_us(costs, 0, q->rows_max) / q->rows_max;
    double ring_us = lh_cost_decode_step(costs, q->length, 1).ring_us;
    double busy_us = lh_cost_decode_step(costs, q->length, beside).busiest_us;
    double tokens_us = q->max_tokens * (ring_us > busy_us ? ring_us : busy_us);
    double turns = q->here < q->places ? 0 : (double)(q->here - q->places + 1) / q->places;
    return turns * tokens_us + prompt_us + tokens_us;
}
