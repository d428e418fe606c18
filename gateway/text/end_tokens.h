/* Tokens that end a turn or a text, by the names that models give them. Static data. Thread: any.
 */
#pragma once

#include "common/base/status.h"
#include "common/gguf/gguf.h"

#include <stdbool.h>

/* Files often name one end of text as eos though the template ends turns with another. */
bool lh_end_token_has_name(lh_text name);
/* Whether a token of this name is a mark and no text, whatever a file says of its type: it ends a
 * turn, or is written "<|...|>" and stands so in the chat template. */
bool lh_end_token_is_mark(lh_text name, lh_text chat_template);
