/* One item after the other of whatever Python's for would take. Thread: the owner's. */
#pragma once

#include "gateway/text/jinja/value.h"

/* Fails where the value cannot be iterated over. An iterator is its own, and is used up. */
jinja_iterator *jinja_iterate(jinja_work *work, jinja_value value);
bool jinja_is_iterable(jinja_value value);
bool jinja_next(jinja_work *work, jinja_iterator *iterator, jinja_value *value);
/* All that is left. */
jinja_sequence *jinja_collect(jinja_work *work, jinja_value value);
/* Backwards, as reversed() does; fails for what has no end to begin at. */
jinja_iterator *jinja_iterate_backwards(jinja_work *work, jinja_value value);
/* len(); fails where there is none. */
size_t jinja_length(jinja_work *work, jinja_value value);
bool jinja_has_length(jinja_value value);
/* Item `index`, below the length, of a string, sequence or range. */
jinja_value jinja_item_at(jinja_work *work, jinja_value value, size_t index);
/* Python's `in`. */
bool jinja_contains(jinja_work *work, jinja_value whole, jinja_value part);
