/* The functions that every template has: range, dict, namespace, cycler, joiner, and those of
 * transformers, raise_exception and strftime_now. Thread: the owner's. */
#pragma once

#include "gateway/text/jinja/value.h"

#include <time.h>

/* By name. `now` is what strftime_now shows; it must outlive the rendering. */
jinja_dict *jinja_globals_new(jinja_work *work, const struct tm *now);
/* False: it is no namespace. */
bool jinja_namespace_set(jinja_work *work, jinja_value space, jinja_text name, jinja_value value);
