/* Element types of tensors, with the numbers and block layouts of GGML (ggml.h, `enum ggml_type`).
 *
 * A type stores `block_elements` consecutive elements of a row in `block_bytes` bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* name, GGML number, text, elements in a block, bytes of a block */
#define LH_DTYPE_TABLE(X)                                                                          \
    X(LH_DTYPE_F32, 0, "F32", 1, 4)                                                                \
    X(LH_DTYPE_F16, 1, "F16", 1, 2)                                                                \
    X(LH_DTYPE_Q4_0, 2, "Q4_0", 32, 18)                                                            \
    X(LH_DTYPE_Q4_1, 3, "Q4_1", 32, 20)                                                            \
    X(LH_DTYPE_Q5_0, 6, "Q5_0", 32, 22)                                                            \
    X(LH_DTYPE_Q5_1, 7, "Q5_1", 32, 24)                                                            \
    X(LH_DTYPE_Q8_0, 8, "Q8_0", 32, 34)                                                            \
    X(LH_DTYPE_Q2_K, 10, "Q2_K", 256, 84)                                                          \
    X(LH_DTYPE_Q3_K, 11, "Q3_K", 256, 110)                                                         \
    X(LH_DTYPE_Q4_K, 12, "Q4_K", 256, 144)                                                         \
    X(LH_DTYPE_Q5_K, 13, "Q5_K", 256, 176)                                                         \
    X(LH_DTYPE_Q6_K, 14, "Q6_K", 256, 210)                                                         \
    X(LH_DTYPE_IQ2_XXS, 16, "IQ2_XXS", 256, 66)                                                    \
    X(LH_DTYPE_IQ2_XS, 17, "IQ2_XS", 256, 74)                                                      \
    X(LH_DTYPE_IQ3_XXS, 18, "IQ3_XXS", 256, 98)                                                    \
    X(LH_DTYPE_IQ1_S, 19, "IQ1_S", 256, 50)                                                        \
    X(LH_DTYPE_IQ4_NL, 20, "IQ4_NL", 32, 18)                                                       \
    X(LH_DTYPE_IQ3_S, 21, "IQ3_S", 256, 110)                                                       \
    X(LH_DTYPE_IQ2_S, 22, "IQ2_S", 256, 82)                                                        \
    X(LH_DTYPE_IQ4_XS, 23, "IQ4_XS", 256, 136)                                                     \
    X(LH_DTYPE_IQ1_M, 29, "IQ1_M", 256, 56)                                                        \
    X(LH_DTYPE_BF16, 30, "BF16", 1, 2)                                                             \
    X(LH_DTYPE_TQ1_0, 34, "TQ1_0", 256, 54)                                                        \
    X(LH_DTYPE_TQ2_0, 35, "TQ2_0", 256, 66)                                                        \
    X(LH_DTYPE_MXFP4, 39, "MXFP4", 32, 17)

typedef enum lh_dtype {
#define X(name, number, text, elements, bytes) name = number,
    LH_DTYPE_TABLE(X)
#undef X
} lh_dtype;

typedef struct lh_dtype_info {
    lh_dtype dtype;
    const char *name;
    uint32_t block_elements;
    uint32_t block_bytes;
} lh_dtype_info;

/* The row of the table for a GGML type number, or NULL for one that we do not hold. */
const lh_dtype_info *lh_dtype_lookup(uint32_t number);

/* GGML's name for any type number it defines ("Q6_K"), or "unknown": for messages that refuse one.
 */
const char *lh_dtype_ggml_name(uint32_t number);

/* Bytes of `elements` elements; `elements` must be a multiple of block_elements. 0 on overflow. */
size_t lh_dtype_bytes(const lh_dtype_info *info, uint64_t elements);
