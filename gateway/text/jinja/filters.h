/* x|name(...): Jinja's filters, and tojson as transformers has it. Thread: the owner's. */
#pragma once

#include "gateway/text/jinja/arguments.h"

/* NULL: there is none of this name. */
const jinja_entry_point *jinja_filter_find(jinja_text name);

extern const jinja_entry_point jinja_text_filters[];
extern const jinja_entry_point jinja_list_filters[];
extern const jinja_entry_point jinja_item_filters[];
