/* The linker's --wrap gives __wrap_malloc for malloc, and __real_malloc for what it was. */
#include "tests/support/failing_malloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

static _Atomic long long countdown = 0; /* 0: not armed or fired */
static _Atomic bool failed = false;

void failing_malloc_arm(size_t n) {
    atomic_store(&failed, false);
    atomic_store(&countdown, (long long)n);
}

bool failing_malloc_disarm(void) {
    atomic_store(&countdown, 0);
    return atomic_load(&failed);
}

static bool must_fail(void) {
    if (atomic_load(&countdown) <= 0 || atomic_fetch_sub(&countdown, 1) != 1)
        return false;
    atomic_store(&failed, true);
    errno = ENOMEM;
    return true;
}

#define WRAP(type, name, parameters, arguments)                                                    \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters {                                                                \
        return must_fail() ? NULL : __real_##name arguments;                                       \
    }
WRAP(void *, malloc, (size_t size), (size))
WRAP(void *, calloc, (size_t count, size_t size), (count, size))
WRAP(void *, realloc, (void *old, size_t size), (old, size))
WRAP(void *, reallocarray, (void *old, size_t count, size_t size), (old, count, size))
WRAP(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size))
WRAP(char *, strdup, (const char *text), (text))
WRAP(char *, strndup, (const char *text, size_t length), (text, length))

int __real_posix_memalign(void **out, size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size) {
    return must_fail() ? ENOMEM : __real_posix_memalign(out, alignment, size);
}
