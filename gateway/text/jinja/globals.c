/* Each is an object of a class with a call. */
#include "gateway/text/jinja/globals.h"

#include "gateway/text/jinja/arguments.h"
#include "gateway/text/jinja/iteration.h"
#include "gateway/text/jinja/print.h"

#include <string.h>

/* As jinja2's sandbox has it. */
#define RANGE_MAX 100000

static void add_named(jinja_work *work, jinja_dict *dict, const jinja_arguments *arguments) {
    for (size_t i = 0; i < arguments->named_count; i++)
        jinja_dict_set(work, dict, jinja_string(work, arguments->named[i].name),
                       arguments->named[i].value);
}

/* dict(other, name=value ...): of a mapping, or of pairs. */
static jinja_dict *read_dict(jinja_work *work, const jinja_arguments *arguments) {
    jinja_dict *dict = jinja_dict_new(work);
    if (arguments->count > 1)
        jinja_fail(work, LH_ERR_INVALID, "a dict is made of at most one value");
    if (arguments->count == 1 && arguments->items[0].kind == JINJA_DICT) {
        const jinja_dict *other = arguments->items[0].dict;
        for (size_t i = 0; i < other->count; i++)
            jinja_dict_set(work, dict, other->entries[i].key, other->entries[i].value);
    } else if (arguments->count == 1) {
        jinja_iterator *iterator = jinja_iterate(work, arguments->items[0]);
        jinja_value item;
        while (jinja_next(work, iterator, &item)) {
            jinja_sequence *pair = jinja_collect(work, item);
            if (pair->count != 2)
                jinja_fail(work, LH_ERR_INVALID, "a dict is made of pairs");
            jinja_dict_set(work, dict, pair->items[0], pair->items[1]);
        }
    }
    add_named(work, dict, arguments);
    return dict;
}

static jinja_value call_dict(jinja_work *work, jinja_object *object,
                             const jinja_arguments *arguments) {
    (void)object;
    return jinja_dict_value(read_dict(work, arguments));
}

/* ---- namespace ---- */

typedef struct space {
    jinja_object object;
    jinja_dict *attributes;
} space;

static bool space_attribute(jinja_work *work, jinja_object *object, jinja_text name,
                            jinja_value *value) {
    const jinja_value *found = jinja_dict_get_text(work, ((space *)object)->attributes, name);
    if (found)
        *value = *found;
    return found != NULL;
}

static const jinja_class space_class = {.name = "Namespace", .attribute = space_attribute};

static jinja_value call_namespace(jinja_work *work, jinja_object *object,
                                  const jinja_arguments *arguments) {
    (void)object;
    space *made = jinja_allocate(work, sizeof *made);
    *made = (space){{&space_class}, read_dict(work, arguments)};
    return jinja_object_value(&made->object);
}

bool jinja_namespace_set(jinja_work *work, jinja_value value, jinja_text name,
                         jinja_value attribute) {
    if (value.kind != JINJA_OBJECT || value.object->class != &space_class)
        return false;
    jinja_dict_set(work, ((space *)value.object)->attributes, jinja_string(work, name), attribute);
    return true;
}

/* ---- range ---- */

static size_t range_count(int64_t start, int64_t stop, int64_t step) {
    if (step > 0)
        return start < stop ? ((uint64_t)stop - (uint64_t)start - 1) / (uint64_t)step + 1 : 0;
    return stop < start ? ((uint64_t)start - (uint64_t)stop - 1) / (0 - (uint64_t)step) + 1 : 0;
}

static jinja_value call_range(jinja_work *work, jinja_object *object,
                              const jinja_arguments *arguments) {
    (void)object;
    if (arguments->count < 1 || arguments->count > 3 || arguments->named_count)
        jinja_fail(work, LH_ERR_INVALID, "range takes one to three integers");
    int64_t given[3] = {0, 0, 1};
    for (size_t i = 0; i < arguments->count; i++)
        given[i] = jinja_integer_given(work, arguments->items[i], 0);
    jinja_range *range = jinja_allocate(work, sizeof *range);
    *range = arguments->count == 1
                 ? (jinja_range){.stop = given[0], .step = 1}
                 : (jinja_range){.start = given[0], .stop = given[1], .step = given[2]};
    if (range->step == 0)
        jinja_fail(work, LH_ERR_INVALID, "range's step must not be zero");
    range->count = range_count(range->start, range->stop, range->step);
    if (range->count > RANGE_MAX)
        jinja_fail(work, LH_ERR_LIMIT, "a range of %zu numbers is too long, %d are allowed",
                   range->count, RANGE_MAX);
    return (jinja_value){.kind = JINJA_RANGE, .range = range};
}

/* ---- joiner, cycler ---- */

typedef struct joiner {
    jinja_object object;
    jinja_value mark;
    bool is_used;
} joiner;

static jinja_value join(jinja_work *work, jinja_object *object, const jinja_arguments *arguments) {
    joiner *self = (joiner *)object;
    bool was_used = self->is_used;
    if (arguments->count || arguments->named_count)
        jinja_fail(work, LH_ERR_INVALID, "a joiner takes no arguments");
    self->is_used = true;
    return was_used ? self->mark : jinja_string_literal(work, "");
}

static const jinja_class joiner_class = {.name = "Joiner", .call = join};

static jinja_value make_joiner(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)self;
    joiner *made = jinja_allocate(work, sizeof *made);
    *made = (joiner){{&joiner_class},
                     call->given[0].kind == JINJA_MISSING ? jinja_string_literal(work, ", ")
                                                          : call->given[0],
                     false};
    return jinja_object_value(&made->object);
}

static jinja_value call_joiner(jinja_work *work, jinja_object *object,
                               const jinja_arguments *arguments) {
    static const jinja_entry_point entry = {"joiner", make_joiner, "sep", 0};
    return jinja_entry_point_call(work, &entry, jinja_object_value(object), arguments);
}

typedef struct cycler {
    jinja_object object;
    const jinja_sequence *items;
    size_t at;
} cycler;

typedef struct cycler_method {
    jinja_object object;
    cycler *of;
} cycler_method;

static jinja_value call_next(jinja_work *work, jinja_object *object,
                             const jinja_arguments *arguments) {
    cycler *self = ((cycler_method *)object)->of;
    if (arguments->count || arguments->named_count)
        jinja_fail(work, LH_ERR_INVALID, "next takes no arguments");
    jinja_value value = self->items->items[self->at];
    self->at = (self->at + 1) % self->items->count;
    return value;
}

static jinja_value call_reset(jinja_work *work, jinja_object *object,
                              const jinja_arguments *arguments) {
    if (arguments->count || arguments->named_count)
        jinja_fail(work, LH_ERR_INVALID, "reset takes no arguments");
    ((cycler_method *)object)->of->at = 0;
    return jinja_none();
}

static const jinja_class next_class = {.name = "method", .call = call_next};
static const jinja_class reset_class = {.name = "method", .call = call_reset};

static bool cycler_attribute(jinja_work *work, jinja_object *object, jinja_text name,
                             jinja_value *value) {
    cycler *self = (cycler *)object;
    if (jinja_text_is(name, "current")) {
        *value = self->items->items[self->at];
        return true;
    }
    bool is_next = jinja_text_is(name, "next");
    if (!is_next && !jinja_text_is(name, "reset"))
        return false;
    cycler_method *method = jinja_allocate(work, sizeof *method);
    *method = (cycler_method){{is_next ? &next_class : &reset_class}, self};
    *value = jinja_object_value(&method->object);
    return true;
}

static const jinja_class cycler_class = {.name = "Cycler", .attribute = cycler_attribute};

static jinja_value call_cycler(jinja_work *work, jinja_object *object,
                               const jinja_arguments *arguments) {
    (void)object;
    if (arguments->count == 0 || arguments->named_count)
        jinja_fail(work, LH_ERR_INVALID, "a cycler needs at least one item");
    cycler *made = jinja_allocate(work, sizeof *made);
    jinja_sequence *items = jinja_sequence_new(work, arguments->count);
    for (size_t i = 0; i < arguments->count; i++)
        jinja_sequence_push(work, items, arguments->items[i]);
    *made = (cycler){{&cycler_class}, items, 0};
    return jinja_object_value(&made->object);
}

/* ---- transformers' own ---- */

static jinja_value raise(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)self;
    jinja_text message = jinja_print(work, call->given[0]);
    jinja_fail(work, LH_ERR_INVALID, "%.*s", (int)(message.length < 240 ? message.length : 240),
               message.bytes ? message.bytes : "");
}

static jinja_value call_raise(jinja_work *work, jinja_object *object,
                              const jinja_arguments *arguments) {
    static const jinja_entry_point entry = {"raise_exception", raise, "message", 1};
    return jinja_entry_point_call(work, &entry, jinja_object_value(object), arguments);
}

typedef struct clock_function {
    jinja_object object;
    const struct tm *now;
} clock_function;

static jinja_value show_time(jinja_work *work, jinja_value self, const jinja_call *call) {
    const struct tm *now = ((clock_function *)self.object)->now;
    jinja_text pattern = jinja_text_given(work, call->given[0], "a format of the date");
    char format[200], text[1000];
    jinja_step(work, pattern.length);
    if (pattern.length >= sizeof format)
        jinja_fail(work, LH_ERR_LIMIT, "a format of the date is longer than %zu bytes",
                   sizeof format - 1);
    if (pattern.length)
        memcpy(format, pattern.bytes, pattern.length);
    format[pattern.length] = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t length = strftime(text, sizeof text, format, now);
#pragma GCC diagnostic pop
    jinja_builder out = {.work = work};
    jinja_builder_add(
        &out, jinja_text_of(text, length,
                            pattern.origins ? JINJA_OF_DATA : (jinja_origin)pattern.origin));
    return jinja_string(work, jinja_builder_text(&out));
}

static jinja_value call_strftime(jinja_work *work, jinja_object *object,
                                 const jinja_arguments *arguments) {
    static const jinja_entry_point entry = {"strftime_now", show_time, "format", 1};
    return jinja_entry_point_call(work, &entry, jinja_object_value(object), arguments);
}

static const jinja_class clock_class = {.name = "function", .call = call_strftime};

jinja_dict *jinja_globals_new(jinja_work *work, const struct tm *now) {
    static const struct {
        const char *name;
        jinja_class class;
    } functions[] = {{"cycler", {.name = "type", .call = call_cycler}},
                     {"dict", {.name = "type", .call = call_dict}},
                     {"joiner", {.name = "type", .call = call_joiner}},
                     {"namespace", {.name = "type", .call = call_namespace}},
                     {"raise_exception", {.name = "function", .call = call_raise}},
                     {"range", {.name = "type", .call = call_range}}};
    jinja_dict *globals = jinja_dict_new(work);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        jinja_object *object = jinja_allocate(work, sizeof *object);
        *object = (jinja_object){&functions[i].class};
        jinja_dict_set(work, globals, jinja_string_literal(work, functions[i].name),
                       jinja_object_value(object));
    }
    clock_function *clock = jinja_allocate(work, sizeof *clock);
    *clock = (clock_function){{&clock_class}, now};
    jinja_dict_set(work, globals, jinja_string_literal(work, "strftime_now"),
                   jinja_object_value(&clock->object));
    return globals;
}
