/* Most are questions of a value's kind. */
#include "gateway/text/jinja/tests.h"

#include "gateway/text/jinja/casing.h"
#include "gateway/text/jinja/iteration.h"
#include "gateway/text/jinja/operators.h"
#include "gateway/text/jinja/print.h"

#define KIND_TEST(name, question)                                                                  \
    static jinja_value name(jinja_work *work, jinja_value self, const jinja_call *call) {          \
        (void)work;                                                                                \
        (void)self;                                                                                \
        (void)call;                                                                                \
        return jinja_bool(question);                                                               \
    }

KIND_TEST(is_defined, self.kind != JINJA_UNDEFINED)
KIND_TEST(is_undefined, self.kind == JINJA_UNDEFINED)
KIND_TEST(is_none, self.kind == JINJA_NONE)
KIND_TEST(is_boolean, self.kind == JINJA_BOOL)
KIND_TEST(is_true, self.kind == JINJA_BOOL && self.boolean)
KIND_TEST(is_false, self.kind == JINJA_BOOL && !self.boolean)
KIND_TEST(is_integer, self.kind == JINJA_INT)
KIND_TEST(is_float, self.kind == JINJA_FLOAT)
KIND_TEST(is_number, jinja_is_number(self))
KIND_TEST(is_string, self.kind == JINJA_STRING)
KIND_TEST(is_mapping, self.kind == JINJA_DICT)
KIND_TEST(is_iterable, jinja_is_iterable(self))
/* Python asks for len() and [], which an undefined value has. */
KIND_TEST(is_sequence, jinja_has_length(self) && self.kind != JINJA_VIEW)
/* An undefined one, too, until it is called. */
KIND_TEST(is_callable,
          self.kind == JINJA_UNDEFINED || (self.kind == JINJA_OBJECT && self.object->class->call))

static jinja_value is_lower(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_text text = jinja_print(work, self);
    (void)call;
    jinja_step(work, text.length);
    return jinja_bool(jinja_all_lower(text));
}

static jinja_value is_upper(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_text text = jinja_print(work, self);
    (void)call;
    jinja_step(work, text.length);
    return jinja_bool(jinja_all_upper(text));
}

/* Does the division leave so much? */
static jinja_value leaves(jinja_work *work, jinja_value value, jinja_value by, double wanted) {
    return jinja_bool(jinja_number(jinja_operate(work, JINJA_MODULO, value, by)) == wanted);
}

static jinja_value is_odd(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return leaves(work, self, jinja_int(2), 1);
}

static jinja_value is_even(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return leaves(work, self, jinja_int(2), 0);
}

static jinja_value is_divisible(jinja_work *work, jinja_value self, const jinja_call *call) {
    return leaves(work, self, call->given[0], 0);
}

static jinja_value is_equal(jinja_work *work, jinja_value self, const jinja_call *call) {
    return jinja_bool(jinja_equal(work, self, call->given[0]));
}

static jinja_value is_not_equal(jinja_work *work, jinja_value self, const jinja_call *call) {
    return jinja_bool(!jinja_equal(work, self, call->given[0]));
}

static jinja_value is_below(jinja_work *work, jinja_value self, const jinja_call *call) {
    return jinja_bool(jinja_compare(work, self, call->given[0]) == -1);
}

static jinja_value is_at_most(jinja_work *work, jinja_value self, const jinja_call *call) {
    int order = jinja_compare(work, self, call->given[0]);
    return jinja_bool(order == -1 || order == 0);
}

static jinja_value is_above(jinja_work *work, jinja_value self, const jinja_call *call) {
    return jinja_bool(jinja_compare(work, self, call->given[0]) == 1);
}

static jinja_value is_at_least(jinja_work *work, jinja_value self, const jinja_call *call) {
    int order = jinja_compare(work, self, call->given[0]);
    return jinja_bool(order == 1 || order == 0);
}

static jinja_value is_in(jinja_work *work, jinja_value self, const jinja_call *call) {
    return jinja_bool(jinja_contains(work, call->given[0], self));
}

/* The same object; values of one kind that are small and equal count as the same. */
static jinja_value is_same(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_value other = call->given[0];
    if (self.kind != other.kind)
        return jinja_bool(false);
    if (jinja_is_sequence(self))
        return jinja_bool(self.sequence == other.sequence);
    if (self.kind == JINJA_DICT)
        return jinja_bool(self.dict == other.dict);
    return jinja_bool(jinja_equal(work, self, other));
}

static const jinja_entry_point tests[] = {
    {"!=", is_not_equal, "_", 1},
    {"<", is_below, "_", 1},
    {"<=", is_at_most, "_", 1},
    {"==", is_equal, "_", 1},
    {">", is_above, "_", 1},
    {">=", is_at_least, "_", 1},
    {"boolean", is_boolean, "", 0},
    {"callable", is_callable, "", 0},
    {"defined", is_defined, "", 0},
    {"divisibleby", is_divisible, "num", 1},
    {"eq", is_equal, "_", 1},
    {"equalto", is_equal, "_", 1},
    {"even", is_even, "", 0},
    {"false", is_false, "", 0},
    {"float", is_float, "", 0},
    {"ge", is_at_least, "_", 1},
    {"greaterthan", is_above, "_", 1},
    {"gt", is_above, "_", 1},
    {"in", is_in, "seq", 1},
    {"integer", is_integer, "", 0},
    {"iterable", is_iterable, "", 0},
    {"le", is_at_most, "_", 1},
    {"lessthan", is_below, "_", 1},
    {"lower", is_lower, "", 0},
    {"lt", is_below, "_", 1},
    {"mapping", is_mapping, "", 0},
    {"ne", is_not_equal, "_", 1},
    {"none", is_none, "", 0},
    {"number", is_number, "", 0},
    {"odd", is_odd, "", 0},
    {"sameas", is_same, "other", 1},
    {"sequence", is_sequence, "", 0},
    {"string", is_string, "", 0},
    {"true", is_true, "", 0},
    {"undefined", is_undefined, "", 0},
    {"upper", is_upper, "", 0},
    {NULL, NULL, NULL, 0},
};

jinja_value jinja_test(jinja_work *work, jinja_text name, jinja_value value,
                       const jinja_arguments *arguments) {
    const jinja_entry_point *found = jinja_entry_point_find(tests, name);
    if (!found)
        jinja_fail(work, LH_ERR_INVALID, "there is no test '%.*s'",
                   (int)(name.length < 40 ? name.length : 40), name.bytes);
    return jinja_entry_point_call(work, found, value, arguments);
}
