/* Draws a token from probabilities that need not add up to 1: from all of them, or from the best
 * after top-k, top-p and min-p. Sequential double sums, so that every machine gives the same.
 * Thread: any, scratch is the caller's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_truncation {
    uint32_t top_k; /* 0: off */
    float top_p;    /* 1: off */
    float min_p;    /* 0: off */
} lh_truncation;

bool lh_truncation_is_on(const lh_truncation *cut, uint32_t count);

/* Scratch of lh_draw_from_best. */
size_t lh_candidates_bytes(uint32_t count);

/* probabilities[count] in [0, 1], one of them 1; uniform in [0, 1). */
uint32_t lh_draw_from_all(const float *probabilities, uint32_t count, double uniform);
uint32_t lh_draw_from_best(const float *probabilities, uint32_t count, const lh_truncation *cut,
                           double uniform, void *scratch);
