/* The tables that select.c chooses from, one per instruction set; the x86 ones exist in x86-64 builds only.
 */
#pragma once

#include "kernels/kernels.h"

extern const lh_kernels lh_kernels_reference;
extern const lh_kernels lh_kernels_avx2;   /* AVX2, FMA, F16C */
extern const lh_kernels lh_kernels_avx512; /* AVX-512 F, BW, VL, DQ and VNNI */
