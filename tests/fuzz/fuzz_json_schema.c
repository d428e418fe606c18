/* Any JSON as a schema: it becomes a grammar, or is refused with its place; and a grammar that is
 * made can be made an automaton of, or is refused. */
#include "gateway/constrain/automaton.h"
#include "gateway/constrain/json_schema.h"

#include <jansson.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *schema = json_loadb((const char *)data, size, JSON_DECODE_ANY, NULL);
    lh_grammar *grammar;
    lh_automaton *automaton = NULL;
    lh_error error = {0};
    if (!schema)
        return 0;
    if (lh_grammar_create(&grammar, &error))
        abort();
    lh_grammar_set_root(grammar, lh_json_schema_add(grammar, schema));
    json_decref(schema);
    if (lh_grammar_check(grammar, &error) == LH_OK)
        lh_automaton_create(grammar, 0, &automaton, &error);
    if (!automaton &&
        (error.status == LH_OK || !error.message[0] || lh_status_is_fatal(error.status)))
        abort();
    lh_automaton_destroy(automaton);
    lh_grammar_destroy(grammar);
    return 0;
}
