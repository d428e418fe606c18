/* The instruction sets that kernel tests run through. */
#include "tests/kernels/support/arrays.h"

void for_each_set(void (*check)(const lh_kernels *set, void *context), void *context) {
    for (size_t i = 0; lh_kernels_at(i); i++)
        check(lh_kernels_at(i), context);
}
