/* What the terminal is like to which a program writes. Thread: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How wide standard output is; `otherwise` where nobody knows. */
uint32_t lh_terminal_width(uint32_t otherwise);
/* How many lines it has; 0: nobody knows. */
uint32_t lh_terminal_height(void);
/* NO_COLOR (no-color.org) and a terminal that knows none are heeded. */
bool lh_terminal_wants_colours(void);
