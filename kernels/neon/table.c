/* The NEON kernels as two instruction sets, which differ in the matrix product. */
#if defined(__aarch64__)
#include "kernels/neon/f32x16.h"

#include "kernels/instruction_sets.h"
#include "kernels/lanes/functions.h"
#include "kernels/reference/reference.h"

void lh_dotprod_matmul(float *y, size_t y_stride, const lh_activations *x, const lh_matrix *w, lh_span in,
                       lh_span out, bool continues);

#define NEON_KERNELS(set_name, set_matmul)                                                                   \
    {                                                                                                        \
        .name = set_name, .pack_activations = lh_neon_pack_activations, .rms_scale = lh_reference_rms_scale, \
        .matmul = set_matmul, .scale_rows = lh_neon_scale_rows, .scale_add_rows = lh_neon_scale_add_rows,    \
        .norm_heads = lh_neon_norm_heads, .norm_add = lh_neon_norm_add, .silu_mul = lh_neon_silu_mul,        \
        .gelu_mul = lh_neon_gelu_mul, .rope = lh_neon_rope, .rope_angles = lh_neon_rope_angles,              \
        .kv_store = lh_reference_kv_store, .attention = lh_neon_attention, .exp_sum = lh_neon_exp_sum,       \
        .max = lh_neon_max, .f32_from_f16 = lh_neon_f32_from_f16, .f16_from_f32 = lh_neon_f16_from_f32,      \
    }

const lh_kernels lh_kernels_neon = NEON_KERNELS("neon", lh_neon_matmul);
const lh_kernels lh_kernels_dotprod = NEON_KERNELS("dotprod", lh_dotprod_matmul);
#endif
