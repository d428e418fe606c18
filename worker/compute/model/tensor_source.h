/* Where the bytes of a tensor come from: a mapped file, a cache, a test. */
#pragma once

#include "common/base/status.h"
#include "common/gguf/gguf.h"

/* Bytes of one tensor in GGML's layout; valid until `release`. One at a time is held. */
typedef struct lh_weight_source {
    void *context;
    lh_status (*acquire)(void *context, const lh_gguf_tensor *tensor, const void **bytes,
                         lh_error *error);
    void (*release)(void *context, const lh_gguf_tensor *tensor, const void *bytes);
} lh_weight_source;
