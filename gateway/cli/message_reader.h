/* What somebody types at a terminal, a message at a time, as at other programs that talk with
 * models: a line is a message, and what stands between """ and """ is one of several lines.
 * Thread: the program's only one. */
#pragma once

#include "common/base/text_buffer.h"

/* Asks for one, with a prompt on standard error. `message` is emptied first; what stands about it
 * of blanks is left out. LH_OK: there is one, which may be empty; LH_AGAIN: Ctrl-C was pressed
 * instead (interrupt.h); LH_ERR_CLOSED: nothing more comes; LH_ERR_LIMIT: it was over 1 MiB, or a
 * line was longer than a terminal takes, and is forgotten; LH_ERR_NO_MEMORY. */
lh_status lh_message_read(lh_text_buffer *message, lh_error *error);
/* All of standard input as one message, for who has no terminal. LH_ERR_LIMIT, LH_ERR_NO_MEMORY,
 * LH_ERR_IO. */
lh_status lh_message_read_all(lh_text_buffer *message, lh_error *error);
