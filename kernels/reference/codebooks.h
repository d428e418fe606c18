/* The codebooks of GGML's IQ types: what a code stands for, 4 magnitudes of 3 bits or 8 of 2, the
 * first in the lowest bits. */
#pragma once

#include <stdint.h>

extern const uint16_t lh_codebook_iq3_xxs[256];
extern const uint16_t lh_codebook_iq3_s[512];
extern const uint16_t lh_codebook_iq2_xxs[256];
extern const uint16_t lh_codebook_iq2_xs[512];
extern const uint16_t lh_codebook_iq2_s[1024];
extern const uint16_t lh_codebook_iq1[2048];
