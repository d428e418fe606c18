/* A fiber: a function on a stack of its own, which runs until it hands over to another one. */
#pragma once

#include <cstddef>
#include <ucontext.h>

namespace emulation {

class fiber {
  public:
    /* The thread of the host itself. */
    fiber() = default;
    /* Runs body(context), which never returns, when it is first handed over to. */
    fiber(void (*body)(void *), void *context);
    ~fiber();
    fiber(const fiber &) = delete;
    fiber &operator=(const fiber &) = delete;

    /* The running fiber is `from`; returns when somebody hands over to it again. */
    static void hand_over(fiber *from, fiber *to);

  private:
    static void begin(unsigned high, unsigned low);
    void arrive();

    void (*body_)(void *) = nullptr;
    void *context_ = nullptr;
    char *memory_ = nullptr; /* a page that nobody may touch, and the stack */
    bool started_ = false;
    ucontext_t start_;
    void *jump_[5];              /* of __builtin_setjmp */
    void *fake_stack_ = nullptr; /* AddressSanitizer's */
    const void *bottom_ = nullptr;
    size_t size_ = 0;
};

} // namespace emulation
