/* The tables that select.c chooses from, one per instruction set; those of a processor family exist
 * in its builds only. */
#pragma once

#include "kernels/kernels.h"

extern const lh_kernels lh_kernels_reference;
extern const lh_kernels lh_kernels_avx2;   /* AVX2, FMA, F16C */
extern const lh_kernels lh_kernels_avx512; /* AVX-512 F, BW, VL, DQ and VNNI */
extern const lh_kernels lh_kernels_neon;   /* any aarch64 */
/* NEON with the dot product instructions (FEAT_DotProd) */
extern const lh_kernels lh_kernels_dotprod;

/* The matrix product of each set, the one kernel that is written for its registers (matmul.c). */
typedef void lh_matmul(float *y, size_t y_stride, const lh_activations *x, const lh_matrix *w,
                       lh_span in, lh_span out, bool continues);
lh_matmul lh_avx2_matmul, lh_avx512_matmul, lh_neon_matmul, lh_dotprod_matmul;
