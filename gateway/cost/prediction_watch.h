/* Notices when prompts take far longer, or far shorter, than was predicted for them: a machine or a
 * link is then not what was measured of it. Judges by the sums of a window, and after it has told,
 * waits for twice as many prompts each time. Plain data, begun with zeros; thread: the owner's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_prediction_watch {
    double measured_us, predicted_us; /* of the window */
    uint32_t prompts;                 /* in it */
    uint32_t times_told;              /* in a row */
} lh_prediction_watch;

/* A prompt took measured_us > 0, and predicted_us > 0 had been predicted. True: it is time to tell;
 * *window is what of, and another one begins. */
bool lh_prediction_watch_note(lh_prediction_watch *watch, double measured_us, double predicted_us,
                              lh_prediction_watch *window);
