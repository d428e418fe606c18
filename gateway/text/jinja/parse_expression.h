/* Expressions, and the tokens that they are read from. Thread: the owner's. */
#pragma once

#include "gateway/text/jinja/lexer.h"
#include "gateway/text/jinja/syntax.h"

typedef struct jinja_parser {
    jinja_work *work;
    const jinja_token *token; /* the one that is looked at */
    jinja_dict *names;        /* of variables, each once */
    bool uses_caller, uses_kwargs, uses_varargs;
    uint32_t loops; /* that a break here would leave one of */
} jinja_parser;

jinja_parser jinja_parser_new(jinja_work *work, const char *bytes, size_t length);

bool jinja_at_name(const jinja_parser *parser, const char *name);
bool jinja_at_sign(const jinja_parser *parser, int sign);
bool jinja_take_name(jinja_parser *parser, const char *name);
bool jinja_take_sign(jinja_parser *parser, int sign);
void jinja_expect_name(jinja_parser *parser, const char *name);
void jinja_expect_sign(jinja_parser *parser, int sign);
void jinja_expect_kind(jinja_parser *parser, jinja_token_kind kind, const char *what);
_Noreturn void jinja_refuse_token(jinja_parser *parser, const char *expected);

jinja_node *jinja_node_new(jinja_parser *parser, jinja_node_kind kind);
void jinja_nodes_push(jinja_parser *parser, jinja_nodes *nodes, jinja_node *node);
/* Any name, which becomes a variable's. */
jinja_text jinja_take_variable(jinja_parser *parser);

jinja_node *jinja_parse_expression(jinja_parser *parser, bool with_condition);
/* Expressions by commas make a tuple; `stop` is a name that ends it, or NULL. */
jinja_node *jinja_parse_tuple(jinja_parser *parser, bool with_condition, const char *stop);
/* Names, tuples of names and, with_namespace, "a.b": what can be assigned to. */
jinja_node *jinja_parse_target(jinja_parser *parser, const char *stop, bool with_namespace);
/* "|name(...)" after `node`, as often as there is one; is_inline: the first is without "|". */
jinja_node *jinja_parse_filters(jinja_parser *parser, jinja_node *node, bool is_inline);
