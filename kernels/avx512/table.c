/* The AVX-512 kernels as an instruction set. */
#if defined(__x86_64__)
#include "kernels/avx512/f32x16.h"

#include "kernels/instruction_sets.h"
#include "kernels/lanes/functions.h"
#include "kernels/reference/reference.h"

const lh_kernels lh_kernels_avx512 = {
    .name = "avx512",
    .pack_activations = lh_avx512_pack_activations,
    .rms_scale = lh_reference_rms_scale,
    .matmul = lh_avx512_matmul,
    .scale_rows = lh_avx512_scale_rows,
    .scale_add_rows = lh_avx512_scale_add_rows,
    .norm_heads = lh_avx512_norm_heads,
    .norm_add = lh_avx512_norm_add,
    .silu_mul = lh_avx512_silu_mul,
    .gelu_mul = lh_avx512_gelu_mul,
    .rope = lh_avx512_rope,
    .rope_angles = lh_avx512_rope_angles,
    .kv_store = lh_reference_kv_store,
    .attention = lh_avx512_attention,
    .exp_sum = lh_avx512_exp_sum,
    .max = lh_avx512_max,
    .f32_from_f16 = lh_avx512_f32_from_f16,
    .f16_from_f32 = lh_avx512_f16_from_f32,
};
#endif
