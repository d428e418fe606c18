/* What a built-in function takes, and a call's arguments put into their places. Thread: the
 * owner's. */
#pragma once

#include "gateway/text/jinja/value.h"

#define JINJA_PARAMETERS_MAX 6

typedef struct jinja_call {
    jinja_value given[JINJA_PARAMETERS_MAX]; /* JINJA_MISSING: not given */
    const jinja_arguments *all;
} jinja_call;

typedef jinja_value jinja_function(jinja_work *work, jinja_value self, const jinja_call *call);

/* A row of a table of functions: filters, tests, methods. */
typedef struct jinja_entry_point {
    const char *name;
    jinja_function *function;
    /* names, by commas: "old,new,count"; "*": whatever comes, which is in call->all. A parameter
     * "_" has no name for the caller */
    const char *parameters;
    unsigned required;
} jinja_entry_point;

/* NULL: no row has the name. The table ends with a row without a name. */
const jinja_entry_point *jinja_entry_point_find(const jinja_entry_point *table, jinja_text name);
/* Fails where the arguments do not suit. */
jinja_value jinja_entry_point_call(jinja_work *work, const jinja_entry_point *entry,
                                   jinja_value self, const jinja_arguments *arguments);

/* A named argument, or NULL. */
const jinja_value *jinja_named_argument(const jinja_arguments *arguments, const char *name);

/* Values as a built-in function wants them; they fail otherwise. */
int64_t jinja_integer_given(jinja_work *work, jinja_value value, int64_t otherwise);
jinja_text jinja_text_given(jinja_work *work, jinja_value value, const char *what);
