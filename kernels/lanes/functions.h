/* What each instruction set with an f32x16.h defines; that header is included before this one and gives the
 * names (LANES_FUNCTION). The contracts are kernels.h's. */
#pragma once

#include "kernels/kernels.h"

void LANES_FUNCTION(scale_rows)(float *y, size_t stride, uint32_t rows, lh_span columns, const float *scale);
void LANES_FUNCTION(scale_add_rows)(float *y, size_t stride, uint32_t rows, lh_span columns,
                                    const float *scale, const float *bias);
void LANES_FUNCTION(norm_heads)(float *x, size_t stride, uint32_t rows, uint32_t heads, uint32_t head_dim,
                                const float *gain, float epsilon);
void LANES_FUNCTION(norm_add)(float *y, const float *x, size_t stride, uint32_t rows, uint32_t width,
                              const float *gain, float epsilon);
void LANES_FUNCTION(gelu_mul)(float *y, const float *gate, const float *up, size_t stride, uint32_t rows,
                              lh_span columns);
void LANES_FUNCTION(silu_mul)(float *y, const float *gate, const float *up, size_t stride, uint32_t rows,
                              lh_span columns);
void LANES_FUNCTION(rope)(float *x, size_t stride, uint32_t rows, uint32_t heads, uint32_t head_dim,
                          uint32_t rotated, bool interleaved, const float *cosine, const float *sine);
void LANES_FUNCTION(rope_angles)(float *cosine, float *sine, const double *frequency, uint32_t half,
                                 uint32_t position, double magnitude);
float LANES_FUNCTION(exp_sum)(float *y, const float *x, float shift, size_t count);
float LANES_FUNCTION(max)(const float *x, size_t count);
void LANES_FUNCTION(pack_activations)(const lh_activations *packed, lh_span columns, const float *x,
                                      size_t stride, const float *gain, float *squares);
void LANES_FUNCTION(f32_from_f16)(float *y, const uint16_t *x, size_t count);
void LANES_FUNCTION(f16_from_f32)(uint16_t *y, const float *x, size_t count);
void LANES_FUNCTION(attention)(float *y, size_t y_stride, const float *q, size_t q_stride,
                               const lh_kv_view *view, uint32_t kv_head, uint32_t group, uint32_t first,
                               uint32_t rows, uint32_t window, float scale, void *scratch);
void LANES_FUNCTION(matmul)(float *y, size_t y_stride, const lh_activations *x, const lh_matrix *w,
                            lh_span in, lh_span out, bool continues);
