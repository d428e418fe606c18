/* The linker's --wrap gives __wrap_malloc for malloc, and __real_malloc for what it was. */
#include "tests/support/failing_malloc.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic long long countdown = 0; /* 0: not armed or fired */
static _Atomic bool failed = false;
static _Atomic long long held = 0; /* allocated and not freed */
static _Atomic long long bytes = 0;
static long long noted = 0;

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

/* A pointer where nothing was before. */
static void *count(void *memory) {
    atomic_fetch_add(&held, memory != NULL);
    atomic_fetch_add(&bytes, (long long)malloc_usable_size(memory));
    return memory;
}

long long failing_malloc_bytes(void) {
    return atomic_load(&bytes);
}

#define WRAP(type, name, parameters, arguments)                                                    \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters {                                                                \
        return must_fail() ? NULL : count(__real_##name arguments);                                \
    }
WRAP(void *, malloc, (size_t size), (size))
WRAP(void *, calloc, (size_t number, size_t size), (number, size))
WRAP(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size))
WRAP(char *, strdup, (const char *text), (text))
WRAP(char *, strndup, (const char *text, size_t length), (text, length))

#define WRAP_AGAIN(name, parameters, arguments)                                                    \
    void *__real_##name parameters;                                                                \
    void *__wrap_##name parameters;                                                                \
    void *__wrap_##name parameters {                                                               \
        bool is_new = !old;                                                                        \
        long long before = (long long)malloc_usable_size(old);                                     \
        if (must_fail())                                                                           \
            return NULL;                                                                           \
        void *memory = __real_##name arguments;                                                    \
        if (is_new)                                                                                \
            return count(memory);                                                                  \
        if (memory)                                                                                \
            atomic_fetch_add(&bytes, (long long)malloc_usable_size(memory) - before);              \
        return memory;                                                                             \
    }
WRAP_AGAIN(realloc, (void *old, size_t size), (old, size))
WRAP_AGAIN(reallocarray, (void *old, size_t number, size_t size), (old, number, size))

int __real_posix_memalign(void **out, size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size) {
    int code = must_fail() ? ENOMEM : __real_posix_memalign(out, alignment, size);
    if (code == 0)
        count(*out);
    return code;
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory) {
    atomic_fetch_sub(&held, memory != NULL);
    atomic_fetch_sub(&bytes, (long long)malloc_usable_size(memory));
    __real_free(memory);
}

int failing_malloc_note(void **state) {
    (void)state;
    noted = atomic_load(&held);
    return 0;
}

int failing_malloc_check(void **state) {
    (void)state;
    long long left = atomic_load(&held) - noted;
    if (left != 0) {
        fprintf(stderr, "%lld allocations were not freed\n", left);
        exit(1);
    }
    return 0;
}
