/* The control tokens around what a model fills in between two texts: before the first, between the
 * two, and behind the second, where it then writes. Static data. Thread: any. */
#pragma once

#include "common/gguf/gguf.h"

typedef enum lh_fill_mark {
    LH_FILL_BEFORE,
    LH_FILL_BETWEEN,
    LH_FILL_BEHIND,
    LH_FILL_MARKS /* how many there are, and none of them */
} lh_fill_mark;

/* Which of them has this name, as models write them. */
lh_fill_mark lh_fill_mark_named(lh_text name);
