/* Arithmetic on plain arrays: the contract that every instruction set keeps.
 *
 * CONVENTIONS
 * - Arrays are row-major; a shape is written [rows][width]; strides are in elements. No function
 *   allocates, keeps state, locks or starts a thread: scratch is an argument, and the caller
 *   divides the output over its own threads by giving each a different output span. Any thread may
 *   call; two calls may run together if what they write does not overlap.
 * - The scalar reference (kernels/reference/) is the definition. Every other instruction set
 *   returns the same bits for the same input. So each output element is spelled out as a sequence
 *   of IEEE operations:
 *     fma(a, b, c)   one rounding
 *     chain          acc = 0; for k ascending: acc = fma(w[k], x[k], acc)
 *     lanes          16 partial sums, element i goes to lane i % 16 in ascending order; they are
 *                    added by the tree
 *                    s[j] += s[j + 8]; s[j] += s[j + 4]; s[j] += s[j + 2]; s[0] + s[1]
 * - Spans: a matrix product accumulates the input columns [in.begin, in.end) into the output
 *   columns [out.begin, out.end). Products over consecutive input spans, in ascending order, give
 *   the bits of the one product over all of them: a chain is only continued. This is what lets a
 *   stage start on the columns that have come, and send those that are ready.
 * - Span bounds are multiples of LH_SPAN_COLUMNS, except the end of a width itself.
 * - Alignment: every pointer to float or packed data is 64-byte aligned at the start of an array
 *   unless said otherwise; rows need not be.
 * - Rounding is to nearest even and subnormals count (the C start-up state of the FPU: nobody may
 *   set it otherwise in a compute thread). Values are meant to be finite. One that is not, is not
 *   lost: it makes NaN or infinity of what depends on it, in every instruction set; which NaN is
 *   not promised.
 * - Arguments are checked by assertions only: callers give what the contract asks for. */
#pragma once

#include "common/base/dtype.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bounds of input and output spans are multiples of this (the quantization block, two output
 * tiles). */
#define LH_SPAN_COLUMNS 32u
/* Of swiglu_mul. */
#define LH_SWIGLU_ALPHA 1.702f
#define LH_SWIGLU_LIMIT 7.0f
/* A window of attention that no sequence outgrows. */
#define LH_ATTENTION_ALL UINT32_MAX
/* Keys that attention takes together: block b is positions [256b, 256b + 256), whatever the query
 * and its window. Four pages: few enough that one query far on gives work to several threads, and
 * enough that joining blocks costs nothing beside them. */
#define LH_ATTENTION_BLOCK 256u
/* Outputs that are interleaved in packed weights; keys that are interleaved in a page of the KV
 * cache. */
#define LH_LANES 16u

/* The best stride, in floats, of rows that a product writes: whole cache lines, an odd number of
 * them. Rows a power of two apart would share a few sets of the caches, and a product, which visits
 * 16 columns of all rows at a time, would lose them: 2048 outputs took 8 % longer (Zen 4). */
static inline size_t lh_row_stride(size_t width) {
    return (width + LH_LANES - 1) / LH_LANES * LH_LANES | LH_LANES;
}

typedef struct lh_span {
    uint32_t begin, end; /* half open */
} lh_span;

/* ---- Weights ---- */

/* A matrix W[outputs][inputs], repacked so that SIMD lanes run over outputs. `data` is the caller's
 * memory. */
typedef struct lh_matrix {
    lh_dtype dtype;
    uint32_t outputs, inputs;
    void *data; /* lh_matrix_bytes(...) bytes, 64-byte aligned */
} lh_matrix;

/* Bytes of the packed form, outputs padded to whole tiles of 16: GGUF's own bytes but for the
 * padding, and up to 4 in a hundred more for the K types and IQ4_XS, whose 6-bit scales lie in
 * bytes; TQ1_0 as TQ2_0; with codebooks 4.3 bits a weight (IQ3) or 3.3 to 3.6.
 * 0 on overflow, for a type that we do not hold, or where `inputs` is not whole blocks of the type
 * (32, or 256). The layout is the same for every instruction set (kernels/layout.h draws it). */
size_t lh_matrix_bytes(lh_dtype dtype, uint32_t outputs, uint32_t inputs);

/* Packs output rows [rows.begin, rows.end) from `source`, which holds these rows in GGML's layout,
 * one after the other; any alignment. rows.begin must be a multiple of 16. Threads may pack
 * disjoint row spans. */
void lh_matrix_pack(const lh_matrix *matrix, const void *source, lh_span rows);

/* Dequantizes output row `row` of a packed matrix (an embedding look-up): y[inputs], each element
 * as GGML defines it, floats widened exactly. With the words of `matmul` below: d * scale * q,
 * which is exact, or where the type has a minimum fma(d * scale, q, m * minimum), rounded once. */
void lh_matrix_row(const lh_matrix *matrix, uint32_t row, float *y);

/* ---- Activations as a product takes them ---- */

/* What a product reads: floats as they are, or int8 in blocks of 32, once or twice. */
typedef enum lh_activation_kind {
    LH_ACTIVATION_F32, /* for F32, F16, BF16 weights */
    LH_ACTIVATION_Q8,  /* for quantized weights */
    /* for quantized weights: a block of Q8, then a block of what that one leaves */
    LH_ACTIVATION_Q16
} lh_activation_kind;

/* For a matrix of this type; `quantized`: Q8 or Q16, which of them where it is quantized. */
lh_activation_kind lh_activation_kind_for(lh_dtype dtype, lh_activation_kind quantized);
/* "q8", "q16"; false: another name, and *quantized is as it was. */
bool lh_activation_kind_parse(const char *name, lh_activation_kind *quantized);

/* rows x width activations in packed form; `data` is the caller's memory. */
typedef struct lh_activations {
    lh_activation_kind kind;
    uint32_t rows, width;
    /* lh_activations_bytes(...) bytes, 64-byte aligned; a product reads them from any row on */
    void *data;
} lh_activations;

/* 0 on overflow, or where `width` is not whole blocks of 32 for Q8 and Q16. Rows lie one after the
 * other: those from row r on begin lh_activations_bytes(kind, r, width) bytes in, aligned where r
 * is a multiple of 16, so that threads may pack rows of one buffer side by side. */
size_t lh_activations_bytes(lh_activation_kind kind, uint32_t rows, uint32_t width);

/* The columns `columns` of packed activations as bytes for another machine, and from there into
 * activations of the same kind, rows and width, bit for bit: floats as they are; of 32 values of
 * Q8 36 bytes, of Q16 72, the scales and the int8. `columns` is a span (see above) and not empty.
 * What was not encoded here is decoded, too, to some blocks. */
size_t lh_activations_encoded_bytes(lh_activation_kind kind, uint32_t rows, lh_span columns);
void lh_activations_encode(void *bytes, const lh_activations *x, lh_span columns);
void lh_activations_decode(const lh_activations *x, lh_span columns, const void *bytes);

struct lh_kv_view;

/* ---- Draws ---- */

/* What the token at `position` is drawn with. */
typedef struct lh_draw {
    float max;         /* the greatest of the logits, finite */
    float temperature; /* > 0 */
    uint64_t seed, position;
} lh_draw;

/* ---- One instruction set ---- */

typedef struct lh_kernels {
    const char *name; /* "reference", "avx2", "avx512", "neon", "dotprod" */

    /* Packs the columns `columns` of x[rows][width] (row stride `stride`) into `packed`, each
     * multiplied by gain[column] where gain is not NULL (v = x * gain, rounded once).
     * Q8, per row and block of 32: amax = max |v|; d = amax / 127; q = v * (127 / amax) rounded to
     * nearest even (all 0 where 127 / amax is not positive and finite: amax is 0, below 3.8e-37, or
     * not finite; d then carries what is not finite into the product); the block keeps q, d and
     * exact sums of q.
     * Q16: that block, and a second one made in the same way of v' = fma(-d, q, v). Its error is
     * below amax / 64516.
     * Where squares is not NULL, squares[rows][16] are the lanes of the sum of squares of x
     * (without gain): lane[c % 16] = fma(x, x, lane) in ascending column order; the caller zeroes
     * them before the first span. */
    void (*pack_activations)(const lh_activations *packed, lh_span columns, const float *x,
                             size_t stride, const float *gain, float *squares);

    /* scale[rows] = 1 / sqrt(sum / width + epsilon), sum by the tree over squares[rows][16]
     * (RMSNorm, arXiv:1910.07467, deferred: see matmul and scale_rows). */
    void (*rms_scale)(float *scale, const float *squares, uint32_t rows, uint32_t width,
                      float epsilon);

    /* y[rows][out] = x[rows][in] W[out][in]^T over the spans, or where it `continues` += (another
     * span, or a residual); else y may hold anything and its sums start from zero. y has row stride
     * `y_stride` and its column 0 is output 0 of W. `in` is not empty, `out` may be any sub-span in
     * whole tiles of 16.
     *
     * Float weights: the chain over `in`. Quantized ones: for each block of 32 inputs in ascending
     * order, of which halves 0 and 1 are 16 each,
     *     i = scale[0] * dot(q, x; half 0) + scale[1] * dot(q, x; half 1)   below 2^24, so exact
     *   without a minimum (Q4_0, Q5_0, Q8_0, MXFP4, Q3_K, Q6_K, the IQ and the TQ types)
     *     y = fma((float)i, d * dx, y)                                      d * dx rounded once
     *   with one (Q4_1, Q5_1, Q2_K, Q4_K, Q5_K)
     *     j = minimum[0] * sum(x; half 0) + minimum[1] * sum(x; half 1)     likewise exact
     *     t = fma((float)i, d, (float)j * m)                                product rounded once
     *     y = fma(t, dx, y)
     * and with Q16 the same for the second block of the activations before the next inputs. dx is
     * the activations' scale; the weights have (d, m and dmin are those of the file, widened)
     *            q                             d         scale[h]       m               minimum[h]
     *   Q4_0     4 bits - 8                    d         1
     *   Q5_0     5 bits - 16                   d         1
     *   Q8_0     int8                          d         1
     *   IQ4_NL   from GGML's table of 16 int8  d         1
     *   IQ4_XS   from the same table           d * sc    1
     *   IQ3_XXS  +- from a codebook            d/4 * sc  1
     *   IQ3_S    +- from a codebook            d * sc    1
     *   IQ2_XXS  +- 8, 25 or 43 by a codebook  d/8 * sc  1
     *   IQ2_XS, IQ2_S  likewise                d/8       sc
     *   IQ1_S    8 (-1, 0 or 1) +- 1           d/8 * sc  1
     *   IQ1_M    likewise                      d/8       sc
     *   TQ1_0    0, 1 or 2, less 1             d         1
     *   TQ2_0    2 bits - 1                    d         1
     *   MXFP4    from a table of 2 * E2M1      2^(e-128) 1
     *   Q4_1     4 bits                        d         1              m               1
     *   Q5_1     5 bits                        d         1              m               1
     *   Q4_K     4 bits                        d * sc    1              -(dmin * min)   1
     *   Q5_K     5 bits                        d * sc    1              -(dmin * min)   1
     *   Q2_K     2 bits                        d         4 bits         -dmin           4 bits
     *   Q3_K     3 bits - 4                    d         6 bits - 32
     *   Q6_K     6 bits - 32                   d         int8
     * with sc and min, the 6-bit scale (IQ4_XS: less 32; IQ3, IQ2, IQ1: 3 or 4 bits, twice and plus
     * 1) and minimum of the block; d * sc and
     * dmin * min are exact in floats. */
    void (*matmul)(float *y, size_t y_stride, const lh_activations *x, const lh_matrix *w,
                   lh_span in, lh_span out, bool continues);

    /* y[row][c] = y[row][c] * scale[row] for c in columns. */
    void (*scale_rows)(float *y, size_t stride, uint32_t rows, lh_span columns, const float *scale);

    /* y[row][c] = fma(y[row][c], scale[row], bias[c]) for c in columns: scale_rows where outputs
     * have a bias. */
    void (*scale_add_rows)(float *y, size_t stride, uint32_t rows, lh_span columns,
                           const float *scale, const float *bias);

    /* y[row][c] = fma(scale[row], bias[c], y[row][c]) for c in columns; scale NULL: 1. */
    void (*add_rows)(float *y, size_t stride, uint32_t rows, lh_span columns, const float *scale,
                     const float *bias);

    /* RMSNorm of each head alone, x[rows][heads][head_dim] in place, gain[head_dim]:
     *   s = 1 / sqrt(sum / head_dim + epsilon);  x[d] = (x[d] * s) * gain[d]
     * where sum is the lanes-and-tree sum of squares of the head (lane d % 16). */
    void (*norm_heads)(float *x, size_t stride, uint32_t rows, uint32_t heads, uint32_t head_dim,
                       const float *gain, float epsilon);

    /* y += RMSNorm(x), both [rows][width] (a norm behind a branch, before the residual): s as above
     * over the whole row, y[row][c] = fma(x[row][c] * gain[c], s, y[row][c]). */
    void (*norm_add)(float *y, const float *x, size_t stride, uint32_t rows, uint32_t width,
                     const float *gain, float epsilon);

    /* y[row][c] = silu(gate[row][c]) * up[row][c]; silu(v) = v / (1 + exp(-v)) with our exp
     * (SwiGLU, arXiv:2002.05202), a zero below -88.73 where exp overflows. y may be gate. */
    void (*silu_mul)(float *y, const float *gate, const float *up, size_t stride, uint32_t rows,
                     lh_span columns);

    /* y[row][c] = gelu(gate[row][c]) * up[row][c], with the tanh form of GELU (arXiv:1606.08415),
     *   gelu(v) = v / 2 * (1 + tanh(sqrt(2 / pi) (v + 0.044715 v^3)))
     *           = v / (1 + exp(-2 sqrt(2 / pi) (v + 0.044715 v^3)))
     * computed, with our exp, as
     *   e = exp(v * fma(v * v, LH_GELU_CUBIC, LH_GELU_LINEAR));  y = (v / (1 + e)) * up
     * a zero where exp overflows (below -10.05). Error of gelu, over all floats: below 2 ulp from 0
     * on, 5e-8 below, which is 32 ulp down to -5. y may be gate. */
    void (*gelu_mul)(float *y, const float *gate, const float *up, size_t stride, uint32_t rows,
                     lh_span columns);

    /* The gate of gpt-oss, SwiGLU between bounds: with g = min(gate[row][c], LH_SWIGLU_LIMIT) and
     * u = max(-LH_SWIGLU_LIMIT, min(up[row][c], LH_SWIGLU_LIMIT)),
     *   y[row][c] = (g / (1 + exp(g * -LH_SWIGLU_ALPHA))) * (u + 1)
     * y may be gate. */
    void (*swiglu_mul)(float *y, const float *gate, const float *up, size_t stride, uint32_t rows,
                       lh_span columns);

    /* Rotates pairs of x[rows][heads][head_dim] (row stride `stride`) in place by
     * cosine[rows][rotated / 2], sine[rows][rotated / 2]: (a, b) -> (a * c - b * s, a * s + b * c),
     * computed as a' = fma(a, c, -(b * s)), b' = fma(a, s, b * c). Pairs are (2i, 2i + 1) when
     * interleaved (GGUF `llama`) and (i, i + rotated / 2) otherwise. Dimensions from `rotated` on
     * stay (RoPE, arXiv:2104.09864). */
    void (*rope)(float *x, size_t stride, uint32_t rows, uint32_t heads, uint32_t head_dim,
                 uint32_t rotated, bool interleaved, const float *cosine, const float *sine);

    /* cosine, sine[half] of position * frequency[i], times magnitude, rounded once; frequency as
     * lh_rope_frequencies made them; double inside, our own reduction and polynomials. Error below
     * 1e-7 for positions to 2^20 and magnitude 1: that of the rounding to float. */
    void (*rope_angles)(float *cosine, float *sine, const double *frequency, uint32_t half,
                        uint32_t position, double magnitude);

    /* Writes keys[rows][kv_heads][key_dim] and values[rows][kv_heads][value_dim] (row strides
     * given) of one sequence's consecutive positions [first, first + rows) into its pages, in the
     * numbers of their type. */
    void (*kv_store)(const struct lh_kv_view *view, uint32_t first, uint32_t rows,
                     const float *keys, size_t key_stride, const float *values,
                     size_t value_stride);

    /* Causal attention of rows at positions [first, first + rows) of ONE sequence for KV head
     * `kv_head` and `group` query heads that share it: y[rows][group][value_dim] of
     * q[rows][group][key_dim] (row strides given), reading keys and values at the last `window`
     * positions up to and with the own one (window > 0; LH_ATTENTION_ALL: from 0 on). k and v are
     * what the pages hold, as floats (lh_kv_type).
     * Each block of LH_ATTENTION_BLOCK positions that has some of these gives, over its positions t
     * that are seen,
     *   s[t] = scale * chain over d of q[d] * k[t][d]
     *   m = max s;  p[t] = exp(s[t] - m);  z = lanes-and-tree sum of p over t (lane t % 16)
     *   o[d] = chain over t ascending of p[t] * v[t][d]
     * The first block's are M, Z and O. Each later one's, in ascending order, are joined to them:
     *   N = max(M, m);  a = exp(M - N);  c = exp(m - N);  M = N
     *   Z = fma(Z, a, z * c);  O[d] = fma(O[d], a, o[d] * c)
     * and then y[d] = O[d] * (1 / Z). (A maximum that is zero is +0.)
     * Where sinks[group] is not NULL, each head has a sink, a score without a value
     * (arXiv:2309.17453, as gpt-oss learns it), which is joined last, as m with z = 1:
     *   N, a and c as above;  Z = fma(Z, a, c);  O[d] = O[d] * a
     * What the pages hold at other positions may be read but does not count; pages wholly before
     * the first row's window are not read. y may be q where the two widths are one. scratch:
     * lh_attention_scratch_bytes, 64-byte aligned, one per calling thread. */
    void (*attention)(float *y, size_t y_stride, const float *q, size_t q_stride,
                      const struct lh_kv_view *view, uint32_t kv_head, uint32_t group,
                      uint32_t first, uint32_t rows, uint32_t window, float scale,
                      const float *sinks, void *scratch);

    /* The two halves of `attention` for one row, so that several threads can share it: what the
     * blocks `blocks` give the query at `position`, q[group][key_dim], which sees some of each
     * (lh_attention_blocks); and y[heads][value_dim] of all `count` blocks that it sees. Of a block
     * and a head, partials[blocks][heads][lh_attention_partial_floats(value_dim)] holds o, m and z
     * (64-byte aligned; blocks are `stride` floats apart); attention_combine leaves other numbers
     * there. */
    void (*attention_blocks)(float *partials, size_t stride, const float *q,
                             const struct lh_kv_view *view, uint32_t kv_head, uint32_t group,
                             uint32_t position, uint32_t window, float scale, lh_span blocks,
                             void *scratch);
    void (*attention_combine)(float *y, float *partials, size_t stride, uint32_t count,
                              uint32_t heads, uint32_t value_dim, const float *sinks);

    /* Causal attention over latent rows (DeepSeek-V2, arXiv:2405.04434, absorbed) of rows at
     * positions [first, first + rows) of ONE sequence: a position has one row k[t] in the pages of
     * values, which is the key of all heads, and whose first `rank` numbers are their value, too.
     * q[rows][heads][width], y[rows][heads][rank] (row strides given); for each head what
     * `attention` computes over positions from 0 on. y is not q. scratch: lh_latent_scratch_bytes,
     * 64-byte aligned, one per calling thread. */
    void (*latent_attention)(float *y, size_t y_stride, const float *q, size_t q_stride,
                             const struct lh_kv_view *view, uint32_t rank, uint32_t heads,
                             uint32_t first, uint32_t rows, float scale, void *scratch);

    /* Its first half for one row, as attention_blocks: partials[blocks][heads][...(rank)] of
     * q[heads][width]. The second one is attention_combine. */
    void (*latent_attention_blocks)(float *partials, size_t stride, const float *q,
                                    const struct lh_kv_view *view, uint32_t rank, uint32_t heads,
                                    uint32_t position, float scale, lh_span blocks, void *scratch);

    /* y[i] = exp(x[i] - shift) with our exp; returns the lanes-and-tree sum of y (softmax,
     * sampling). y may be x. */
    float (*exp_sum)(float *y, const float *x, float shift, size_t count);
    /* The greatest of x[count] (count > 0; no NaN); a zero is returned as +0. */
    float (*max)(const float *x, size_t count);
    /* A draw of a token t < count by softmax(x / temperature): the one with the greatest
     *   (x[t] - max) / temperature + g(t)
     * and of equals the lowest, where g is Gumbel's noise, a function of seed, position and token
     * that kernels/noise.h spells out ("Gumbel-max", arXiv:1411.0030). x[count] has no NaN and no
     * +inf; what is -inf is never drawn. Whoever knows the seed knows the noise: draws from logits
     * that are nearly the same are nearly always the same token. */
    uint32_t (*draw)(const float *x, uint32_t count, const lh_draw *draw);
    /* The same among tokens[count] (count > 0) alone, distinct indices of x in any order; max is
     * still that of all of x. */
    uint32_t (*draw_among)(const float *x, const uint32_t *tokens, uint32_t count,
                           const lh_draw *draw);
    /* y[t] = exp((x[t] - max) / temperature) with our exp: what draws are in proportion to. */
    void (*draw_weights)(float *y, const float *x, uint32_t count, const lh_draw *draw);
    /* IEEE binary16 <-> binary32, round to nearest even, overflow to infinity; a NaN stays one
     * (made quiet, the upper bits of its payload kept). Any alignment. */
    void (*f32_from_f16)(float *y, const uint16_t *x, size_t count);
    void (*f16_from_f32)(uint16_t *y, const float *x, size_t count);
} lh_kernels;

/* ---- KV pages ---- */

/* Positions held by one page. */
#define LH_KV_PAGE_POSITIONS 64u

/* The numbers that a page holds. A row (a key or a value of one head at one position) is rounded
 * when it is stored, each on its own, so that what a page holds depends on nothing beside it.
 *   F32  as they are
 *   F16  binary16, rounded to nearest even; read exactly. Beyond 65504 it is infinite, and so is
 *        what attention makes of it
 *   Q8   int8 in blocks of 32 of the row (the last one may be shorter) as Q8 activations: d = amax
 *        / 127, q = v * (127 / amax) rounded to nearest even; read as q * d, rounded once */
typedef enum lh_kv_type { LH_KV_F32, LH_KV_F16, LH_KV_Q8 } lh_kv_type;

/* "f32", "f16", "q8"; false: another name, and *type is as it was. */
bool lh_kv_type_parse(const char *name, lh_kv_type *type);

/* What a model's layer keeps of a position: for each KV head a key and a value; or, where attention
 * is latent, a value alone, with key_dim 0. */
typedef struct lh_kv_shape {
    lh_kv_type type;
    uint32_t kv_heads, key_dim, value_dim;
} lh_kv_shape;

/* One layer of one sequence's KV cache: page p holds positions [64p, 64p + 64). In F32 and F16
 *   keys:   [kv_heads][64 / 16][key_dim][16]  (16 keys interleaved, so that lanes run over keys)
 *   values: [kv_heads][64][value_dim]
 * and in Q8, where a row has b = ceil(dim / 32) blocks,
 *   keys:   [kv_heads][64 / 16] of int8 [key_dim][16], then their d, float [b][16]
 *   values: [kv_heads] of int8 [64][value_dim], then their d, float [64][b] */
typedef struct lh_kv_view {
    void *const *key_pages;   /* [pages], 64-byte aligned */
    void *const *value_pages; /* [pages], 64-byte aligned */
    lh_kv_shape shape;
} lh_kv_view;

/* Bytes of a row of `dim` numbers. */
static inline size_t lh_kv_row_bytes(lh_kv_type type, uint32_t dim) {
    if (type == LH_KV_Q8)
        return dim + ((size_t)dim + 31) / 32 * sizeof(float);
    return (size_t)dim * (type == LH_KV_F16 ? sizeof(uint16_t) : sizeof(float));
}

/* Bytes of one page for the keys of a layer (dim: key_dim), or for its values (value_dim). Does not
 * overflow where kv_heads and dim are below 2^24. */
static inline size_t lh_kv_page_bytes(const lh_kv_shape *shape, uint32_t dim) {
    return shape->kv_heads * LH_KV_PAGE_POSITIONS * lh_kv_row_bytes(shape->type, dim);
}

/* ---- Blocks of attention ---- */

/* Blocks of which a query at `position` sees something. */
static inline lh_span lh_attention_blocks(uint32_t position, uint32_t window) {
    return (lh_span){position < window ? 0 : (position - window + 1) / LH_ATTENTION_BLOCK,
                     position / LH_ATTENTION_BLOCK + 1};
}

/* Of what a block gives one head: o, in whole vectors, and then m and z in one more. */
static inline size_t lh_attention_partial_floats(uint32_t value_dim) {
    return ((size_t)value_dim + 2 * LH_LANES - 1) / LH_LANES * LH_LANES;
}

/* Scratch of `attention` and attention_blocks: it grows neither with rows nor with positions. */
size_t lh_attention_scratch_bytes(uint32_t value_dim);

/* Scratch of `latent_attention` and latent_attention_blocks for rows of `width` numbers, of which
 * `rank` are values. 0 on overflow. */
size_t lh_latent_scratch_bytes(uint32_t width, uint32_t rank);

/* ---- Frequencies and logarithms: at start-up, the same code on every machine ---- */

/* frequency[i] = base^(-2i / rotated), i in [0, rotated / 2); relative error below 1e-15. */
void lh_rope_frequencies(double *frequency, uint32_t rotated, double base);
/* Natural logarithm of a positive normal x; relative error below 1e-15. */
double lh_log_f64(double x);
/* Natural logarithm of a finite x > 0 as float, and exp as the kernels compute it, scalar. Error
 * below 1 ulp; exp is 0 below -104, infinity above 88.73 and subnormal between as IEEE has it. */
float lh_log_f32(float x);
float lh_exp_f32(float x);

/* ---- Choice ---- */

/* The kernels named `isa`, or the best that this machine runs when `isa` is NULL, "" or "auto".
 * LH_ERR_UNSUPPORTED: the machine lacks it (the message says what it has); LH_ERR_INVALID: no such
 * name. */
lh_status lh_kernels_select(const char *isa, const lh_kernels **kernels, lh_error *error);

/* The i-th instruction set that this machine runs, worst first ("reference"); NULL after
 * the last. */
const lh_kernels *lh_kernels_at(size_t index);
