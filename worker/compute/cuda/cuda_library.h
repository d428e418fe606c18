/* The library with the CUDA kernels, opened while the program runs: where it, a driver or a GPU is
 * missing, a worker computes on its CPUs and can say why. Thread: start-up. */
#pragma once

#include "common/base/status.h"
#include "kernels/cuda/plugin.h"

#define LH_CUDA_LIBRARY "longhaul-cuda.so"

/* Opens `path`, or where it is "" LH_CUDA_LIBRARY: beside the program, in ../lib/longhaul from
 * there, or where the system finds libraries. It stays open for good. LH_ERR_NOT_FOUND: no such
 * file; LH_ERR_UNSUPPORTED: it is none of ours, or of another version. */
lh_status lh_cuda_library_open(const char *path, const lh_cuda_plugin **plugin, lh_error *error);
