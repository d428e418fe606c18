/* What --device asks for, found at start: a GPU for the stages, or the machine's processors.
 * Thread: start-up, before others start. */
#pragma once

#include "worker/compute/cuda/cuda_device.h"

typedef struct lh_device_choice {
    bool is_gpu;
    lh_cuda_device gpu; /* where it is one */
    char text[160];     /* "cpu", or "cuda:0 NVIDIA H100 80GB HBM3": for logs */
} lh_device_choice;

/* text: "auto" (a GPU where one can be used, else the processors, and the log says why at level
 * debug), "cpu", "cuda" or "cuda:N". library: as lh_cuda_library_open. LH_ERR_INVALID: another
 * text; LH_ERR_NOT_FOUND, LH_ERR_UNSUPPORTED, LH_ERR_UNAVAILABLE: the GPU that is asked for cannot
 * be used, and why. cublas: as lh_cuda_device_init. */
lh_status lh_device_choice_make(const char *text, const char *library, const char *cublas,
                                lh_device_choice *choice, lh_error *error);
/* NULL: the processors. */
const lh_device *lh_device_choice_device(const lh_device_choice *choice);
