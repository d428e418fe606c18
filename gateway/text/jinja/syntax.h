/* A parsed template: a tree in the arena of the one who parsed it. Never changed after it was made:
 * any thread may run it. */
#pragma once

#include "gateway/text/jinja/value.h"

typedef enum jinja_node_kind {
    /* Expressions. */
    JINJA_CONSTANT,
    JINJA_NAME,       /* name */
    JINJA_MAKE_LIST,  /* items */
    JINJA_MAKE_TUPLE, /* items */
    JINJA_MAKE_DICT,  /* items: key, value, key, value ... */
    JINJA_CONDITION,  /* first if second else third, which may be absent */
    JINJA_OR,
    JINJA_AND,
    JINJA_NOT,
    JINJA_COMPARE, /* first, items; operators of the items in their `sign` */
    JINJA_BINARY,  /* first, second; `sign` is a jinja_operator */
    JINJA_NEGATE,
    JINJA_POSITIVE,
    JINJA_CONCAT,    /* items */
    JINJA_ATTRIBUTE, /* first.name */
    JINJA_ITEM,      /* first[second] */
    JINJA_SLICE,     /* first[items[0]:items[1]:items[2]], each of which may be NULL */
    JINJA_CALL,      /* first(arguments) */
    JINJA_FILTER,    /* first|name(arguments) */
    JINJA_TEST,      /* first is name(arguments) */
    JINJA_INPUT,     /* what a filter block has rendered */
    /* Statements. */
    JINJA_TEXT,         /* constant */
    JINJA_PRINT,        /* first */
    JINJA_IF,           /* first: body, else otherwise */
    JINJA_FOR,          /* for first in second if third: body, else otherwise */
    JINJA_SET,          /* first = second */
    JINJA_SET_BLOCK,    /* first = the body through second, which may be NULL */
    JINJA_MACRO,        /* name, parameters: body */
    JINJA_CALL_BLOCK,   /* first is the call; parameters: body, which becomes `caller` */
    JINJA_FILTER_BLOCK, /* first: body */
    JINJA_WITH,         /* items: target, value, target, value ... */
    JINJA_SCOPE,        /* a body with variables of its own: a generation block */
    JINJA_BREAK,
    JINJA_CONTINUE,
    /* Targets, beside names and tuples. */
    JINJA_NAMESPACE_TARGET /* first.name */
} jinja_node_kind;

typedef struct jinja_node jinja_node;

typedef struct jinja_nodes {
    jinja_node **items; /* [count] */
    size_t count, capacity;
} jinja_nodes;

/* What compares an item of a JINJA_COMPARE with the one before it. */
typedef enum jinja_comparison {
    JINJA_IS_EQUAL,
    JINJA_IS_NOT_EQUAL,
    JINJA_IS_BELOW,
    JINJA_IS_AT_MOST,
    JINJA_IS_ABOVE,
    JINJA_IS_AT_LEAST,
    JINJA_IS_IN,
    JINJA_IS_NOT_IN
} jinja_comparison;

/* Arguments of a call as they are written: items by place, pairs of a name and a value, and lists
 * and dicts that are spread. */
typedef struct jinja_written_arguments {
    jinja_nodes items, named; /* of `named`, each node has its `name`, and its value as first */
    jinja_node *spread_list, *spread_dict;
} jinja_written_arguments;

struct jinja_node {
    jinja_node_kind kind;
    uint32_t line;
    int sign;
    bool is_recursive;                           /* of a loop */
    bool uses_caller, uses_kwargs, uses_varargs; /* of a macro's body */
    jinja_text name; /* of variables: the same bytes for the same name in the whole template */
    jinja_value constant;
    jinja_node *first, *second, *third;
    jinja_nodes items;
    jinja_written_arguments *arguments;
    jinja_nodes parameters; /* names; with a default, which is their first */
    jinja_nodes body, otherwise;
};

/* The bytes of those names that Jinja itself gives a value. */
extern const char jinja_loop_name[], jinja_caller_name[], jinja_kwargs_name[], jinja_varargs_name[];
