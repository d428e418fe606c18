/* A GPU as a stage's device: found and described once, then asked through queues, one for each
 * stage. Thread: any, after the start. */
#pragma once

#include "worker/compute/cuda/cuda_library.h"
#include "worker/compute/stage/ops.h"

typedef struct lh_cuda_device {
    lh_device device; /* what stages are given */
    const lh_cuda_plugin *plugin;
    int number;
    const char *cublas; /* a path; "": where the system finds libraries */
    lh_cuda_facts facts;
    size_t scratch_bytes; /* at most, of attention for more rows than one (cuda_scratch.h) */
} lh_cuda_device;

/* The GPU `number`. cublas: as in the struct, for stages that are fast; outlives the device, and is
 * opened when the first of them is. LH_ERR_UNSUPPORTED: no driver, no GPU, no such one, or one that
 * is too old: the message says which. */
lh_status lh_cuda_device_init(const lh_cuda_plugin *plugin, int number, const char *cublas,
                              lh_cuda_device *device, lh_error *error);
/* What is free of its memory now; LH_ERR_UNAVAILABLE: it does not say. */
lh_status lh_cuda_device_memory(const lh_cuda_device *device, uint64_t *free_bytes,
                                lh_error *error);
