/* Whether work grows with its input as it should: compared with itself in the same run, so that it
 * holds on any machine. */
#pragma once

#include <stddef.h>

/* Between what linear work grows by, which is 4, and what quadratic work does, which is 16. ASan
 * asks the kernel for each large block anew, and what needs one was seen to grow by up to 15 there:
 * that build is to find faults of memory, other builds ask for the time. */
#ifdef __SANITIZE_ADDRESS__
#define GROWTH_LINEAR_MAX 100
#else
#define GROWTH_LINEAR_MAX 9
#endif

/* Processor time that work(context, 4 * size) takes, in units of what work(context, size) does: of
 * each the least of three, in turns. Prints both. */
double growth_of(const char *name, void (*work)(void *context, size_t size), void *context,
                 size_t size);
