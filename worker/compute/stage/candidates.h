/* What top-k, top-p and min-p leave of a distribution, which need not add up to 1. All three are
 * cuts of one order: the more probable first, the lower token of equals.
 *   top-k  leaves the first k
 *   top-p  leaves the fewest whose mass comes to floor(P * total / 2^32), where P is floor(top_p *
 *          2^32) and the total is of what top-k left
 *   min-p  leaves what has a probability of at least min_p
 * Each leaves one at least. The mass of a token is floor(probability * 2^40): integers have the
 * same sum in any order, so that whoever adds them up cuts at the same token.
 * Thread: any, scratch is the caller's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sums of masses stay below 2^64. */
#define LH_CANDIDATES_MAX ((1u << 24) - 1)

typedef struct lh_truncation {
    uint32_t top_k; /* 0: off */
    float top_p;    /* 1: off */
    float min_p;    /* 0: off */
} lh_truncation;

bool lh_truncation_is_on(const lh_truncation *cut, uint32_t count);

/* Scratch of lh_candidates_left. */
size_t lh_candidates_bytes(uint32_t count);

/* Writes what is left to tokens[count], in no particular order; returns how many, at least one.
 * count is at most LH_CANDIDATES_MAX; probabilities[count] in [0, 1], one of them 1; what has 0 is
 * never left. */
uint32_t lh_candidates_left(const float *probabilities, uint32_t count, const lh_truncation *cut,
                            uint32_t *tokens, void *scratch);
