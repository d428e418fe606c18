/* The table of element types. */
#include "common/base/dtype.h"

static const lh_dtype_info table[] = {
#define X(name, number, text, elements, bytes) {name, text, elements, bytes},
    LH_DTYPE_TABLE(X)
#undef X
};

static const char *const ggml_names[] = {
    "F32",   "F16",        "Q4_0",       "Q4_1",       "Q4_2",     "Q4_3",     "Q5_0",
    "Q5_1",  "Q8_0",       "Q8_1",       "Q2_K",       "Q3_K",     "Q4_K",     "Q5_K",
    "Q6_K",  "Q8_K",       "IQ2_XXS",    "IQ2_XS",     "IQ3_XXS",  "IQ1_S",    "IQ4_NL",
    "IQ3_S", "IQ2_S",      "IQ4_XS",     "I8",         "I16",      "I32",      "I64",
    "F64",   "IQ1_M",      "BF16",       "Q4_0_4_4",   "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",
    "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4"};

const lh_dtype_info *lh_dtype_lookup(uint32_t number) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if ((uint32_t)table[i].dtype == number)
            return &table[i];
    return NULL;
}

const char *lh_dtype_ggml_name(uint32_t number) {
    return number < sizeof ggml_names / sizeof ggml_names[0] ? ggml_names[number] : "unknown";
}

size_t lh_dtype_bytes(const lh_dtype_info *info, uint64_t elements) {
    uint64_t bytes;
    if (__builtin_mul_overflow(elements / info->block_elements, (uint64_t)info->block_bytes,
                               &bytes))
        return 0;
    return (size_t)bytes;
}
