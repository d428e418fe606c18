/* A line's settings in words, as people and scripts give them. Thread: any. */
#pragma once

#include "link/line.h"

/* A number from 0 below 1e9; false: it is none. */
bool lh_line_number_read(const char *text, double *number);
/* "rate=MBIT delay=MS jitter=MS loss=PERCENT queue=MS", in any order, written into the settings;
 * what is not named stays. The word that is wrong, or NULL. `words` is cut up. */
const char *lh_line_words_read(lh_line_settings *settings, char *words);
