/* Two keys, as llama.cpp's converter writes them. */
#include "gateway/text/model_pooling.h"

#include <stdio.h>

/* llama.cpp's numbers, by their places: none, mean, cls, last, rank. */
static const lh_model_pooling_kind kinds[] = {LH_MODEL_POOLS_MEAN, LH_MODEL_POOLS_MEAN,
                                              LH_MODEL_POOLS_FIRST, LH_MODEL_POOLS_LAST,
                                              LH_MODEL_POOLS_OTHERWISE};

lh_model_pooling lh_model_pooling_read(const lh_gguf *gguf) {
    lh_model_pooling pooling = {.kind = LH_MODEL_POOLS_MEAN};
    char key[128];
    lh_text architecture;
    uint64_t number;
    lh_error ignored;
    if (lh_gguf_get_text(gguf, "general.architecture", &architecture, &ignored) == LH_OK) {
        snprintf(key, sizeof key, "%.*s.pooling_type", (int)architecture.length,
                 architecture.bytes);
        if (lh_gguf_get_u64(gguf, key, &number, &ignored) == LH_OK)
            pooling.kind =
                number < sizeof kinds / sizeof *kinds ? kinds[number] : LH_MODEL_POOLS_OTHERWISE;
    }
    if (lh_gguf_get_bool(gguf, "tokenizer.ggml.add_eos_token", &pooling.appends_eos, &ignored))
        pooling.appends_eos = false;
    return pooling;
}
