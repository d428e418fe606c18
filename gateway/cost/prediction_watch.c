/* Sums of a window that grows. */
#include "gateway/cost/prediction_watch.h"

#include <assert.h>

/* The least that a window has: one prompt says little, and a short one less. */
#define PROMPTS_MIN      8u
#define PREDICTED_US_MIN 500000.0
#define TIMES_TOLD_MAX   7u /* windows of 1024 prompts */
/* Predictions are within a few per cent on quiet machines, and half off beside others' work. */
#define FAR 2.0

bool lh_prediction_watch_note(lh_prediction_watch *watch, double measured_us, double predicted_us,
                              lh_prediction_watch *window) {
    assert(measured_us > 0 && predicted_us > 0);
    watch->measured_us += measured_us;
    watch->predicted_us += predicted_us;
    watch->prompts++;
    if (watch->prompts < PROMPTS_MIN << watch->times_told || watch->predicted_us < PREDICTED_US_MIN)
        return false;
    bool is_far = watch->measured_us > FAR * watch->predicted_us ||
                  watch->predicted_us > FAR * watch->measured_us;
    uint32_t times_told = !is_far                               ? 0
                          : watch->times_told == TIMES_TOLD_MAX ? TIMES_TOLD_MAX
                                                                : watch->times_told + 1;
    *window = *watch;
    *watch = (lh_prediction_watch){.times_told = times_told};
    return is_far;
}
