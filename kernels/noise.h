/* The noise of draws (kernels.h, `draw`), token by token, in C of which each instruction set has
 * its own copy: integers, and floats by +, * and fma alone, so that all give the same bits.
 *
 *     w    word token % 4 of Philox4x32-10 with key = seed and
 *          counter = (position, position >> 32, token / 4, 1), the words low first
 *     v    (2 w + 1) / 2^33, in (0, 1)
 *     E    -log(1 - v), which is distributed exponentially
 *     g    -log(E), which has Gumbel's distribution
 *
 * A draw is decided by its greatest g, where v is least: there v = fma(w, 2^-32, 2^-33) is exact,
 * and E comes from the logarithm at 1 - v without 1 - v being rounded. From v = 0.29 on E is the
 * logarithm of 1 - v = fma(2^32 - 1 - w, 2^-32, 2^-33). g is in -3.2 .. 22.9, and its error below
 * 2e-7 + 2^-24 |g|.
 *
 * log x of a positive normal x: x = m 2^e with m in [sqrt(1/2), sqrt(2)), f = m - 1,
 *     log m = fma(fma(p, f, -1/2), f * f, f),  p the polynomial in f by Horner's rule with fma
 *     log x = fma(e, ln 2, log m)
 * The coefficients are Cephes' logf (Moshier), greatest power first. */
#pragma once

#include "kernels/kernels.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LH_PHILOX_ROUNDS 10
#define LH_PHILOX_FIRST  0xD2511F53u
#define LH_PHILOX_SECOND 0xCD9E8D57u
#define LH_PHILOX_KEY0   0x9E3779B9u
#define LH_PHILOX_KEY1   0xBB67AE85u

/* Word 3 of a draw's counters: what else is drawn by a seed has other ones. */
#define LH_NOISE_STREAM 1u
/* v is sqrt(1/2) - 1 below 1 from this word on, and 1 - v below sqrt(1/2). */
#define LH_NOISE_SPLIT 0x4afb0cccu

#define LH_LOG_SQRT_HALF_BITS 0x3f3504f3u
#define LH_LOG_LN2            0x1.62e430p-1f
#define LH_LOG_COEFFICIENTS                                                                        \
    {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,  -1.2420140846e-1f, 1.4249322787e-1f, \
     -1.6668057665e-1f, 2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f}

/* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11, doi
 * 10.1145/2063384.2063405). */
static inline void lh_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t a = counter[0], b = counter[1], c = counter[2], d = counter[3];
    uint32_t key0 = key[0], key1 = key[1];
    for (int round = 0; round < LH_PHILOX_ROUNDS; round++) {
        uint64_t first = (uint64_t)LH_PHILOX_FIRST * a, second = (uint64_t)LH_PHILOX_SECOND * c;
        a = (uint32_t)(second >> 32) ^ b ^ key0;
        c = (uint32_t)(first >> 32) ^ d ^ key1;
        b = (uint32_t)second;
        d = (uint32_t)first;
        key0 += LH_PHILOX_KEY0;
        key1 += LH_PHILOX_KEY1;
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}

/* The words of tokens 4 * quad .. 4 * quad + 3. */
static inline void lh_noise_words(const lh_draw *draw, uint32_t quad, uint32_t words[4]) {
    const uint32_t key[2] = {(uint32_t)draw->seed, (uint32_t)(draw->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)draw->position, (uint32_t)(draw->position >> 32), quad,
                                 LH_NOISE_STREAM};
    lh_philox(counter, key, words);
}

/* log(1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1). */
static inline float lh_log_near_one(float f) {
    static const float coefficients[] = LH_LOG_COEFFICIENTS;
    float p = coefficients[0];
    for (size_t i = 1; i < sizeof coefficients / sizeof coefficients[0]; i++)
        p = fmaf(p, f, coefficients[i]);
    return fmaf(fmaf(p, f, -0.5f), f * f, f);
}

/* log x of a positive normal x. */
static inline float lh_log_by_fma(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    int32_t exponent = (int32_t)(bits - LH_LOG_SQRT_HALF_BITS) >> 23;
    bits -= (uint32_t)exponent << 23;
    memcpy(&x, &bits, sizeof x);
    return fmaf((float)exponent, LH_LOG_LN2, lh_log_near_one(x - 1));
}

/* g of a word. */
static inline float lh_noise(uint32_t word) {
    float e = word < LH_NOISE_SPLIT ? lh_log_near_one(-fmaf((float)word, 0x1p-32f, 0x1p-33f))
                                    : lh_log_by_fma(fmaf((float)~word, 0x1p-32f, 0x1p-33f));
    return -lh_log_by_fma(-e);
}

/* ---- Who leads a draw ---- */

typedef struct lh_lead {
    float score; /* -inf: nobody yet */
    uint32_t token;
} lh_lead;

/* The greater score leads, the lower token of equals: in any order of the tokens. */
static inline void lh_lead_try(lh_lead *lead, float score, uint32_t token) {
    if (score > lead->score || (score == lead->score && token < lead->token))
        *lead = (lh_lead){score, token};
}

static inline float lh_draw_scaled(const lh_draw *draw, float x) {
    return (x - draw->max) / draw->temperature;
}

/* The greatest word with which a token of (x - max) / temperature = `scaled` may lead; false: there
 * is none. A word of c leading zeros has v > 2^-(c + 1), and so g < (c + 1) ln 2; the roundings of
 * g and of scores below 1000 come to far less than the hundredth, and beyond there is none. */
static inline bool lh_lead_reach(const lh_lead *lead, float scaled, uint32_t *greatest) {
    float zeros = (lead->score - scaled) * 0x1.715476p0f - 0.01f;
    if (!(zeros < 33.0f))
        return false;
    uint32_t least = zeros > 0 ? (uint32_t)zeros : 0;
    *greatest = least < 32 ? UINT32_MAX >> least : 0;
    return true;
}

/* tokens[count] of x, one by one. */
static inline void lh_draw_among(lh_lead *lead, const float *x, const uint32_t *tokens,
                                 uint32_t count, const lh_draw *draw) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t words[4];
        lh_noise_words(draw, tokens[i] / 4, words);
        lh_lead_try(lead, lh_draw_scaled(draw, x[tokens[i]]) + lh_noise(words[tokens[i] % 4]),
                    tokens[i]);
    }
}
