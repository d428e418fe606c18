/* A page that is drawn again and again in place: on the terminal's alternate screen, so that what
 * was there before comes back at the end. Where standard output is no terminal, pages follow each
 * other. Thread: the program's only one. */
#pragma once

#include "common/base/status.h"
#include "common/base/text_buffer.h"

#include <stdbool.h>
#include <stdint.h>

/* From now on a signal that ends the program ends it with status 0. Where wants_screen is true and
 * there is a terminal, that is the screen's: keys come at once and are not shown, and the signal
 * gives it back first; true then. */
bool lh_live_screen_open(bool wants_screen);
/* Gives the terminal back. */
void lh_live_screen_close(void);

/* Shows the page, cut to the terminal's lines. LH_ERR_IO: nobody reads. */
lh_status lh_live_screen_show(const lh_text_buffer *page);
/* Until so much time has passed, the terminal has another size (then at once), or somebody has
 * pressed q. False: he has. */
bool lh_live_screen_wait(int64_t milliseconds);
