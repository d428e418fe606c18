/* The AVX2 kernels as an instruction set. */
#if defined(__x86_64__)
#include "kernels/avx2/f32x16.h"

#include "kernels/instruction_sets.h"
#include "kernels/lanes/functions.h"
#include "kernels/reference/reference.h"

const lh_kernels lh_kernels_avx2 = {
    .name = "avx2",
    .pack_activations = lh_avx2_pack_activations,
    .rms_scale = lh_reference_rms_scale,
    .matmul = lh_avx2_matmul,
    .scale_rows = lh_avx2_scale_rows,
    .scale_add_rows = lh_avx2_scale_add_rows,
    .norm_heads = lh_avx2_norm_heads,
    .norm_add = lh_avx2_norm_add,
    .silu_mul = lh_avx2_silu_mul,
    .gelu_mul = lh_avx2_gelu_mul,
    .rope = lh_avx2_rope,
    .rope_angles = lh_avx2_rope_angles,
    .kv_store = lh_reference_kv_store,
    .attention = lh_avx2_attention,
    .exp_sum = lh_avx2_exp_sum,
    .max = lh_avx2_max,
    .f32_from_f16 = lh_avx2_f32_from_f16,
    .f16_from_f32 = lh_avx2_f16_from_f32,
};
#endif
