/* The methods of strings, lists, tuples and dicts that change nothing. Thread: any. */
#pragma once

#include "gateway/text/jinja/arguments.h"

/* NULL: the type has no such method. Without a function: Python has it, and the sandbox does not
 * let a template call it. */
const jinja_entry_point *jinja_method_find(jinja_value value, jinja_text name);

extern const jinja_entry_point jinja_text_methods[];
/* A dict's keys, values or (key, value) pairs. */
jinja_value jinja_dict_items(jinja_work *work, const jinja_dict *dict);
