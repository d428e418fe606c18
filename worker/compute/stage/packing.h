/* Parts of a tensor that threads read and pack, one behind the other in an array or in several:
 * where they lie in the host's memory, or for a device in memory from which it copies, some at a
 * time, while it copies those before. Thread: the one that loads a stage. */
#pragma once

#include "common/gguf/gguf.h"
#include "worker/compute/stage/ops.h"

#define LH_PACKING_ARRAYS_MAX 2u

typedef struct lh_packing {
    const lh_compute *compute;
    const lh_gguf_tensor *tensor; /* which errors name */
    uint8_t *scratch;             /* [threads][scratch_bytes] */
    size_t scratch_bytes;
    uint32_t parts, array_count;
    void *arrays[LH_PACKING_ARRAYS_MAX];
    const void *context;
    /* Where part `part` begins in an array, in bytes; of `parts`, where the last one ends. */
    size_t (*offset)(const void *context, uint32_t array, uint32_t part);
    /* Packs a part to its places in the arrays; scratch: of this thread alone. Any thread. */
    lh_status (*pack)(const void *context, uint32_t part, void *const *places, uint8_t *scratch,
                      lh_error *error);
} lh_packing;

/* LH_ERR_LIMIT: a part is longer than LH_PUT_BYTES_MAX and is to go to a device; else what `pack`
 * said first. */
lh_status lh_packing_run(const lh_packing *packing, lh_error *error);
