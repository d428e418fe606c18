/* The scalar reference as an instruction set. */
#include "kernels/instruction_sets.h"
#include "kernels/reference/reference.h"

const lh_kernels lh_kernels_reference = {
    .name = "reference",
    .pack_activations = lh_reference_pack_activations,
    .rms_scale = lh_reference_rms_scale,
    .matmul = lh_reference_matmul,
    .scale_rows = lh_reference_scale_rows,
    .scale_add_rows = lh_reference_scale_add_rows,
    .add_rows = lh_reference_add_rows,
    .norm_heads = lh_reference_norm_heads,
    .norm_add = lh_reference_norm_add,
    .silu_mul = lh_reference_silu_mul,
    .gelu_mul = lh_reference_gelu_mul,
    .swiglu_mul = lh_reference_swiglu_mul,
    .rope = lh_reference_rope,
    .rope_angles = lh_reference_rope_angles,
    .kv_store = lh_reference_kv_store,
    .attention = lh_reference_attention,
    .attention_blocks = lh_reference_attention_blocks,
    .attention_combine = lh_reference_attention_combine,
    .latent_attention = lh_reference_latent_attention,
    .latent_attention_blocks = lh_reference_latent_attention_blocks,
    .exp_sum = lh_reference_exp_sum,
    .max = lh_reference_max,
    .draw = lh_reference_draw,
    .draw_among = lh_reference_draw_among,
    .draw_weights = lh_reference_draw_weights,
    .f32_from_f16 = lh_reference_f32_from_f16,
    .f16_from_f32 = lh_reference_f16_from_f32,
};
