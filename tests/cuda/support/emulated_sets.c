/* For kernel tests that are linked with the emulation: it is the one set they run through. */
#include "tests/cuda/support/emulated_kernels.h"
#include "tests/kernels/support/arrays.h"

void for_each_set(void (*check)(const lh_kernels *set, void *context), void *context) {
    check(&emulated_kernels, context);
}
