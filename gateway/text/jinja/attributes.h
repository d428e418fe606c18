/* x.name and x[index], as Jinja's sandbox allows them: methods of strings, lists and dicts that
 * change nothing, and what objects have. Thread: the owner's. */
#pragma once

#include "gateway/text/jinja/value.h"

/* x.name: an attribute first, an item otherwise. */
jinja_value jinja_get_attribute(jinja_work *work, jinja_value value, jinja_text name);
/* x[index]: an item first, an attribute otherwise. */
jinja_value jinja_get_item(jinja_work *work, jinja_value value, jinja_value index);
/* Calls x.name(...), without a value for the method in between. */
jinja_value jinja_call_value(jinja_work *work, jinja_value value, const jinja_arguments *arguments);
/* The attribute alone, for the filter `attr`. */
bool jinja_find_attribute(jinja_work *work, jinja_value value, jinja_text name, jinja_value *found);

/* "address.city", "0.name" or an integer: one look-up after the other. An undefined one on the way
 * becomes `otherwise`, where that is not JINJA_MISSING. */
jinja_value jinja_get_path(jinja_work *work, jinja_value value, jinja_value path,
                           jinja_value otherwise);
