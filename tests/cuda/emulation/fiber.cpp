/* Contexts of the C library begin a fiber. From then on the compiler's own jumps change between
 * them: those of the C library would ask the kernel each time, which takes a hundred times longer,
 * or would make AddressSanitizer forget what it knows of the stack. */
#include "tests/cuda/emulation/fiber.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define ANNOUNCE(from, to)                                                                         \
    __sanitizer_start_switch_fiber(&(from)->fake_stack_, (to)->bottom_, (to)->size_)
#define ARRIVED(self, bottom, size)                                                                \
    __sanitizer_finish_switch_fiber((self)->fake_stack_, bottom, size)
#else
#define ANNOUNCE(from, to)          (void)0
#define ARRIVED(self, bottom, size) (void)0
#endif

namespace emulation {

namespace {
/* Kernels have no deep calls; with a sanitizer their frames are larger. */
const size_t STACK_BYTES = 128 << 10, GUARD_BYTES = 64 << 10;
/* Who handed over last: its stack is the one that was left. */
fiber *came_from;

__attribute__((noinline, noreturn, no_sanitize("address"))) void jump(void **to) {
    __builtin_longjmp(to, 1);
}
} // namespace

fiber::fiber(void (*body)(void *), void *context) : body_(body), context_(context) {
    void *memory = mmap(nullptr, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, GUARD_BYTES, PROT_NONE) != 0) {
        perror("no stack for a fiber");
        abort();
    }
    memory_ = static_cast<char *>(memory);
    bottom_ = memory_ + GUARD_BYTES;
    size_ = STACK_BYTES;
    getcontext(&start_);
    start_.uc_stack.ss_sp = memory_ + GUARD_BYTES;
    start_.uc_stack.ss_size = STACK_BYTES;
    start_.uc_link = nullptr;
    const uint64_t self = reinterpret_cast<uint64_t>(this);
    makecontext(&start_, reinterpret_cast<void (*)()>(begin), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
}

fiber::~fiber() {
    if (memory_)
        munmap(memory_, GUARD_BYTES + STACK_BYTES);
}

/* Of the host's own stack only the sanitizer knows the bounds. */
void fiber::arrive() {
    const void *bottom = nullptr;
    size_t size = 0;
    ARRIVED(this, &bottom, &size);
    if (came_from && !came_from->memory_) {
        came_from->bottom_ = bottom;
        came_from->size_ = size;
    }
}

void fiber::begin(unsigned high, unsigned low) {
    fiber *self = reinterpret_cast<fiber *>(uint64_t{high} << 32 | low);
    self->arrive();
    self->body_(self->context_);
    abort();
}

__attribute__((noinline)) void fiber::hand_over(fiber *from, fiber *to) {
    came_from = from;
    ANNOUNCE(from, to);
    if (__builtin_setjmp(from->jump_) == 0) {
        if (to->started_ || !to->memory_)
            jump(to->jump_);
        to->started_ = true;
        setcontext(&to->start_);
    }
    from->arrive();
}

} // namespace emulation
