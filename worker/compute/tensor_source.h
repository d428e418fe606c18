/* Where the bytes of a tensor come from: a file, a cache, a test. */
#pragma once

#include "common/base/status.h"
#include "common/gguf/gguf.h"

/* Bytes of a tensor that are needed: `count` pieces of `bytes` > 0 each, `stride` apart, from
 * `offset` on. */
typedef struct lh_tensor_slice {
    uint64_t offset, bytes, stride, count;
} lh_tensor_slice;

typedef struct lh_weight_source {
    void *context;
    /* Makes a tensor readable until `release`. One at a time. */
    lh_status (*acquire)(void *context, const lh_gguf_tensor *tensor, lh_error *error);
    /* bytes[length] of it in GGML's layout, from `offset` on: such as are needed. Any thread,
     * several at once. */
    lh_status (*read)(void *context, const lh_gguf_tensor *tensor, uint64_t offset, void *bytes,
                      size_t length, lh_error *error);
    void (*release)(void *context, const lh_gguf_tensor *tensor);
} lh_weight_source;
