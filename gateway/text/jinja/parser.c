/* Statements. */
#include "gateway/text/jinja/parser.h"

#include "gateway/text/jinja/parse_expression.h"

#include <string.h>

/* Up to one of `ends`, by blanks: "else endif". NULL: up to the template's end. Leaves the parser
 * at the name that ended it. */
static jinja_nodes parse_until(jinja_parser *parser, const char *ends);

/* A body, from behind its opening tag's expressions to its last tag, whose name is taken. */
static jinja_nodes parse_body(jinja_parser *parser, const char *end) {
    jinja_take_sign(parser, ':');
    jinja_expect_kind(parser, JINJA_TOKEN_BLOCK_END, "\"%}\"");
    jinja_nodes body = parse_until(parser, end);
    jinja_expect_name(parser, end);
    return body;
}

/* In a function of its own, as macros are: a break within does not leave the loops around. */
static jinja_nodes parse_own_body(jinja_parser *parser, const char *end) {
    uint32_t loops = parser->loops;
    parser->loops = 0;
    jinja_nodes body = parse_body(parser, end);
    parser->loops = loops;
    return body;
}

static jinja_node *parse_if(jinja_parser *parser) {
    jinja_node *node = jinja_node_new(parser, JINJA_IF);
    node->first = jinja_parse_tuple(parser, false, NULL);
    jinja_take_sign(parser, ':');
    jinja_expect_kind(parser, JINJA_TOKEN_BLOCK_END, "\"%}\"");
    node->body = parse_until(parser, "elif else endif");
    if (jinja_take_name(parser, "elif")) {
        jinja_enter(parser->work);
        jinja_nodes_push(parser, &node->otherwise, parse_if(parser));
        jinja_leave(parser->work);
    } else if (jinja_take_name(parser, "else")) {
        node->otherwise = parse_body(parser, "endif");
    } else {
        jinja_expect_name(parser, "endif");
    }
    return node;
}

static jinja_node *parse_for(jinja_parser *parser) {
    jinja_node *node = jinja_node_new(parser, JINJA_FOR);
    node->first = jinja_parse_target(parser, "in", false);
    jinja_expect_name(parser, "in");
    node->second = jinja_parse_tuple(parser, false, "recursive");
    if (jinja_take_name(parser, "if"))
        node->third = jinja_parse_expression(parser, true);
    node->is_recursive = jinja_take_name(parser, "recursive");
    jinja_take_sign(parser, ':');
    jinja_expect_kind(parser, JINJA_TOKEN_BLOCK_END, "\"%}\"");
    parser->loops++;
    node->body = parse_until(parser, "else endfor");
    parser->loops--;
    if (jinja_take_name(parser, "else"))
        node->otherwise = parse_body(parser, "endfor");
    else
        jinja_expect_name(parser, "endfor");
    return node;
}

static jinja_node *parse_set(jinja_parser *parser) {
    jinja_node *node = jinja_node_new(parser, JINJA_SET);
    node->first = jinja_parse_target(parser, NULL, true);
    if (jinja_take_sign(parser, '=')) {
        node->second = jinja_parse_tuple(parser, true, NULL);
        return node;
    }
    node->kind = JINJA_SET_BLOCK;
    if (jinja_at_sign(parser, '|'))
        node->second = jinja_parse_filters(parser, jinja_node_new(parser, JINJA_INPUT), false);
    node->body = parse_body(parser, "endset");
    return node;
}

static void parse_parameters(jinja_parser *parser, jinja_node *node) {
    bool has_defaults = false;
    jinja_expect_sign(parser, '(');
    while (!jinja_at_sign(parser, ')')) {
        if (node->parameters.count)
            jinja_expect_sign(parser, ',');
        jinja_node *parameter = jinja_node_new(parser, JINJA_NAME);
        parameter->name = jinja_take_variable(parser);
        jinja_nodes_push(parser, &node->parameters, parameter);
        if (jinja_take_sign(parser, '=')) {
            parameter->first = jinja_parse_expression(parser, true);
            has_defaults = true;
        } else if (has_defaults) {
            jinja_refuse_token(parser, "\"=\" and a default");
        }
    }
    jinja_expect_sign(parser, ')');
}

/* The body of a macro or a call block, and which of the special names it uses; those count for what
 * is around it, too. */
static void parse_function_body(jinja_parser *parser, jinja_node *node, const char *end) {
    jinja_parser before = *parser;
    parser->uses_caller = parser->uses_kwargs = parser->uses_varargs = false;
    node->body = parse_own_body(parser, end);
    node->uses_caller = parser->uses_caller;
    node->uses_kwargs = parser->uses_kwargs;
    node->uses_varargs = parser->uses_varargs;
    parser->uses_caller = parser->uses_caller || before.uses_caller;
    parser->uses_kwargs = parser->uses_kwargs || before.uses_kwargs;
    parser->uses_varargs = parser->uses_varargs || before.uses_varargs;
}

static jinja_node *parse_macro(jinja_parser *parser) {
    jinja_node *node = jinja_node_new(parser, JINJA_MACRO);
    node->name = jinja_take_variable(parser);
    parse_parameters(parser, node);
    parse_function_body(parser, node, "endmacro");
    return node;
}

static jinja_node *parse_call_block(jinja_parser *parser) {
    jinja_node *node = jinja_node_new(parser, JINJA_CALL_BLOCK);
    if (jinja_at_sign(parser, '('))
        parse_parameters(parser, node);
    node->first = jinja_parse_expression(parser, true);
    if (node->first->kind != JINJA_CALL)
        jinja_fail(parser->work, LH_ERR_UNSUPPORTED, "a call is expected behind \"call\"");
    parse_function_body(parser, node, "endcall");
    return node;
}

static jinja_node *parse_filter_block(jinja_parser *parser) {
    jinja_node *node = jinja_node_new(parser, JINJA_FILTER_BLOCK);
    node->first = jinja_parse_filters(parser, jinja_node_new(parser, JINJA_INPUT), true);
    node->body = parse_body(parser, "endfilter");
    return node;
}

static jinja_node *parse_with(jinja_parser *parser) {
    jinja_node *node = jinja_node_new(parser, JINJA_WITH);
    while (parser->token->kind != JINJA_TOKEN_BLOCK_END) {
        if (node->items.count)
            jinja_expect_sign(parser, ',');
        jinja_nodes_push(parser, &node->items, jinja_parse_target(parser, NULL, false));
        jinja_expect_sign(parser, '=');
        jinja_nodes_push(parser, &node->items, jinja_parse_expression(parser, true));
    }
    node->body = parse_body(parser, "endwith");
    return node;
}

static jinja_node *parse_generation(jinja_parser *parser) {
    jinja_node *node = jinja_node_new(parser, JINJA_SCOPE);
    node->body = parse_own_body(parser, "endgeneration");
    return node;
}

static jinja_node *parse_leap(jinja_parser *parser, jinja_node_kind kind) {
    if (parser->loops == 0)
        jinja_fail(parser->work, LH_ERR_UNSUPPORTED, "a loop is expected around \"%s\"",
                   kind == JINJA_BREAK ? "break" : "continue");
    return jinja_node_new(parser, kind);
}

static jinja_node *parse_statement(jinja_parser *parser) {
    if (jinja_take_name(parser, "if"))
        return parse_if(parser);
    if (jinja_take_name(parser, "for"))
        return parse_for(parser);
    if (jinja_take_name(parser, "set"))
        return parse_set(parser);
    if (jinja_take_name(parser, "macro"))
        return parse_macro(parser);
    if (jinja_take_name(parser, "call"))
        return parse_call_block(parser);
    if (jinja_take_name(parser, "filter"))
        return parse_filter_block(parser);
    if (jinja_take_name(parser, "with"))
        return parse_with(parser);
    if (jinja_take_name(parser, "generation"))
        return parse_generation(parser);
    if (jinja_take_name(parser, "break"))
        return parse_leap(parser, JINJA_BREAK);
    if (jinja_take_name(parser, "continue"))
        return parse_leap(parser, JINJA_CONTINUE);
    jinja_refuse_token(parser, "if, for, set, macro, call, filter, with, generation, break or "
                               "continue");
}

static jinja_node *parse_text(jinja_parser *parser) {
    jinja_node *node = jinja_node_new(parser, JINJA_TEXT);
    node->constant = jinja_string(parser->work, parser->token->text);
    jinja_expect_kind(parser, JINJA_TOKEN_DATA, "text");
    return node;
}

static jinja_node *parse_print(jinja_parser *parser) {
    jinja_node *node = jinja_node_new(parser, JINJA_PRINT);
    jinja_expect_kind(parser, JINJA_TOKEN_VARIABLE_BEGIN, "\"{{\"");
    node->first = jinja_parse_tuple(parser, true, NULL);
    jinja_expect_kind(parser, JINJA_TOKEN_VARIABLE_END, "\"}}\"");
    return node;
}

static bool is_end(const jinja_parser *parser, const char *ends) {
    jinja_text name = parser->token->text;
    if (!ends || parser->token->kind != JINJA_TOKEN_NAME)
        return false;
    for (const char *at = ends; *at;) {
        size_t length = strcspn(at, " ");
        if (length == name.length && memcmp(at, name.bytes, length) == 0)
            return true;
        at += length + (at[length] == ' ');
    }
    return false;
}

static jinja_nodes parse_until(jinja_parser *parser, const char *ends) {
    jinja_nodes body = {0};
    jinja_enter(parser->work);
    while (parser->token->kind != JINJA_TOKEN_END) {
        if (parser->token->kind == JINJA_TOKEN_DATA) {
            jinja_nodes_push(parser, &body, parse_text(parser));
        } else if (parser->token->kind == JINJA_TOKEN_VARIABLE_BEGIN) {
            jinja_nodes_push(parser, &body, parse_print(parser));
        } else {
            jinja_expect_kind(parser, JINJA_TOKEN_BLOCK_BEGIN, "\"{%\"");
            if (is_end(parser, ends))
                break;
            jinja_nodes_push(parser, &body, parse_statement(parser));
            jinja_expect_kind(parser, JINJA_TOKEN_BLOCK_END, "\"%}\"");
        }
    }
    jinja_leave(parser->work);
    if (ends && parser->token->kind == JINJA_TOKEN_END)
        jinja_refuse_token(parser, ends);
    return body;
}

jinja_nodes jinja_parse(jinja_work *work, const char *bytes, size_t length) {
    jinja_parser parser = jinja_parser_new(work, bytes, length);
    return parse_until(&parser, NULL);
}
