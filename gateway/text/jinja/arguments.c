/* A signature is a line of names. */
#include "gateway/text/jinja/arguments.h"

#include <string.h>

const jinja_entry_point *jinja_entry_point_find(const jinja_entry_point *table, jinja_text name) {
    for (; table->name; table++)
        if (jinja_text_is(name, table->name))
            return table;
    return NULL;
}

/* The index of a parameter; the number of parameters where it is none of them. */
static size_t place_of(const char *parameters, jinja_text name, size_t *count) {
    size_t found = SIZE_MAX, index = 0;
    for (const char *at = parameters; *at; index++) {
        size_t length = strcspn(at, ",");
        if (*at != '_' && length == name.length && memcmp(at, name.bytes, length) == 0)
            found = index;
        at += length + (at[length] == ',');
    }
    *count = index;
    return found;
}

static void place(jinja_work *work, const jinja_entry_point *entry,
                  const jinja_arguments *arguments, jinja_call *call) {
    size_t count;
    place_of(entry->parameters, jinja_text_literal(""), &count);
    if (arguments->count > count)
        jinja_fail(work, LH_ERR_INVALID, "%s takes at most %zu arguments, not %zu", entry->name,
                   count, arguments->count);
    for (size_t i = 0; i < arguments->count; i++)
        call->given[i] = arguments->items[i];
    for (size_t i = 0; i < arguments->named_count; i++) {
        jinja_text name = arguments->named[i].name;
        size_t at = place_of(entry->parameters, name, &count);
        if (at == SIZE_MAX || call->given[at].kind != JINJA_MISSING)
            jinja_fail(work, LH_ERR_INVALID, "%s: the argument '%.*s' is %s", entry->name,
                       (int)(name.length < 40 ? name.length : 40), name.bytes,
                       at == SIZE_MAX ? "none that it takes" : "given twice");
        call->given[at] = arguments->named[i].value;
    }
    for (size_t i = 0; i < entry->required; i++)
        if (call->given[i].kind == JINJA_MISSING)
            jinja_fail(work, LH_ERR_INVALID, "%s needs %u argument%s", entry->name, entry->required,
                       entry->required == 1 ? "" : "s");
}

jinja_value jinja_entry_point_call(jinja_work *work, const jinja_entry_point *entry,
                                   jinja_value self, const jinja_arguments *arguments) {
    jinja_call call = {.all = arguments};
    jinja_step(work, 2); /* it was looked for by its name, too */
    if (entry->parameters[0] != '*')
        place(work, entry, arguments, &call);
    return entry->function(work, self, &call);
}

const jinja_value *jinja_named_argument(const jinja_arguments *arguments, const char *name) {
    for (size_t i = 0; i < arguments->named_count; i++)
        if (jinja_text_is(arguments->named[i].name, name))
            return &arguments->named[i].value;
    return NULL;
}

int64_t jinja_integer_given(jinja_work *work, jinja_value value, int64_t otherwise) {
    if (value.kind == JINJA_MISSING)
        return otherwise;
    if (!jinja_is_integer(value))
        jinja_fail(work, LH_ERR_INVALID, "an integer is expected, not '%s'",
                   jinja_type_name(value));
    return jinja_integer(value);
}

jinja_text jinja_text_given(jinja_work *work, jinja_value value, const char *what) {
    if (value.kind != JINJA_STRING)
        jinja_fail(work, LH_ERR_INVALID, "%s must be a string, not '%s'", what,
                   jinja_type_name(value));
    return *value.text;
}
