/* Ctrl-C as a wish to be heard, in place of the program's end. Thread: the program's only one. */
#pragma once

#include <stdbool.h>

/* From now on; a read that waits returns with EINTR. */
void lh_interrupt_catch(void);
/* Whether it was pressed since the last call. */
bool lh_interrupt_take(void);
/* The same, and it stays so until it is taken. */
bool lh_interrupt_is_pending(void);
