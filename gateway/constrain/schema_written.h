/* Arguments of a call that are not written as one JSON object, but each by itself between marks: a
 * text as it is, anything else as JSON (gateway/text/tools/tool_parameter.h reads them). Failures
 * are the grammar's: LH_ERR_UNSUPPORTED names what of the schema cannot be followed so. Thread: the
 * owner's. */
#pragma once

#include "gateway/constrain/grammar.h"

#include <jansson.h>

/* schema: of an object. marks: {"open", "separator", "close", "end"}: a parameter is `open`, its
 * name, `separator`, its value, `end`; `close` stands in `end`, and in no text. Those that the
 * schema names come in its order; where it names none, any may come. */
lh_grammar_node lh_schema_written_add(lh_grammar *grammar, const json_t *schema,
                                      const json_t *marks);
