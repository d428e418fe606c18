/* A ring of bits, one for each of the last numbers. */
#include "worker/serve/step_window.h"

#include <string.h>

static uint64_t *word_of(lh_step_window *window, uint64_t step) {
    return &window->seen[step % LH_STEP_WINDOW / 64];
}

static uint64_t bit_of(uint64_t step) {
    return UINT64_C(1) << step % 64;
}

/* Its place in the ring was that of a number that is forgotten now. */
static void advance(lh_step_window *window, uint64_t step) {
    if (step - window->end >= LH_STEP_WINDOW) {
        memset(window->seen, 0, sizeof window->seen);
        window->end = step;
    }
    for (; window->end <= step; window->end++)
        *word_of(window, window->end) &= ~bit_of(window->end);
}

bool lh_step_window_reaches(const lh_step_window *window, uint64_t step) {
    return step <= (window->end == 0 ? LH_STEP_FIRST_MAX : window->end + LH_STEP_JUMP_MAX);
}

bool lh_step_window_admit(lh_step_window *window, uint64_t step) {
    if (step == UINT64_MAX || (step < window->end && window->end - step > LH_STEP_WINDOW))
        return false;
    if (step >= window->end)
        advance(window, step);
    if (*word_of(window, step) & bit_of(step))
        return false;
    *word_of(window, step) |= bit_of(step);
    return true;
}
