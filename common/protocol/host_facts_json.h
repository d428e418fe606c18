/* A machine's facts as JSON (CONTROL.md): what a worker reports, and what GET /fleet shows. Thread:
 * any. */
#pragma once

#include "common/base/host_facts.h"
#include "common/json/json_reader.h"

/* A new value, which the caller releases or hands on: an object of those facts that are known; JSON
 * null where none is. NULL: out of memory. */
json_t *lh_host_facts_render(const lh_host_facts *facts);

/* Reads what a peer has sent in this field; null, an absent field and an absent fact are "not
 * known". Refused is a fact that is no whole number of at least 0. */
void lh_host_facts_take(const lh_json_reader *reader, const char *field, lh_host_facts *facts);
