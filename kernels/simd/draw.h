/* Draws with the words of 16 lanes' counters at a time; an f32x16.h is included before this file.
 * kernels/reference/draw.c says in scalars what is done.
 *
 * Nearly no token needs its noise: who leads says how great a word may at most be to lead instead
 * (lh_lead_reach), so a block of tokens is done when its greatest logit and its least word say that
 * nobody in it can. The noise of the few that are left is the scalar one. */
#pragma once

#include "kernels/noise.h"
#include "kernels/simd/exp.h"

#include <assert.h>

/* Tokens of a block. */
#define DRAW_BLOCK 64u

/* The words of quads `first` and on of a draw, LANES_COUNTERS of them: words[w] has word w of
 * each. */
LANES_INLINE void lanes_philox(lanes_u32 words[4], const lh_draw *draw, uint32_t first) {
    uint32_t key0 = (uint32_t)draw->seed, key1 = (uint32_t)(draw->seed >> 32);
    lanes_u32 a = lanes_u32_set((uint32_t)draw->position);
    lanes_u32 b = lanes_u32_set((uint32_t)(draw->position >> 32));
    lanes_u32 c = lanes_u32_from(first), d = lanes_u32_set(LH_NOISE_STREAM);
#pragma GCC unroll 10
    for (int round = 0; round < LH_PHILOX_ROUNDS; round++) {
        lanes_u32_pair first_product = lanes_u32_multiply(a, LH_PHILOX_FIRST);
        lanes_u32_pair second_product = lanes_u32_multiply(c, LH_PHILOX_SECOND);
        a = lanes_u32_xor(second_product.high, b, lanes_u32_set(key0));
        c = lanes_u32_xor(first_product.high, d, lanes_u32_set(key1));
        b = second_product.low;
        d = first_product.low;
        key0 += LH_PHILOX_KEY0;
        key1 += LH_PHILOX_KEY1;
    }
    words[0] = a;
    words[1] = b;
    words[2] = c;
    words[3] = d;
}

LANES_INLINE float block_greatest(const float *x) {
    return lanes_greatest(lanes_max(lanes_max(lanes_load(x), lanes_load(x + 16)),
                                    lanes_max(lanes_load(x + 32), lanes_load(x + 48))));
}

/* Tokens first .. first + 4 * LANES_COUNTERS - 1, whose words are these, up to `reach`. */
static void try_words(lh_lead *lead, const float *x, const lh_draw *draw, uint32_t first,
                      const lanes_u32 words[4], uint32_t reach) {
    uint32_t each[4][LANES_COUNTERS];
    for (uint32_t w = 0; w < 4; w++)
        lanes_u32_store(each[w], words[w]);
    for (uint32_t i = 0; i < 4 * LANES_COUNTERS; i++) {
        uint32_t word = each[i % 4][i / 4];
        if (word <= reach)
            lh_lead_try(lead, lh_draw_scaled(draw, x[first + i]) + lh_noise(word), first + i);
    }
}

LANES_INLINE void try_block(lh_lead *lead, const float *x, const lh_draw *draw, uint32_t begin) {
    uint32_t reach;
    if (!lh_lead_reach(lead, lh_draw_scaled(draw, block_greatest(x + begin)), &reach))
        return;
#pragma GCC unroll 2
    for (uint32_t first = begin; first < begin + DRAW_BLOCK; first += 4 * LANES_COUNTERS) {
        lanes_u32 words[4];
        lanes_philox(words, draw, first / 4);
        if (lanes_u32_any_within(words, reach))
            try_words(lead, x, draw, first, words, reach);
    }
}

static uint32_t kernel_draw_among(const float *x, const uint32_t *tokens, uint32_t count,
                                  const lh_draw *draw) {
    lh_lead lead = {-INFINITY, UINT32_MAX};
    lh_draw_among(&lead, x, tokens, count, draw);
    assert(lead.token != UINT32_MAX);
    return lead.token;
}

static uint32_t kernel_draw(const float *x, uint32_t count, const lh_draw *draw) {
    lh_lead lead = {-INFINITY, UINT32_MAX};
    uint32_t whole = count / DRAW_BLOCK * DRAW_BLOCK, best = 0;
    uint32_t rest[DRAW_BLOCK];
    for (uint32_t token = whole; token < count; token++)
        rest[token - whole] = token;
    lh_draw_among(&lead, x, rest, count - whole, draw);
    /* first the block with the greatest logit, beside which most others cannot lead */
    while (best < whole && block_greatest(x + best) != draw->max)
        best += DRAW_BLOCK;
    if (best < whole)
        try_block(&lead, x, draw, best);
    for (uint32_t begin = 0; begin < whole; begin += DRAW_BLOCK)
        if (begin != best)
            try_block(&lead, x, draw, begin);
    assert(lead.token < count);
    return lead.token;
}

LANES_INLINE f32x16 lanes_draw_weight(f32x16 x, const lh_draw *draw) {
    return lanes_exp(lanes_div(lanes_sub(x, lanes_set(draw->max)), lanes_set(draw->temperature)));
}

static void kernel_draw_weights(float *y, const float *x, uint32_t count, const lh_draw *draw) {
    uint32_t i = 0;
    for (; i + 16 <= count; i += 16)
        lanes_store(y + i, lanes_draw_weight(lanes_load(x + i), draw));
    uint32_t rest = count - i;
    lanes_store_part(y + i, lanes_draw_weight(lanes_load_part(x + i, rest), draw), rest);
}
