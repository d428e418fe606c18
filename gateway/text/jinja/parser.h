/* From a template's text to its tree. Thread: the owner's. */
#pragma once

#include "gateway/text/jinja/syntax.h"

/* The statements of the template. Fails with LH_ERR_UNSUPPORTED, the line, and what is expected
 * there. */
jinja_nodes jinja_parse(jinja_work *work, const char *bytes, size_t length);
