/* Stable sorting by keys, as sorted() does. Thread: the owner's. */
#pragma once

#include "gateway/text/jinja/value.h"

/* Sorts items[count] by keys[count], both moved alike; `items` may be `keys`. Fails where two keys
 * have no order. */
void jinja_sort(jinja_work *work, jinja_value *items, jinja_value *keys, size_t count,
                bool is_reverse);
/* A dict's keys, as a fresh list. */
jinja_sequence *jinja_collect_keys(jinja_work *work, const jinja_dict *dict);
