/* What attention and draws of one stage on a GPU are computed in: one block of memory, taken before
 * the first step, for at least one row that sees the longest context; rows for which it is not
 * enough go one group after the other. Thread: the stage's. */
#pragma once

#include "worker/compute/cuda/cuda_device.h"

typedef struct lh_cuda_scratch {
    void *memory; /* [bytes], the GPU's */
    size_t bytes;
} lh_cuda_scratch;

/* Room for keys in steps: attention has blocks of threads for so many, of which those without keys
 * end at once. So a recording serves while a context doubles. */
uint32_t lh_cuda_room(uint32_t context);

/* What it takes for this work; 0: products alone. */
size_t lh_cuda_scratch_bytes(const lh_cuda_device *device, const lh_device_work *work);
/* 0, or the runtime's error. */
int lh_cuda_scratch_init(lh_cuda_scratch *scratch, const lh_cuda_device *device,
                         const lh_device_work *work);
void lh_cuda_scratch_reset(lh_cuda_scratch *scratch, const lh_cuda_plugin *plugin);
/* Rows for which it is enough at a time, where one takes so many bytes: at least 1. */
uint32_t lh_cuda_scratch_rows(const lh_cuda_scratch *scratch, size_t row_bytes);
