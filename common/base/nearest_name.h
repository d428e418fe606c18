/* Which of some names somebody may have meant who has written another one: the one with the fewest
 * edits between, if those are few. Thread: any.
 *
 *   lh_nearest_name nearest;
 *   lh_nearest_name_init(&nearest, "thraeds", 7);
 *   for (...) lh_nearest_name_try(&nearest, names[i]);
 *   if (nearest.name) "did you mean nearest.name?"
 */
#pragma once

#include <stddef.h>

typedef struct lh_nearest_name {
    const char *word; /* the caller's; not terminated */
    size_t length;
    const char *name; /* the nearest one yet, as it was given; NULL: none is near */
    size_t edits;     /* to that one; at first, how many are too many */
} lh_nearest_name;

void lh_nearest_name_init(lh_nearest_name *nearest, const char *word, size_t length);
/* The name stays the caller's, and has to live as long as nearest->name is looked at. Words and
 * names over 63 bytes are near to nothing. */
void lh_nearest_name_try(lh_nearest_name *nearest, const char *name);
