/* All kernels on 16 lanes but the matrix product, as an instruction set. A set is two files:
 * kernels.c includes its f32x16.h, the reference, from which it takes what is not worth a faster
 * version, and then this file; matmul.c has the products, which are written for its registers. */
#pragma once

#include "kernels/instruction_sets.h"
#include "kernels/simd/activations.h"
#include "kernels/simd/attention.h"
#include "kernels/simd/convert.h"
#include "kernels/simd/draw.h"
#include "kernels/simd/elementwise.h"
#include "kernels/simd/latent.h"
#include "kernels/simd/norms.h"

#define SIMD_KERNELS(set_name, set_matmul)                                                         \
    {                                                                                              \
        .name = set_name,                                                                          \
        .pack_activations = kernel_pack_activations,                                               \
        .rms_scale = lh_reference_rms_scale,                                                       \
        .matmul = set_matmul,                                                                      \
        .scale_rows = kernel_scale_rows,                                                           \
        .scale_add_rows = kernel_scale_add_rows,                                                   \
        .norm_heads = kernel_norm_heads,                                                           \
        .norm_add = kernel_norm_add,                                                               \
        .swiglu_mul = kernel_swiglu_mul,                                                           \
        .add_rows = kernel_add_rows,                                                               \
        .silu_mul = kernel_silu_mul,                                                               \
        .gelu_mul = kernel_gelu_mul,                                                               \
        .rope = kernel_rope,                                                                       \
        .rope_angles = kernel_rope_angles,                                                         \
        .kv_store = kernel_kv_store,                                                               \
        .attention = kernel_attention,                                                             \
        .attention_blocks = kernel_attention_blocks,                                               \
        .attention_combine = kernel_attention_combine,                                             \
        .latent_attention = kernel_latent_attention,                                               \
        .latent_attention_blocks = kernel_latent_attention_blocks,                                 \
        .exp_sum = kernel_exp_sum,                                                                 \
        .max = kernel_max,                                                                         \
        .draw = kernel_draw,                                                                       \
        .draw_among = kernel_draw_among,                                                           \
        .draw_weights = kernel_draw_weights,                                                       \
        .f32_from_f16 = kernel_f32_from_f16,                                                       \
        .f16_from_f32 = kernel_f16_from_f32,                                                       \
    }
