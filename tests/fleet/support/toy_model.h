/* A model of a few instructions that is as unforgiving as a real one: each layer keeps a state per
 * sequence that every position changes, so a row that is lost, doubled, out of order or given to
 * the wrong layer changes all tokens after it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define TOY_LAYERS      12u
#define TOY_VOCABULARY  5000u
#define TOY_LAYER_BYTES 1000u
#define TOY_WIDTH       4u /* columns of a row on the wire */

uint64_t toy_embed(uint32_t token);
/* Takes one row through one layer: changes the layer's state, returns the row. */
uint64_t toy_layer(uint64_t *state, uint32_t layer, uint32_t position, uint64_t row);
uint32_t toy_draw(uint64_t row, uint64_t seed, uint64_t counter);
/* The same among the tokens of a mask alone. */
uint32_t toy_draw_masked(uint64_t row, uint64_t seed, uint64_t counter, const uint64_t *mask,
                         uint32_t vocabulary);
/* What the row gives a token that comes after it: below 0. */
float toy_score(uint64_t row, uint32_t token);
/* What a row adds to column c of what is pooled; and what all rows of a prompt, or the last one,
 * add. */
int64_t toy_pool(uint64_t row, uint32_t column);
void toy_pool_prompt(const uint32_t *prompt, uint32_t prompt_tokens, bool only_last, int64_t *sums,
                     uint32_t width);
/* scores[prompt_tokens]: of each but the first. */
void toy_score_prompt(const uint32_t *prompt, uint32_t prompt_tokens, float *scores);
/* What a chain must give, whatever happens to it. */
void toy_generate(const uint32_t *prompt, uint32_t prompt_tokens, uint64_t seed, uint32_t *output,
                  uint32_t count);
