/* Integers have 64 bits here; what does not fit is an error, never a wrong number. */
#include "gateway/text/jinja/operators.h"

#include "gateway/text/jinja/iteration.h"

#include <math.h>

static _Noreturn void refuse(jinja_work *work, jinja_operator operator, jinja_value a,
                             jinja_value b) {
    static const char *const signs[] = {"+", "-", "*", "/", "//", "%", "**"};
    jinja_fail(work, LH_ERR_INVALID, "'%s' does not go between '%s' and '%s'", signs[operator],
               jinja_type_name(a), jinja_type_name(b));
}

static int64_t floor_divide(int64_t a, int64_t b) {
    int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static double floor_modulo(double a, double b) {
    double rest = fmod(a, b);
    if (rest != 0)
        return (rest < 0) != (b < 0) ? rest + b : rest;
    return copysign(0, b);
}

/* As Python's float_divmod has it. */
static double floor_quotient(double a, double b) {
    double quotient = (a - floor_modulo(a, b)) / b;
    if (quotient == 0)
        return copysign(0, a / b);
    double floored = floor(quotient);
    return quotient - floored > 0.5 ? floored + 1 : floored;
}

static jinja_value operate_floats(jinja_work *work, jinja_operator operator, double a, double b) {
    bool divides = operator== JINJA_DIVIDE || operator== JINJA_FLOOR_DIVIDE || operator==
        JINJA_MODULO;
    if (divides && b == 0)
        jinja_fail(work, LH_ERR_INVALID, "division by zero");
    switch (operator) {
    case JINJA_ADD:
        return jinja_float(a + b);
    case JINJA_SUBTRACT:
        return jinja_float(a - b);
    case JINJA_MULTIPLY:
        return jinja_float(a * b);
    case JINJA_DIVIDE:
        return jinja_float(a / b);
    case JINJA_FLOOR_DIVIDE:
        return jinja_float(floor_quotient(a, b));
    case JINJA_MODULO:
        return jinja_float(floor_modulo(a, b));
    case JINJA_POWER:
        break;
    }
    double power = pow(a, b);
    if (!isfinite(power) && isfinite(a) && isfinite(b))
        jinja_fail(work, LH_ERR_INVALID, "%g ** %g is out of range", a, b);
    if (isnan(power) && !isnan(a) && !isnan(b))
        jinja_fail(work, LH_ERR_INVALID, "%g ** %g is not real", a, b);
    return jinja_float(power);
}

static bool power_overflows(int64_t base, int64_t exponent, int64_t *result) {
    *result = 1;
    if (base == 0 || base == 1 || base == -1) {
        *result = base == 0 ? exponent == 0 : base == 1 || exponent % 2 == 0 ? 1 : -1;
        return false;
    }
    for (int64_t i = 0; i < exponent; i++)
        if (__builtin_mul_overflow(*result, base, result))
            return true;
    return false;
}

static jinja_value operate_integers(jinja_work *work, jinja_operator operator, int64_t a,
                                    int64_t b) {
    int64_t result = 0;
    bool overflows = false;
    if (operator== JINJA_DIVIDE ||(operator== JINJA_POWER && b<0))
        return operate_floats(work, operator,(double) a, (double)b);
    bool divides = operator== JINJA_FLOOR_DIVIDE || operator== JINJA_MODULO;
    if (divides && b == 0)
        jinja_fail(work, LH_ERR_INVALID, "division by zero");
    if (operator== JINJA_ADD)
        overflows = __builtin_add_overflow(a, b, &result);
    else if (operator== JINJA_SUBTRACT)
        overflows = __builtin_sub_overflow(a, b, &result);
    else if (operator== JINJA_MULTIPLY)
        overflows = __builtin_mul_overflow(a, b, &result);
    else if (operator== JINJA_POWER)
        overflows = power_overflows(a, b, &result);
    else if (b == -1)
        overflows = operator== JINJA_FLOOR_DIVIDE && __builtin_sub_overflow(0, a, &result);
    else
        result = operator== JINJA_FLOOR_DIVIDE ? floor_divide(a, b) : a - floor_divide(a, b) * b;
    if (overflows)
        jinja_fail(work, LH_ERR_LIMIT, "an integer has more than 64 bits");
    return jinja_int(result);
}

static jinja_value add_sequences(jinja_work *work, jinja_value a, jinja_value b) {
    jinja_sequence *sum = jinja_sequence_new(work, a.sequence->count + b.sequence->count);
    for (size_t i = 0; i < a.sequence->count; i++)
        jinja_sequence_push(work, sum, a.sequence->items[i]);
    for (size_t i = 0; i < b.sequence->count; i++)
        jinja_sequence_push(work, sum, b.sequence->items[i]);
    return a.kind == JINJA_LIST ? jinja_list(sum) : jinja_tuple(sum);
}

static jinja_value repeat(jinja_work *work, jinja_value value, int64_t times) {
    if (value.kind == JINJA_STRING) {
        jinja_builder out = {.work = work};
        if (times > 0)
            jinja_builder_add_times(&out, *value.text, (size_t)times);
        return jinja_string(work, jinja_builder_text(&out));
    }
    jinja_sequence *all = jinja_sequence_new(work, 0);
    for (int64_t i = 0; i < times && value.sequence->count; i++)
        for (size_t k = 0; k < value.sequence->count; k++)
            jinja_sequence_push(work, all, value.sequence->items[k]);
    return value.kind == JINJA_LIST ? jinja_list(all) : jinja_tuple(all);
}

static bool can_be_repeated(jinja_value value) {
    return value.kind == JINJA_STRING || value.kind == JINJA_LIST || value.kind == JINJA_TUPLE;
}

jinja_value jinja_operate(jinja_work *work, jinja_operator operator, jinja_value a, jinja_value b) {
    jinja_need_defined(work, a);
    jinja_need_defined(work, b);
    if (jinja_is_integer(a) && jinja_is_integer(b))
        return operate_integers(work, operator, jinja_integer(a), jinja_integer(b));
    if (jinja_is_number(a) && jinja_is_number(b))
        return operate_floats(work, operator, jinja_number(a), jinja_number(b));
    if (operator== JINJA_ADD && a.kind == JINJA_STRING && b.kind == JINJA_STRING)
        return jinja_string(work, jinja_text_join(work, *a.text, *b.text));
    if (operator== JINJA_ADD && a.kind == b.kind &&(a.kind == JINJA_LIST || a.kind == JINJA_TUPLE))
        return add_sequences(work, a, b);
    if (operator== JINJA_MULTIPLY && can_be_repeated(a) && jinja_is_integer(b))
        return repeat(work, a, jinja_integer(b));
    if (operator== JINJA_MULTIPLY && can_be_repeated(b) && jinja_is_integer(a))
        return repeat(work, b, jinja_integer(a));
    refuse(work, operator, a, b);
}

jinja_value jinja_negate(jinja_work *work, jinja_value value) {
    jinja_need_defined(work, value);
    if (jinja_is_integer(value))
        return operate_integers(work, JINJA_SUBTRACT, 0, jinja_integer(value));
    if (value.kind != JINJA_FLOAT)
        jinja_fail(work, LH_ERR_INVALID, "'%s' has no negative", jinja_type_name(value));
    return jinja_float(-value.number);
}

/* What Python's slice.indices gives. */
typedef struct bounds {
    int64_t start, stop, step;
} bounds;

static int64_t clamp(int64_t index, int64_t length, bool is_forward) {
    if (index < 0)
        index += length;
    if (index < 0)
        return is_forward ? 0 : -1;
    return index >= length ? (is_forward ? length : length - 1) : index;
}

static int64_t bound_of(jinja_work *work, jinja_value value) {
    if (!jinja_is_integer(value))
        jinja_fail(work, LH_ERR_INVALID, "a slice's bounds must be integers, not '%s'",
                   jinja_type_name(value));
    /* beyond any length, but far from an overflow */
    int64_t bound = jinja_integer(value), far = INT64_MAX / 4;
    return bound > far ? far : bound < -far ? -far : bound;
}

static bounds bounds_of(jinja_work *work, jinja_value start, jinja_value stop, jinja_value step,
                        int64_t length) {
    bounds b = {.step = step.kind == JINJA_NONE ? 1 : bound_of(work, step)};
    if (b.step == 0)
        jinja_fail(work, LH_ERR_INVALID, "a slice's step must not be zero");
    bool forward = b.step > 0;
    b.start = start.kind == JINJA_NONE ? (forward ? 0 : length - 1)
                                       : clamp(bound_of(work, start), length, forward);
    b.stop = stop.kind == JINJA_NONE ? (forward ? length : -1)
                                     : clamp(bound_of(work, stop), length, forward);
    return b;
}

static size_t count_of(bounds b) {
    if (b.step > 0)
        return b.start < b.stop ? (size_t)((b.stop - b.start - 1) / b.step + 1) : 0;
    return b.stop < b.start ? (size_t)((b.start - b.stop - 1) / -b.step + 1) : 0;
}

static jinja_value slice_text(jinja_work *work, jinja_text text, bounds b) {
    if (b.step == 1) {
        size_t begin = jinja_text_at(work, text, (size_t)b.start), end = begin;
        if (b.stop > b.start)
            end += jinja_text_at(work, jinja_text_cut(text, begin, text.length),
                                 (size_t)(b.stop - b.start));
        return jinja_string(work, jinja_text_cut(text, begin, end));
    }
    jinja_value whole = jinja_string(work, text);
    jinja_sequence *characters = jinja_collect(work, whole);
    jinja_builder out = {.work = work};
    for (size_t i = 0, count = count_of(b); i < count; i++)
        jinja_builder_add(&out, *characters->items[b.start + (int64_t)i * b.step].text);
    return jinja_string(work, jinja_builder_text(&out));
}

static jinja_value slice_range(jinja_work *work, const jinja_range *range, bounds b) {
    jinja_range *part = jinja_allocate(work, sizeof *part);
    *part = (jinja_range){.start = range->start + b.start * range->step,
                          .step = range->step * b.step,
                          .count = count_of(b),
                          .stop = range->start + b.stop * range->step};
    return (jinja_value){.kind = JINJA_RANGE, .range = part};
}

jinja_value jinja_slice(jinja_work *work, jinja_value value, jinja_value start, jinja_value stop,
                        jinja_value step) {
    jinja_need_defined(work, value);
    if (value.kind != JINJA_STRING && value.kind != JINJA_LIST && value.kind != JINJA_TUPLE &&
        value.kind != JINJA_RANGE)
        return jinja_undefined_of(work, "'%s' has no slices", jinja_type_name(value));
    bounds b = bounds_of(work, start, stop, step, (int64_t)jinja_length(work, value));
    if (value.kind == JINJA_STRING)
        return slice_text(work, *value.text, b);
    if (value.kind == JINJA_RANGE)
        return slice_range(work, value.range, b);
    size_t count = count_of(b);
    jinja_sequence *part = jinja_sequence_new(work, count);
    for (size_t i = 0; i < count; i++)
        jinja_sequence_push(work, part, value.sequence->items[b.start + (int64_t)i * b.step]);
    return value.kind == JINJA_LIST ? jinja_list(part) : jinja_tuple(part);
}

bool jinja_subscript(jinja_work *work, jinja_value value, jinja_value index, jinja_value *item) {
    if (value.kind == JINJA_DICT) {
        if (index.kind == JINJA_LIST || index.kind == JINJA_DICT || index.kind == JINJA_VIEW)
            return false;
        const jinja_value *found = jinja_dict_get(work, value.dict, index);
        if (found)
            *item = *found;
        return found != NULL;
    }
    bool has_items = value.kind == JINJA_STRING || value.kind == JINJA_LIST ||
                     value.kind == JINJA_TUPLE || value.kind == JINJA_RANGE;
    if (!has_items || !jinja_is_integer(index))
        return false;
    int64_t at = jinja_integer(index), length = (int64_t)jinja_length(work, value);
    if (at < 0)
        at += length;
    if (at < 0 || at >= length)
        return false;
    *item = jinja_item_at(work, value, (size_t)at);
    return true;
}
