/* Makes the n-th allocation fail, for the tests of parsers and sessions. Every test program is
 * linked so that calls of malloc, calloc, realloc, reallocarray, aligned_alloc, posix_memalign,
 * strdup and strndup from our code (and the static libraries' ours) come here first; those inside
 * shared libraries do not.
 *
 *   for (size_t n = 1;; n++) {
 *       failing_malloc_arm(n);
 *       status = lh_thing_parse(...);
 *       if (!failing_malloc_disarm())   // fewer than n allocations: all were tried
 *           break;
 *       assert_int_equal(status, LH_ERR_NO_MEMORY);
 *   }
 *
 * Thread: the count is of all threads together. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The n-th allocation from now on fails (1: the next), only that one. */
void failing_malloc_arm(size_t n);
/* No more failures; tells whether one has happened since it was armed. */
bool failing_malloc_disarm(void);

/* Bytes that are allocated and not freed, as the allocator rounds them up. */
long long failing_malloc_bytes(void);

/* ---- What is not freed: also without a sanitizer ---- */

/* Fixtures of a group of tests: after it as many allocations are held as before, of what the
 * program's own objects allocate and free; what a library allocates for them to free, or the other
 * way round, is not counted as it should be. Else the program ends with 1. */
int failing_malloc_note(void **state);
int failing_malloc_check(void **state);
