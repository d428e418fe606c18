/* Arithmetic, subscripts and slices, as Python's. Each fails with what is wrong. Thread: the
 * owner's. */
#pragma once

#include "gateway/text/jinja/value.h"

typedef enum jinja_operator {
    JINJA_ADD,
    JINJA_SUBTRACT,
    JINJA_MULTIPLY,
    JINJA_DIVIDE,
    JINJA_FLOOR_DIVIDE,
    JINJA_MODULO, /* not of a string, which is a format */
    JINJA_POWER
} jinja_operator;

jinja_value jinja_operate(jinja_work *work, jinja_operator operator, jinja_value a, jinja_value b);
jinja_value jinja_negate(jinja_work *work, jinja_value value);
/* The part [start:stop:step]; JINJA_NONE for a bound that is not given. */
jinja_value jinja_slice(jinja_work *work, jinja_value value, jinja_value start, jinja_value stop,
                        jinja_value step);
/* value[index] of a string, sequence, range or dict. False: there is none, or it is of a type
 * without subscripts. */
bool jinja_subscript(jinja_work *work, jinja_value value, jinja_value index, jinja_value *item);
