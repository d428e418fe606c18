/* general.file_type has the numbers of llama.cpp's llama_ftype. */
#include "gateway/models/model_facts.h"

#include "common/base/dtype.h"

#include <stdio.h>
#include <string.h>

static const char *const file_types[] = {
    [0] = "F32",      [1] = "F16",      [2] = "Q4_0",    [3] = "Q4_1",    [7] = "Q8_0",
    [8] = "Q5_0",     [9] = "Q5_1",     [10] = "Q2_K",   [11] = "Q3_K_S", [12] = "Q3_K_M",
    [13] = "Q3_K_L",  [14] = "Q4_K_S",  [15] = "Q4_K_M", [16] = "Q5_K_S", [17] = "Q5_K_M",
    [18] = "Q6_K",    [19] = "IQ2_XXS", [20] = "IQ2_XS", [21] = "Q2_K_S", [22] = "IQ3_XS",
    [23] = "IQ3_XXS", [24] = "IQ1_S",   [25] = "IQ4_NL", [26] = "IQ3_S",  [27] = "IQ3_M",
    [28] = "IQ2_S",   [29] = "IQ2_M",   [30] = "IQ4_XS", [31] = "IQ1_M",  [32] = "BF16",
    [36] = "TQ1_0",   [37] = "TQ2_0",
};

/* The key "ARCHITECTURE.suffix"; 0: it is not there. */
static uint64_t read_number(const lh_gguf *gguf, const lh_model_facts *facts, const char *suffix) {
    char key[80];
    uint64_t number = 0;
    snprintf(key, sizeof key, "%s.%s", facts->architecture, suffix);
    return lh_gguf_get_u64(gguf, key, &number, NULL) == LH_OK ? number : 0;
}

/* GGML's number of the type that most bytes have. */
static uint32_t type_of_most(const lh_gguf *gguf) {
    enum { TYPES = 64 };
    uint64_t bytes[TYPES] = {0};
    uint32_t most = 0;
    for (size_t i = 0; i < lh_gguf_tensor_count(gguf); i++) {
        const lh_gguf_tensor *tensor = lh_gguf_tensor_at(gguf, i);
        if (tensor->type < TYPES)
            bytes[tensor->type] += tensor->bytes;
    }
    for (uint32_t type = 1; type < TYPES; type++)
        if (bytes[type] > bytes[most])
            most = type;
    return most;
}

static const char *quantization_of(const lh_gguf *gguf) {
    uint64_t type;
    const size_t known = sizeof file_types / sizeof file_types[0];
    if (lh_gguf_get_u64(gguf, "general.file_type", &type, NULL) == LH_OK && type < known &&
        file_types[type])
        return file_types[type];
    return lh_dtype_ggml_name(type_of_most(gguf));
}

void lh_model_facts_read(const lh_gguf *gguf, lh_model_facts *facts) {
    lh_text architecture;
    *facts = (lh_model_facts){.parameters = 0};
    if (lh_gguf_get_text(gguf, "general.architecture", &architecture, NULL) == LH_OK)
        snprintf(facts->architecture, sizeof facts->architecture, "%.*s",
                 architecture.length < 31 ? (int)architecture.length : 31, architecture.bytes);
    snprintf(facts->quantization, sizeof facts->quantization, "%.15s", quantization_of(gguf));
    for (size_t i = 0; i < lh_gguf_tensor_count(gguf); i++) {
        const lh_gguf_tensor *tensor = lh_gguf_tensor_at(gguf, i);
        facts->parameters +=
            tensor->shape[0] * tensor->shape[1] * tensor->shape[2] * tensor->shape[3];
    }
    facts->layers = read_number(gguf, facts, "block_count");
    facts->context = read_number(gguf, facts, "context_length");
}
