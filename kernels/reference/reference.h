/* The scalar kernels: what each one computes is written in kernels.h; these are that text as C. Any
 * CPU runs them. The other instruction sets take from here what is not worth a faster version. */
#pragma once

#include "kernels/kernels.h"

/* One binary16 <-> binary32. A NaN stays one: made quiet, its payload cut or widened with zeros. */
float lh_reference_widen_f16(uint16_t half);
uint16_t lh_reference_round_f16(float value);
/* Weights of output `output` at `inputs`, widened; float types. */
void lh_reference_weights(float *weights, const lh_matrix *w, uint32_t output, lh_span inputs);
/* Block `index` of output `output`; quantized types, with the words of kernels.h's `matmul`. */
typedef struct lh_reference_block {
    float d, m;
    int32_t scale[2], minimum[2]; /* minimum: 0 for types without */
    int32_t q[32];
} lh_reference_block;
void lh_reference_quants(lh_reference_block *block, const lh_matrix *w, uint32_t output,
                         uint32_t index);
/* The tree of kernels.h over 16 lanes. */
float lh_reference_lane_sum(const float lanes[LH_LANES]);

/* One block of Q8, as pack_activations makes it. */
struct lh_q8_block;
void lh_reference_quantize(struct lh_q8_block *block, const float v[32]);

void lh_reference_pack_activations(const lh_activations *packed, lh_span columns, const float *x,
                                   size_t stride, const float *gain, float *squares);
void lh_reference_rms_scale(float *scale, const float *squares, uint32_t rows, uint32_t width,
                            float epsilon);
void lh_reference_matmul(float *y, size_t y_stride, const lh_activations *x, const lh_matrix *w,
                         lh_span in, lh_span out, bool continues);
void lh_reference_scale_rows(float *y, size_t stride, uint32_t rows, lh_span columns,
                             const float *scale);
void lh_reference_scale_add_rows(float *y, size_t stride, uint32_t rows, lh_span columns,
                                 const float *scale, const float *bias);
void lh_reference_add_rows(float *y, size_t stride, uint32_t rows, lh_span columns,
                           const float *scale, const float *bias);
void lh_reference_norm_heads(float *x, size_t stride, uint32_t rows, uint32_t heads,
                             uint32_t head_dim, const float *gain, float epsilon);
void lh_reference_norm_add(float *y, const float *x, size_t stride, uint32_t rows, uint32_t width,
                           const float *gain, float epsilon);
void lh_reference_gelu_mul(float *y, const float *gate, const float *up, size_t stride,
                           uint32_t rows, lh_span columns);
void lh_reference_silu_mul(float *y, const float *gate, const float *up, size_t stride,
                           uint32_t rows, lh_span columns);
void lh_reference_swiglu_mul(float *y, const float *gate, const float *up, size_t stride,
                             uint32_t rows, lh_span columns);
void lh_reference_rope(float *x, size_t stride, uint32_t rows, uint32_t heads, uint32_t head_dim,
                       uint32_t rotated, bool interleaved, const float *cosine, const float *sine);
void lh_reference_rope_angles(float *cosine, float *sine, const double *frequency, uint32_t half,
                              uint32_t position, double magnitude);
void lh_reference_kv_store(const lh_kv_view *view, uint32_t first, uint32_t rows, const float *keys,
                           size_t key_stride, const float *values, size_t value_stride);
void lh_reference_attention(float *y, size_t y_stride, const float *q, size_t q_stride,
                            const lh_kv_view *view, uint32_t kv_head, uint32_t group,
                            uint32_t first, uint32_t rows, uint32_t window, float scale,
                            const float *sinks, void *scratch);
void lh_reference_attention_blocks(float *partials, size_t stride, const float *q,
                                   const lh_kv_view *view, uint32_t kv_head, uint32_t group,
                                   uint32_t position, uint32_t window, float scale, lh_span blocks,
                                   void *scratch);
void lh_reference_attention_combine(float *y, float *partials, size_t stride, uint32_t count,
                                    uint32_t heads, uint32_t value_dim, const float *sinks);
/* What the positions `keys`, which are some of one block, give a query: of position t the score is
 * p[t % LH_ATTENTION_BLOCK], and `dims` numbers of the value count. */
void lh_reference_weigh(float *partial, float *p, const lh_kv_view *view, uint32_t kv_head,
                        lh_span keys, uint32_t dims);
/* Joins the partial result of a later block to the sum of those before it. */
void lh_reference_join(float *sum, const float *next, uint32_t dims);
/* y[dims] when all blocks are joined; sink: NULL for none. */
void lh_reference_finish(float *y, float *sum, uint32_t dims, const float *sink);
/* Number d of the key, or of the value, of KV head `kv_head` at position t, widened. */
float lh_reference_key_number(const lh_kv_view *view, uint32_t kv_head, uint32_t t, uint32_t d);
float lh_reference_value_number(const lh_kv_view *view, uint32_t kv_head, uint32_t t, uint32_t d);
void lh_reference_latent_attention(float *y, size_t y_stride, const float *q, size_t q_stride,
                                   const lh_kv_view *view, uint32_t rank, uint32_t heads,
                                   uint32_t first, uint32_t rows, float scale, void *scratch);
void lh_reference_latent_attention_blocks(float *partials, size_t stride, const float *q,
                                          const lh_kv_view *view, uint32_t rank, uint32_t heads,
                                          uint32_t position, float scale, lh_span blocks,
                                          void *scratch);
float lh_reference_exp_sum(float *y, const float *x, float shift, size_t count);
float lh_reference_max(const float *x, size_t count);
uint32_t lh_reference_draw(const float *x, uint32_t count, const lh_draw *draw);
uint32_t lh_reference_draw_among(const float *x, const uint32_t *tokens, uint32_t count,
                                 const lh_draw *draw);
void lh_reference_draw_weights(float *y, const float *x, uint32_t count, const lh_draw *draw);
void lh_reference_f32_from_f16(float *y, const uint16_t *x, size_t count);
void lh_reference_f16_from_f32(uint16_t *y, const float *x, size_t count);
