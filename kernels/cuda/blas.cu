/* Of the names without a folder, the first that the system finds. */
#include "kernels/cuda/blas.cuh"

#include <cstdio>
#include <dlfcn.h>

namespace {

/* The versions whose interface this is, that of our own CUDA first. */
const char *const NAMES[] = {"libcublas.so.13", "libcublas.so.12"};

void *open_library(const char *library, char why[LH_ERROR_MESSAGE_BYTES]) {
    if (library[0]) {
        void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        if (!opened)
            snprintf(why, LH_ERROR_MESSAGE_BYTES, "cuBLAS cannot be opened: %s", dlerror());
        return opened;
    }
    for (const char *name : NAMES)
        if (void *opened = dlopen(name, RTLD_NOW | RTLD_LOCAL))
            return opened;
    snprintf(why, LH_ERROR_MESSAGE_BYTES,
             "cuBLAS is not among the system's libraries (%s): install it (NVIDIA's package "
             "libcublas, or deploy/cuda-toolkit --cublas) and name it with --cublas-library",
             NAMES[0]);
    return nullptr;
}

} // namespace

bool lh_blas_open(const char *library, lh_blas *blas, char why[LH_ERROR_MESSAGE_BYTES]) {
    void *opened = open_library(library, why);
    if (!opened)
        return false;
#define X(member, name, arguments)                                                                 \
    blas->member = (int(*) arguments)dlsym(opened, #name);                                         \
    if (!blas->member) {                                                                           \
        snprintf(why, LH_ERROR_MESSAGE_BYTES, "the library that should be cuBLAS has no %s",       \
                 #name);                                                                           \
        return false;                                                                              \
    }
    LH_BLAS_FUNCTIONS(X)
#undef X
    return true;
}
