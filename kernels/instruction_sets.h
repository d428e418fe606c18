/* The tables that select.c chooses from, one per instruction set; those of a processor family exist in its builds only.
 */
#pragma once

#include "kernels/kernels.h"

extern const lh_kernels lh_kernels_reference;
extern const lh_kernels lh_kernels_avx2;    /* AVX2, FMA, F16C */
extern const lh_kernels lh_kernels_avx512;  /* AVX-512 F, BW, VL, DQ and VNNI */
extern const lh_kernels lh_kernels_neon;    /* any aarch64 */
extern const lh_kernels lh_kernels_dotprod; /* NEON with the dot product instructions (FEAT_DotProd) */
