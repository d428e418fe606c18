/* Values as text: str() and repr() of Python, and JSON as json.dumps writes it. Thread: the
 * owner's. */
#pragma once

#include "gateway/text/jinja/value.h"

/* What a character takes for which others stand. */
#define JINJA_ESCAPE_STEPS 3

/* str(). A string gives itself, with its origins. What Python shows with
 * an address (methods, generators) is its type here: "<generator>". */
jinja_text jinja_print(jinja_work *work, jinja_value value);
void jinja_print_into(jinja_builder *out, jinja_value value);
void jinja_repr_into(jinja_builder *out, jinja_value value);
/* repr() of a float: the shortest digits that read back alike. */
void jinja_float_into(jinja_builder *out, double number);
