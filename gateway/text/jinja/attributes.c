/* The order of the look-ups is SandboxedEnvironment's. */
#include "gateway/text/jinja/attributes.h"

#include "gateway/text/jinja/methods.h"
#include "gateway/text/jinja/operators.h"

/* A method and whose it is. */
typedef struct bound_method {
    jinja_object object;
    const jinja_entry_point *method;
    jinja_value self;
} bound_method;

static jinja_value call_method(jinja_work *work, jinja_object *object,
                               const jinja_arguments *arguments) {
    const bound_method *bound = (const bound_method *)object;
    return jinja_entry_point_call(work, bound->method, bound->self, arguments);
}

static const jinja_class method_class = {.name = "builtin_function_or_method", .call = call_method};

static jinja_value bind(jinja_work *work, const jinja_entry_point *method, jinja_value self) {
    bound_method *bound = jinja_allocate(work, sizeof *bound);
    *bound = (bound_method){{&method_class}, method, self};
    return jinja_object_value(&bound->object);
}

bool jinja_find_attribute(jinja_work *work, jinja_value value, jinja_text name,
                          jinja_value *found) {
    if (name.length == 0 || name.bytes[0] == '_')
        return false;
    if (value.kind == JINJA_OBJECT)
        return value.object->class->attribute &&
               value.object->class->attribute(work, value.object, name, found);
    const jinja_entry_point *method = jinja_method_find(value, name);
    if (method && !method->function)
        *found = jinja_undefined_of(work, "access to attribute '%s' of '%s' object is unsafe",
                                    method->name, jinja_type_name(value));
    else if (method)
        *found = bind(work, method, value);
    return method != NULL;
}

static jinja_value missing(jinja_work *work, jinja_value value, jinja_text name) {
    return jinja_undefined_of(work, "'%s' object has no attribute '%.*s'", jinja_type_name(value),
                              (int)(name.length < 60 ? name.length : 60), name.bytes);
}

jinja_value jinja_get_attribute(jinja_work *work, jinja_value value, jinja_text name) {
    jinja_value found;
    jinja_need_defined(work, value);
    if (jinja_find_attribute(work, value, name, &found))
        return found;
    jinja_value key = {.kind = JINJA_STRING, .text = &name};
    return jinja_subscript(work, value, key, &found) ? found : missing(work, value, name);
}

jinja_value jinja_get_item(jinja_work *work, jinja_value value, jinja_value index) {
    jinja_value found;
    jinja_need_defined(work, value);
    if (jinja_subscript(work, value, index, &found))
        return found;
    if (index.kind != JINJA_STRING)
        return jinja_undefined_of(work, "'%s' has no such item", jinja_type_name(value));
    return jinja_find_attribute(work, value, *index.text, &found)
               ? found
               : missing(work, value, *index.text);
}

jinja_value jinja_call_value(jinja_work *work, jinja_value value,
                             const jinja_arguments *arguments) {
    jinja_need_defined(work, value);
    if (value.kind != JINJA_OBJECT || !value.object->class->call)
        jinja_fail(work, LH_ERR_INVALID, "'%s' cannot be called", jinja_type_name(value));
    return value.object->class->call(work, value.object, arguments);
}

/* Python takes a part of digits as an index. */
static jinja_value part_of(jinja_work *work, jinja_text part) {
    int64_t index = 0;
    for (size_t i = 0; i < part.length; i++) {
        if (part.bytes[i] < '0' || part.bytes[i] > '9' || i > 17)
            return jinja_string(work, part);
        index = index * 10 + part.bytes[i] - '0';
    }
    return part.length ? jinja_int(index) : jinja_string(work, part);
}

jinja_value jinja_get_path(jinja_work *work, jinja_value value, jinja_value path,
                           jinja_value otherwise) {
    bool replaces = otherwise.kind != JINJA_MISSING && otherwise.kind != JINJA_NONE;
    if (path.kind == JINJA_MISSING || path.kind == JINJA_NONE)
        return value;
    if (path.kind != JINJA_STRING) {
        value = jinja_get_item(work, value, path);
        return replaces && value.kind == JINJA_UNDEFINED ? otherwise : value;
    }
    jinja_text rest = *path.text;
    for (;;) {
        ssize_t dot = jinja_text_find(work, rest, jinja_text_literal("."));
        jinja_text part = dot < 0 ? rest : jinja_text_cut(rest, 0, (size_t)dot);
        value = jinja_get_item(work, value, part_of(work, part));
        if (replaces && value.kind == JINJA_UNDEFINED)
            value = otherwise;
        if (dot < 0)
            return value;
        rest = jinja_text_cut(rest, (size_t)dot + 1, rest.length);
    }
}
