/* A file, and edits of it. */
#include "tests/gateway/support/fleet_documents.h"

#include "gateway/cli/fleet_document_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

json_t *load_fleet(const char *path) {
    json_t *fleet = json_load_file(path, 0, NULL);
    assert_non_null(fleet);
    return fleet;
}

static json_t *child(json_t *parent, const char *key) {
    return json_is_array(parent) ? json_array_get(parent, (size_t)atoi(key))
                                 : json_object_get(parent, key);
}

void plant(json_t *fleet, const char *place, const char *value) {
    char path[256], *rest = path;
    json_t *at = fleet, *parsed = json_loads(value, JSON_DECODE_ANY, NULL);
    assert_non_null(parsed);
    snprintf(path, sizeof path, "%s", place);
    for (char *dot; (dot = strchr(rest, '.')); rest = dot + 1) {
        *dot = '\0';
        at = child(at, rest);
        assert_non_null(at);
    }
    assert_int_equal(json_is_array(at) ? json_array_set_new(at, (size_t)atoi(rest), parsed)
                                       : json_object_set_new(at, rest, parsed),
                     0);
}

lh_fleet_document document_of(const json_t *fleet) {
    lh_fleet_document document;
    lh_error error;
    char *text = json_dumps(fleet, 0);
    if (lh_fleet_document_parse(text, strlen(text), &document, &error) != LH_OK)
        fail_msg("%s", error.message);
    free(text);
    return document;
}
