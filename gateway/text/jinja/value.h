/* Jinja's values, as Python has them. A value is small and passed by copy; what it points to lies
 * in an arena and is never changed after it was made, but for a namespace's attributes and an
 * iterator's place. Thread: the owner's of the work; constants of a parsed template: any. */
#pragma once

#include "gateway/text/jinja/text.h"

typedef enum jinja_kind {
    JINJA_MISSING, /* no value at all: an argument that was not given */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_VIEW, /* of a dict: its keys, values or items */
    JINJA_RANGE,
    JINJA_DICT,
    JINJA_ITERATOR,
    JINJA_OBJECT
} jinja_kind;

typedef struct jinja_value jinja_value;
typedef struct jinja_sequence jinja_sequence;
typedef struct jinja_range jinja_range;
typedef struct jinja_dict jinja_dict;
typedef struct jinja_iterator jinja_iterator;
typedef struct jinja_object jinja_object;

struct jinja_value {
    jinja_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double number;
        const jinja_text *text;
        const jinja_sequence *sequence; /* of a list, a tuple or a view */
        const jinja_range *range;
        const jinja_dict *dict;
        jinja_iterator *iterator;
        jinja_object *object;
        const char *why; /* of an undefined one: what there is not */
    };
};

struct jinja_sequence {
    jinja_value *items; /* [count] */
    size_t count, capacity;
    const char *view; /* "dict_keys", of a view */
};

struct jinja_range {
    int64_t start, step;
    size_t count;
    int64_t stop;
};

typedef struct jinja_entry {
    uint64_t hash;
    jinja_value key, value;
} jinja_entry;

struct jinja_dict {
    jinja_entry *entries; /* [count], in the order in which they were set */
    size_t count, capacity;
    uint32_t *slots; /* [slot_mask + 1]: entry + 1; NULL while there are few */
    size_t slot_mask;
};

/* Gives one value after the other; false: there are no more. */
struct jinja_iterator {
    bool (*next)(jinja_work *work, jinja_iterator *iterator, jinja_value *value);
    const char *name; /* "generator" */
    jinja_value source;
    size_t at;
    void *more; /* what the one who made it needs */
};

/* What a call has been given. */
typedef struct jinja_named {
    jinja_text name;
    jinja_value value;
} jinja_named;

typedef struct jinja_arguments {
    jinja_value *items; /* [count] */
    size_t count;
    jinja_named *named; /* [named_count] */
    size_t named_count;
} jinja_arguments;

/* What looking through them for a name takes. */
#define JINJA_NAMES_PER_STEP 2

/* What can be called or has attributes of its own. */
typedef struct jinja_class {
    const char *name;
    /* NULL: cannot be called */
    jinja_value (*call)(jinja_work *work, jinja_object *object, const jinja_arguments *arguments);
    /* False: there is none of this name. NULL: none at all */
    bool (*attribute)(jinja_work *work, jinja_object *object, jinja_text name, jinja_value *value);
} jinja_class;

struct jinja_object {
    const jinja_class *class;
};

jinja_value jinja_undefined(const char *why);
jinja_value jinja_none(void);
jinja_value jinja_bool(bool boolean);
jinja_value jinja_int(int64_t integer);
jinja_value jinja_float(double number);
jinja_value jinja_string(jinja_work *work, jinja_text text);
jinja_value jinja_string_literal(jinja_work *work, const char *literal);
jinja_value jinja_object_value(jinja_object *object);
jinja_value jinja_iterator_value(jinja_iterator *iterator);
/* What a failed look-up gives; the text is formatted into the arena. */
jinja_value jinja_undefined_of(jinja_work *work, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Lists are made by these, before anybody sees them as values. */
jinja_sequence *jinja_sequence_new(jinja_work *work, size_t capacity);
void jinja_sequence_push(jinja_work *work, jinja_sequence *sequence, jinja_value value);
jinja_value jinja_list(const jinja_sequence *sequence);
jinja_value jinja_tuple(const jinja_sequence *sequence);
jinja_value jinja_pair(jinja_work *work, jinja_value first, jinja_value second);

jinja_dict *jinja_dict_new(jinja_work *work);
/* Fails where the key cannot be hashed. */
void jinja_dict_set(jinja_work *work, jinja_dict *dict, jinja_value key, jinja_value value);
/* NULL: not there. Fails where the key cannot be hashed. */
const jinja_value *jinja_dict_get(jinja_work *work, const jinja_dict *dict, jinja_value key);
const jinja_value *jinja_dict_get_text(jinja_work *work, const jinja_dict *dict, jinja_text key);
jinja_value jinja_dict_value(const jinja_dict *dict);

bool jinja_is_true(jinja_value value);
bool jinja_is_sequence(jinja_value value); /* list, tuple or view */
/* bool, int or float, as a double. */
bool jinja_is_number(jinja_value value);
double jinja_number(jinja_value value);
/* bool or int. */
bool jinja_is_integer(jinja_value value);
int64_t jinja_integer(jinja_value value);

bool jinja_equal(jinja_work *work, jinja_value a, jinja_value b);
/* -1, 0, 1, or 2 where neither is true (NaN); fails where Python does not order such values. */
int jinja_compare(jinja_work *work, jinja_value a, jinja_value b);
/* "str", for messages. */
const char *jinja_type_name(jinja_value value);
_Noreturn void jinja_fail_undefined(jinja_work *work, jinja_value value);
/* Fails where the value is undefined. */
void jinja_need_defined(jinja_work *work, jinja_value value);
