/* A copy into the arena: the JSON may go before the rendering does. */
#include "gateway/text/jinja/value_json.h"

#include <string.h>

static jinja_text copy(jinja_work *work, const char *bytes, size_t length, jinja_origin origin) {
    char *copied = jinja_allocate(work, length);
    if (length)
        memcpy(copied, bytes, length);
    return jinja_text_of(copied, length, origin);
}

static bool is_known_role(const char *key, const json_t *value) {
    static const char *const roles[] = {"system", "user", "assistant", "tool", "developer"};
    if (strcmp(key, "role") != 0 || !json_is_string(value))
        return false;
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(json_string_value(value), roles[i]) == 0)
            return true;
    return false;
}

static jinja_value of_object(jinja_work *work, const json_t *json, jinja_origin origin) {
    jinja_dict *dict = jinja_dict_new(work);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)json, key, value) jinja_dict_set(
        work, dict, jinja_string(work, copy(work, key, strlen(key), origin)),
        jinja_from_json(work, value, is_known_role(key, value) ? JINJA_OF_TEMPLATE : origin));
    return jinja_dict_value(dict);
}

static jinja_value of_array(jinja_work *work, const json_t *json, jinja_origin origin) {
    jinja_sequence *list = jinja_sequence_new(work, json_array_size(json));
    for (size_t i = 0; i < json_array_size(json); i++)
        jinja_sequence_push(work, list, jinja_from_json(work, json_array_get(json, i), origin));
    return jinja_list(list);
}

jinja_value jinja_from_json(jinja_work *work, const json_t *json, jinja_origin origin) {
    jinja_value value = jinja_none();
    jinja_enter(work);
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        value = of_object(work, json, origin);
        break;
    case JSON_ARRAY:
        value = of_array(work, json, origin);
        break;
    case JSON_STRING:
        value = jinja_string(work,
                             copy(work, json_string_value(json), json_string_length(json), origin));
        break;
    case JSON_INTEGER:
        value = jinja_int(json_integer_value(json));
        break;
    case JSON_REAL:
        value = jinja_float(json_real_value(json));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        value = jinja_bool(json_is_true(json));
        break;
    case JSON_NULL:
        break;
    }
    jinja_leave(work);
    return value;
}
