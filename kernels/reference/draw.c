/* Draws as a race: the token with the greatest sum of its logit and its noise. */
#include "kernels/noise.h"
#include "kernels/reference/reference.h"

#include <assert.h>

uint32_t lh_reference_draw(const float *x, uint32_t count, const lh_draw *draw) {
    lh_lead lead = {-INFINITY, UINT32_MAX};
    uint32_t words[4];
    for (uint32_t token = 0; token < count; token++) {
        if (token % 4 == 0)
            lh_noise_words(draw, token / 4, words);
        lh_lead_try(&lead, lh_draw_scaled(draw, x[token]) + lh_noise(words[token % 4]), token);
    }
    assert(lead.token < count);
    return lead.token;
}

uint32_t lh_reference_draw_among(const float *x, const uint32_t *tokens, uint32_t count,
                                 const lh_draw *draw) {
    lh_lead lead = {-INFINITY, UINT32_MAX};
    lh_draw_among(&lead, x, tokens, count, draw);
    assert(lead.token != UINT32_MAX);
    return lead.token;
}

void lh_reference_draw_weights(float *y, const float *x, uint32_t count, const lh_draw *draw) {
    for (uint32_t i = 0; i < count; i++)
        y[i] = lh_exp_f32(lh_draw_scaled(draw, x[i]));
}
