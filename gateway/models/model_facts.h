/* What a list of models tells of one, from its GGUF header. Thread: any. */
#pragma once

#include "common/gguf/gguf.h"

#include <stdint.h>

typedef struct lh_model_facts {
    char architecture[32];
    char quantization[16]; /* "Q4_K_M"; of a file that does not say, the type of most bytes */
    uint64_t parameters;   /* elements of all tensors */
    uint64_t layers;       /* 0: not said, as the next one */
    uint64_t context;      /* positions */
} lh_model_facts;

void lh_model_facts_read(const lh_gguf *gguf, lh_model_facts *facts);
