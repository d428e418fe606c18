/* A text that one thread publishes now and then, and others read as it was last: neither waits for
 * the other. A reader holds the text that it has found while the next one is published. */
#pragma once

#include "common/metrics/exposition.h"

typedef struct lh_published_text lh_published_text;

/* LH_ERR_NO_MEMORY. */
lh_status lh_published_text_create(lh_published_text **published, lh_error *error);
/* Nobody reads any more. NULL is allowed. */
void lh_published_text_destroy(lh_published_text *published);

/* Takes the text over and leaves an empty one. Where a reader is just looking the text is dropped:
 * there will be another. One thread. */
void lh_published_text_put(lh_published_text *published, lh_text_buffer *text);
/* Appends what was put last; nothing, where nothing was. Any thread. */
void lh_published_text_append_to(lh_published_text *published, lh_exposition *exposition);
