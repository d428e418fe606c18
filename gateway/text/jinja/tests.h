/* x is name(...). Thread: the owner's. */
#pragma once

#include "gateway/text/jinja/arguments.h"

/* The answer, as a value. Fails where there is no such test, or it cannot be made. */
jinja_value jinja_test(jinja_work *work, jinja_text name, jinja_value value,
                       const jinja_arguments *arguments);
