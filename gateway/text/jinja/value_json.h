/* JSON as Jinja's values: what a client sent is data, wherever it goes. Thread: the owner's. */
#pragma once

#include "gateway/text/jinja/value.h"

#include <jansson.h>

/* Copies all of it. A member "role" that is one of the API's own words is the template's to use, as
 * part of a special token too: "<|" ~ message.role ~ "|>". */
jinja_value jinja_from_json(jinja_work *work, const json_t *json, jinja_origin origin);
