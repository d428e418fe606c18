/* The emulated GPU, opened as a worker opens one. */
#pragma once

#include "worker/compute/cuda/cuda_device.h"

/* library: the emulation's. Fails the test where it cannot be opened. */
lh_cuda_device emulated_gpu(const char *library);
