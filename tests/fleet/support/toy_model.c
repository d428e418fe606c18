/* Hashes for layers. */
#include "tests/fleet/support/toy_model.h"

/* splitmix64's finalizer (Steele, Lea, Flood: doi 10.1145/2660193.2660195). */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t toy_embed(uint32_t token) {
    return mix(token + 1);
}

uint64_t toy_layer(uint64_t *state, uint32_t layer, uint32_t position, uint64_t row) {
    *state = mix(*state ^ row ^ ((uint64_t)layer << 32 | position));
    return mix(row + *state);
}

uint32_t toy_draw(uint64_t row, uint64_t seed, uint64_t counter) {
    return (uint32_t)(mix(row ^ mix(seed + counter)) % TOY_VOCABULARY);
}

uint32_t toy_draw_masked(uint64_t row, uint64_t seed, uint64_t counter, const uint64_t *mask,
                         uint32_t vocabulary) {
    uint32_t allowed = 0, token = 0;
    for (uint32_t i = 0; i < vocabulary; i++)
        allowed += mask[i / 64] >> i % 64 & 1;
    uint32_t left = (uint32_t)(mix(row ^ mix(seed + counter)) % allowed);
    while (!(mask[token / 64] >> token % 64 & 1) || left-- > 0)
        token++;
    return token;
}

float toy_score(uint64_t row, uint32_t token) {
    return -(float)(mix(row ^ token) % 100000 + 1) / 1024;
}

static uint64_t pass(uint64_t states[TOY_LAYERS], uint32_t position, uint32_t token) {
    uint64_t row = toy_embed(token);
    for (uint32_t layer = 0; layer < TOY_LAYERS; layer++)
        row = toy_layer(&states[layer], layer, position, row);
    return row;
}

void toy_score_prompt(const uint32_t *prompt, uint32_t prompt_tokens, float *scores) {
    uint64_t states[TOY_LAYERS] = {0};
    for (uint32_t i = 0; i + 1 < prompt_tokens; i++)
        scores[i + 1] = toy_score(pass(states, i, prompt[i]), prompt[i + 1]);
}

int64_t toy_pool(uint64_t row, uint32_t column) {
    return (int64_t)(mix(row ^ ((uint64_t)column << 40)) % 2000001) - 1000000;
}

void toy_pool_prompt(const uint32_t *prompt, uint32_t prompt_tokens, bool only_last, int64_t *sums,
                     uint32_t width) {
    uint64_t states[TOY_LAYERS] = {0};
    for (uint32_t i = 0; i < prompt_tokens; i++) {
        uint64_t row = pass(states, i, prompt[i]);
        for (uint32_t c = 0; c < width && (!only_last || i + 1 == prompt_tokens); c++)
            sums[c] += toy_pool(row, c);
    }
}

void toy_generate(const uint32_t *prompt, uint32_t prompt_tokens, uint64_t seed, uint32_t *output,
                  uint32_t count) {
    uint64_t states[TOY_LAYERS] = {0};
    for (uint32_t position = 0; position < prompt_tokens + count - 1; position++) {
        uint32_t token =
            position < prompt_tokens ? prompt[position] : output[position - prompt_tokens];
        uint64_t row = pass(states, position, token);
        if (position + 1 >= prompt_tokens)
            output[position + 1 - prompt_tokens] = toy_draw(row, seed, position + 1);
    }
}
