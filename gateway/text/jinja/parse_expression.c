/* Follows jinja2's parser, function by function: each level of precedence is one. */
#include "gateway/text/jinja/parse_expression.h"

#include "gateway/text/jinja/operators.h"

#include <assert.h>
#include <string.h>

const char jinja_loop_name[] = "loop", jinja_caller_name[] = "caller",
           jinja_kwargs_name[] = "kwargs", jinja_varargs_name[] = "varargs";

static jinja_node *parse_unary(jinja_parser *parser, bool with_filters);

/* ---- Tokens. ---- */

bool jinja_at_name(const jinja_parser *parser, const char *name) {
    return parser->token->kind == JINJA_TOKEN_NAME && jinja_text_is(parser->token->text, name);
}

bool jinja_at_sign(const jinja_parser *parser, int sign) {
    return parser->token->kind == JINJA_TOKEN_SIGN && parser->token->sign == sign;
}

static void next(jinja_parser *parser) {
    if (parser->token->kind != JINJA_TOKEN_END)
        parser->token++;
    parser->work->line = parser->token->line;
}

bool jinja_take_name(jinja_parser *parser, const char *name) {
    bool is_there = jinja_at_name(parser, name);
    if (is_there)
        next(parser);
    return is_there;
}

bool jinja_take_sign(jinja_parser *parser, int sign) {
    bool is_there = jinja_at_sign(parser, sign);
    if (is_there)
        next(parser);
    return is_there;
}

void jinja_refuse_token(jinja_parser *parser, const char *expected) {
    const jinja_token *token = parser->token;
    parser->work->line = token->line;
    if (token->kind == JINJA_TOKEN_END)
        jinja_fail(parser->work, LH_ERR_UNSUPPORTED, "%s is expected, but the template ends",
                   expected);
    size_t length = token->text.length < 40 ? token->text.length : 40;
    jinja_fail(parser->work, LH_ERR_UNSUPPORTED, "%s is expected, not \"%.*s\"", expected,
               (int)length, token->text.bytes);
}

void jinja_expect_name(jinja_parser *parser, const char *name) {
    if (!jinja_take_name(parser, name))
        jinja_refuse_token(parser, name);
}

void jinja_expect_sign(jinja_parser *parser, int sign) {
    char what[] = {'"', (char)sign, '"', 0};
    assert(sign < 256);
    if (!jinja_take_sign(parser, sign))
        jinja_refuse_token(parser, what);
}

void jinja_expect_kind(jinja_parser *parser, jinja_token_kind kind, const char *what) {
    if (parser->token->kind != kind)
        jinja_refuse_token(parser, what);
    next(parser);
}

/* ---- Nodes. ---- */

jinja_node *jinja_node_new(jinja_parser *parser, jinja_node_kind kind) {
    jinja_node *node = jinja_allocate(parser->work, sizeof *node);
    *node = (jinja_node){.kind = kind, .line = parser->token->line};
    jinja_step(parser->work, 4);
    return node;
}

void jinja_nodes_push(jinja_parser *parser, jinja_nodes *nodes, jinja_node *node) {
    if (nodes->count == nodes->capacity)
        nodes->items = jinja_grow(parser->work, nodes->items, nodes->count, &nodes->capacity, 2,
                                  sizeof(jinja_node *));
    nodes->items[nodes->count++] = node;
}

static jinja_node *make(jinja_parser *parser, jinja_node_kind kind, jinja_node *first,
                        jinja_node *second) {
    jinja_node *node = jinja_node_new(parser, kind);
    node->first = first;
    node->second = second;
    return node;
}

static jinja_text intern(jinja_parser *parser, jinja_text name) {
    const jinja_value *known = jinja_dict_get_text(parser->work, parser->names, name);
    if (known)
        return *known->text;
    jinja_value value = jinja_string(parser->work, name);
    jinja_dict_set(parser->work, parser->names, value, value);
    return name;
}

jinja_parser jinja_parser_new(jinja_work *work, const char *bytes, size_t length) {
    jinja_parser made = {.work = work, .names = jinja_dict_new(work)};
    const char *const names[] = {jinja_loop_name, jinja_caller_name, jinja_kwargs_name,
                                 jinja_varargs_name};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        intern(&made, jinja_text_literal(names[i]));
    made.token = jinja_tokenize(work, bytes, length);
    return made;
}

jinja_text jinja_take_variable(jinja_parser *parser) {
    jinja_text name = parser->token->text;
    jinja_expect_kind(parser, JINJA_TOKEN_NAME, "a name");
    parser->uses_caller = parser->uses_caller || jinja_text_is(name, "caller");
    parser->uses_kwargs = parser->uses_kwargs || jinja_text_is(name, "kwargs");
    parser->uses_varargs = parser->uses_varargs || jinja_text_is(name, "varargs");
    return intern(parser, name);
}

/* ---- Primaries. ---- */

static jinja_node *parse_name(jinja_parser *parser) {
    static const struct {
        const char *name;
        jinja_kind kind;
        bool boolean;
    } constants[] = {{"true", JINJA_BOOL, true},   {"True", JINJA_BOOL, true},
                     {"false", JINJA_BOOL, false}, {"False", JINJA_BOOL, false},
                     {"none", JINJA_NONE, false},  {"None", JINJA_NONE, false}};
    jinja_node *node = jinja_node_new(parser, JINJA_CONSTANT);
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
        if (jinja_take_name(parser, constants[i].name)) {
            node->constant = (jinja_value){.kind = constants[i].kind};
            if (constants[i].kind == JINJA_BOOL)
                node->constant.boolean = constants[i].boolean;
            return node;
        }
    node->kind = JINJA_NAME;
    node->name = jinja_take_variable(parser);
    return node;
}

static bool at_string(const jinja_parser *parser) {
    return parser->token->kind == JINJA_TOKEN_CONSTANT &&
           parser->token->constant.kind == JINJA_STRING;
}

static jinja_node *parse_constant(jinja_parser *parser) {
    jinja_node *node = jinja_node_new(parser, JINJA_CONSTANT);
    node->constant = parser->token->constant;
    next(parser);
    while (node->constant.kind == JINJA_STRING && at_string(parser)) {
        node->constant =
            jinja_string(parser->work, jinja_text_join(parser->work, *node->constant.text,
                                                       *parser->token->constant.text));
        next(parser);
    }
    return node;
}

static jinja_node *parse_list(jinja_parser *parser) {
    jinja_node *node = jinja_node_new(parser, JINJA_MAKE_LIST);
    jinja_expect_sign(parser, '[');
    while (!jinja_at_sign(parser, ']')) {
        if (node->items.count)
            jinja_expect_sign(parser, ',');
        if (jinja_at_sign(parser, ']'))
            break;
        jinja_nodes_push(parser, &node->items, jinja_parse_expression(parser, true));
    }
    jinja_expect_sign(parser, ']');
    return node;
}

static jinja_node *parse_dict(jinja_parser *parser) {
    jinja_node *node = jinja_node_new(parser, JINJA_MAKE_DICT);
    jinja_expect_sign(parser, '{');
    while (!jinja_at_sign(parser, '}')) {
        if (node->items.count)
            jinja_expect_sign(parser, ',');
        if (jinja_at_sign(parser, '}'))
            break;
        jinja_nodes_push(parser, &node->items, jinja_parse_expression(parser, true));
        jinja_expect_sign(parser, ':');
        jinja_nodes_push(parser, &node->items, jinja_parse_expression(parser, true));
    }
    jinja_expect_sign(parser, '}');
    return node;
}

static bool is_tuple_end(const jinja_parser *parser, const char *stop) {
    return parser->token->kind == JINJA_TOKEN_VARIABLE_END ||
           parser->token->kind == JINJA_TOKEN_BLOCK_END || jinja_at_sign(parser, ')') ||
           (stop && jinja_at_name(parser, stop));
}

typedef enum tuple_of { EXPRESSIONS, PLAIN_EXPRESSIONS, TARGETS, NAMESPACE_TARGETS } tuple_of;

static jinja_node *parse_primary(jinja_parser *parser, bool with_namespace);

static jinja_node *parse_many(jinja_parser *parser, tuple_of of, const char *stop,
                              bool in_parentheses) {
    jinja_node *tuple = jinja_node_new(parser, JINJA_MAKE_TUPLE);
    bool is_tuple = false;
    for (;;) {
        if (tuple->items.count)
            jinja_expect_sign(parser, ',');
        if (is_tuple_end(parser, stop))
            break;
        jinja_nodes_push(parser, &tuple->items,
                         of == TARGETS || of == NAMESPACE_TARGETS
                             ? parse_primary(parser, of == NAMESPACE_TARGETS)
                             : jinja_parse_expression(parser, of == EXPRESSIONS));
        if (!jinja_at_sign(parser, ','))
            break;
        is_tuple = true;
    }
    if (!is_tuple && tuple->items.count)
        return tuple->items.items[0];
    if (!is_tuple && !in_parentheses)
        jinja_refuse_token(parser, "an expression");
    return tuple;
}

static jinja_node *parse_primary(jinja_parser *parser, bool with_namespace) {
    jinja_node *node;
    if (parser->token->kind == JINJA_TOKEN_NAME) {
        node = parse_name(parser);
        if (!with_namespace || node->kind != JINJA_NAME || !jinja_take_sign(parser, '.'))
            return node;
        jinja_node *target = make(parser, JINJA_NAMESPACE_TARGET, node, NULL);
        target->name = parser->token->text;
        jinja_expect_kind(parser, JINJA_TOKEN_NAME, "a name");
        return target;
    }
    if (parser->token->kind == JINJA_TOKEN_CONSTANT)
        return parse_constant(parser);
    if (jinja_at_sign(parser, '['))
        return parse_list(parser);
    if (jinja_at_sign(parser, '{'))
        return parse_dict(parser);
    if (!jinja_take_sign(parser, '('))
        jinja_refuse_token(parser, "an expression");
    jinja_enter(parser->work);
    node = parse_many(parser, EXPRESSIONS, NULL, true);
    jinja_leave(parser->work);
    jinja_expect_sign(parser, ')');
    return node;
}

jinja_node *jinja_parse_tuple(jinja_parser *parser, bool with_condition, const char *stop) {
    return parse_many(parser, with_condition ? EXPRESSIONS : PLAIN_EXPRESSIONS, stop, false);
}

static void check_target(jinja_parser *parser, const jinja_node *target) {
    for (size_t i = 0; target->kind == JINJA_MAKE_TUPLE && i < target->items.count; i++)
        check_target(parser, target->items.items[i]);
    if (target->kind != JINJA_NAME && target->kind != JINJA_MAKE_TUPLE &&
        target->kind != JINJA_NAMESPACE_TARGET)
        jinja_fail(parser->work, LH_ERR_UNSUPPORTED,
                   "a name is expected, since nothing else can be assigned to");
}

jinja_node *jinja_parse_target(jinja_parser *parser, const char *stop, bool with_namespace) {
    jinja_node *target =
        parse_many(parser, with_namespace ? NAMESPACE_TARGETS : TARGETS, stop, false);
    check_target(parser, target);
    return target;
}

/* ---- What follows a primary. ---- */

/* "1", "1:2", "::3": items[0..2] of a slice, or one expression. */
static jinja_node *parse_subscript(jinja_parser *parser, jinja_node *of) {
    jinja_node *slice = make(parser, JINJA_SLICE, of, NULL), *bound = NULL;
    bool is_slice = jinja_at_sign(parser, ':');
    if (!is_slice) {
        bound = jinja_parse_expression(parser, true);
        if (!jinja_at_sign(parser, ':')) {
            slice->kind = JINJA_ITEM;
            slice->second = bound;
            return slice;
        }
    }
    jinja_nodes_push(parser, &slice->items, bound);
    for (int i = 0; i < 2; i++) {
        bool has_more = jinja_take_sign(parser, ':');
        bool is_there = has_more && !jinja_at_sign(parser, ':') && !jinja_at_sign(parser, ']') &&
                        !jinja_at_sign(parser, ',');
        jinja_nodes_push(parser, &slice->items,
                         is_there ? jinja_parse_expression(parser, true) : NULL);
    }
    return slice;
}

/* x[1, 2] has a tuple for its index. */
static jinja_node *parse_subscripts(jinja_parser *parser, jinja_node *of) {
    jinja_expect_sign(parser, '[');
    jinja_node *node = parse_subscript(parser, of);
    if (!jinja_at_sign(parser, ',') || node->kind == JINJA_SLICE) {
        jinja_expect_sign(parser, ']');
        return node;
    }
    jinja_node *tuple = jinja_node_new(parser, JINJA_MAKE_TUPLE);
    jinja_nodes_push(parser, &tuple->items, node->second);
    while (jinja_take_sign(parser, ','))
        jinja_nodes_push(parser, &tuple->items, jinja_parse_expression(parser, true));
    jinja_expect_sign(parser, ']');
    node->second = tuple;
    return node;
}

static jinja_node *parse_attribute(jinja_parser *parser, jinja_node *of) {
    jinja_expect_sign(parser, '.');
    const jinja_token *token = parser->token;
    jinja_node *node = make(parser, JINJA_ATTRIBUTE, of, NULL);
    if (token->kind == JINJA_TOKEN_CONSTANT && token->constant.kind == JINJA_INT) {
        node->kind = JINJA_ITEM;
        node->second = parse_constant(parser);
        return node;
    }
    node->name = token->text;
    jinja_expect_kind(parser, JINJA_TOKEN_NAME, "a name or an index behind \".\"");
    return node;
}

static void parse_argument(jinja_parser *parser, jinja_written_arguments *arguments) {
    const jinja_token *token = parser->token;
    bool is_named = token->kind == JINJA_TOKEN_NAME && token[1].kind == JINJA_TOKEN_SIGN &&
                    token[1].sign == '=';
    bool is_late = arguments->spread_dict || (!is_named && arguments->spread_list);
    if (is_late || (!is_named && arguments->named.count && !jinja_at_sign(parser, '*') &&
                    !jinja_at_sign(parser, JINJA_SIGN_POWER)))
        jinja_refuse_token(parser, "an argument by name, or \")\"");
    if (jinja_take_sign(parser, '*')) {
        arguments->spread_list = jinja_parse_expression(parser, true);
    } else if (is_named) {
        jinja_node *named = jinja_node_new(parser, JINJA_NAME);
        named->name = token->text;
        next(parser);
        next(parser);
        named->first = jinja_parse_expression(parser, true);
        jinja_nodes_push(parser, &arguments->named, named);
    } else {
        jinja_nodes_push(parser, &arguments->items, jinja_parse_expression(parser, true));
    }
}

static jinja_written_arguments *parse_arguments(jinja_parser *parser) {
    jinja_written_arguments *made = jinja_allocate(parser->work, sizeof *made);
    *made = (jinja_written_arguments){0};
    if (!jinja_take_sign(parser, '('))
        return made;
    jinja_enter(parser->work);
    for (bool is_first = true; !jinja_at_sign(parser, ')'); is_first = false) {
        if (!is_first)
            jinja_expect_sign(parser, ',');
        if (jinja_at_sign(parser, ')') && !is_first)
            break;
        if (!made->spread_dict && jinja_take_sign(parser, JINJA_SIGN_POWER))
            made->spread_dict = jinja_parse_expression(parser, true);
        else
            parse_argument(parser, made);
    }
    jinja_leave(parser->work);
    jinja_expect_sign(parser, ')');
    return made;
}

static jinja_node *parse_call(jinja_parser *parser, jinja_node *of) {
    jinja_node *node = make(parser, JINJA_CALL, of, NULL);
    node->arguments = parse_arguments(parser);
    return node;
}

static jinja_node *parse_postfix(jinja_parser *parser, jinja_node *node) {
    for (;;)
        if (jinja_at_sign(parser, '.'))
            node = parse_attribute(parser, node);
        else if (jinja_at_sign(parser, '['))
            node = parse_subscripts(parser, node);
        else if (jinja_at_sign(parser, '('))
            node = parse_call(parser, node);
        else
            return node;
}

/* A filter's or test's name, which may have dots. */
static jinja_text take_dotted_name(jinja_parser *parser, const char *what) {
    jinja_text name = parser->token->text;
    jinja_expect_kind(parser, JINJA_TOKEN_NAME, what);
    while (jinja_take_sign(parser, '.')) {
        name = jinja_text_join(parser->work, name, jinja_text_literal("."));
        name = jinja_text_join(parser->work, name, parser->token->text);
        jinja_expect_kind(parser, JINJA_TOKEN_NAME, what);
    }
    return name;
}

jinja_node *jinja_parse_filters(jinja_parser *parser, jinja_node *node, bool is_inline) {
    for (; is_inline || jinja_at_sign(parser, '|'); is_inline = false) {
        if (!is_inline)
            jinja_expect_sign(parser, '|');
        node = make(parser, JINJA_FILTER, node, NULL);
        node->name = take_dotted_name(parser, "a filter's name");
        node->arguments = parse_arguments(parser);
    }
    return node;
}

/* Does the token begin an argument without parentheses: "x is divisibleby 3"? */
static bool begins_test_argument(const jinja_parser *parser) {
    if (parser->token->kind == JINJA_TOKEN_NAME)
        return !jinja_at_name(parser, "else") && !jinja_at_name(parser, "or") &&
               !jinja_at_name(parser, "and");
    return parser->token->kind == JINJA_TOKEN_CONSTANT || jinja_at_sign(parser, '[') ||
           jinja_at_sign(parser, '{');
}

static jinja_node *parse_test(jinja_parser *parser, jinja_node *node) {
    jinja_expect_name(parser, "is");
    bool is_negated = jinja_take_name(parser, "not");
    node = make(parser, JINJA_TEST, node, NULL);
    node->name = take_dotted_name(parser, "a test's name");
    bool is_bare = !jinja_at_sign(parser, '(') && begins_test_argument(parser);
    if (is_bare) {
        if (jinja_at_name(parser, "is"))
            jinja_refuse_token(parser, "no second test");
        node->arguments = jinja_allocate(parser->work, sizeof *node->arguments);
        *node->arguments = (jinja_written_arguments){0};
        jinja_nodes_push(parser, &node->arguments->items,
                         parse_postfix(parser, parse_primary(parser, false)));
    } else {
        node->arguments = parse_arguments(parser);
    }
    return is_negated ? make(parser, JINJA_NOT, node, NULL) : node;
}

static jinja_node *parse_filters_and_tests(jinja_parser *parser, jinja_node *node) {
    for (;;)
        if (jinja_at_sign(parser, '|'))
            node = jinja_parse_filters(parser, node, false);
        else if (jinja_at_name(parser, "is"))
            node = parse_test(parser, node);
        else if (jinja_at_sign(parser, '('))
            node = parse_call(parser, node);
        else
            return node;
}

/* ---- Operators, from the tightest. ---- */

static jinja_node *parse_unary(jinja_parser *parser, bool with_filters) {
    jinja_node *node;
    jinja_enter(parser->work);
    if (jinja_take_sign(parser, '-'))
        node = make(parser, JINJA_NEGATE, parse_unary(parser, false), NULL);
    else if (jinja_take_sign(parser, '+'))
        node = make(parser, JINJA_POSITIVE, parse_unary(parser, false), NULL);
    else
        node = parse_primary(parser, false);
    node = parse_postfix(parser, node);
    jinja_leave(parser->work);
    return with_filters ? parse_filters_and_tests(parser, node) : node;
}

static jinja_node *binary(jinja_parser *parser, jinja_operator operator, jinja_node * left,
                          jinja_node *right) {
    jinja_node *node = make(parser, JINJA_BINARY, left, right);
    node->sign = (int)operator;
    return node;
}

static jinja_node *parse_power(jinja_parser *parser) {
    jinja_node *left = parse_unary(parser, true);
    while (jinja_take_sign(parser, JINJA_SIGN_POWER))
        left = binary(parser, JINJA_POWER, left, parse_unary(parser, true));
    return left;
}

static jinja_node *parse_product(jinja_parser *parser) {
    static const struct {
        int sign;
        jinja_operator operator;
    } signs[] = {{'*', JINJA_MULTIPLY},
                 {'/', JINJA_DIVIDE},
                 {JINJA_SIGN_FLOOR_DIVIDE, JINJA_FLOOR_DIVIDE},
                 {'%', JINJA_MODULO}};
    jinja_node *left = parse_power(parser);
    for (size_t i = 0; i < 4;)
        if (jinja_take_sign(parser, signs[i].sign)) {
            left = binary(parser, signs[i].operator, left, parse_power(parser));
            i = 0;
        } else {
            i++;
        }
    return left;
}

static jinja_node *parse_concatenation(jinja_parser *parser) {
    jinja_node *first = parse_product(parser);
    if (!jinja_at_sign(parser, '~'))
        return first;
    jinja_node *node = jinja_node_new(parser, JINJA_CONCAT);
    jinja_nodes_push(parser, &node->items, first);
    while (jinja_take_sign(parser, '~'))
        jinja_nodes_push(parser, &node->items, parse_product(parser));
    return node;
}

static jinja_node *parse_sum(jinja_parser *parser) {
    jinja_node *left = parse_concatenation(parser);
    while (jinja_at_sign(parser, '+') || jinja_at_sign(parser, '-')) {
        jinja_operator operator= jinja_at_sign(parser, '+') ? JINJA_ADD : JINJA_SUBTRACT;
        next(parser);
        left = binary(parser, operator, left, parse_concatenation(parser));
    }
    return left;
}

/* The operator of a comparison, or -1. */
static int take_comparison(jinja_parser *parser) {
    static const struct {
        int sign;
        jinja_comparison comparison;
    } signs[] = {{JINJA_SIGN_EQUAL, JINJA_IS_EQUAL},
                 {JINJA_SIGN_NOT_EQUAL, JINJA_IS_NOT_EQUAL},
                 {'<', JINJA_IS_BELOW},
                 {JINJA_SIGN_AT_MOST, JINJA_IS_AT_MOST},
                 {'>', JINJA_IS_ABOVE},
                 {JINJA_SIGN_AT_LEAST, JINJA_IS_AT_LEAST}};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (jinja_take_sign(parser, signs[i].sign))
            return (int)signs[i].comparison;
    if (jinja_take_name(parser, "in"))
        return JINJA_IS_IN;
    const jinja_token *behind = parser->token + (parser->token->kind != JINJA_TOKEN_END);
    if (!jinja_at_name(parser, "not") || behind->kind != JINJA_TOKEN_NAME ||
        !jinja_text_is(behind->text, "in"))
        return -1;
    next(parser);
    next(parser);
    return JINJA_IS_NOT_IN;
}

static jinja_node *parse_comparison(jinja_parser *parser) {
    jinja_node *node = parse_sum(parser), *compared = NULL;
    for (int sign; (sign = take_comparison(parser)) >= 0;) {
        if (!compared)
            compared = make(parser, JINJA_COMPARE, node, NULL);
        jinja_node *operand = make(parser, JINJA_POSITIVE, parse_sum(parser), NULL);
        operand->sign = sign;
        jinja_nodes_push(parser, &compared->items, operand);
    }
    return compared ? compared : node;
}

static jinja_node *parse_not(jinja_parser *parser) {
    if (!jinja_take_name(parser, "not"))
        return parse_comparison(parser);
    jinja_enter(parser->work);
    jinja_node *node = make(parser, JINJA_NOT, parse_not(parser), NULL);
    jinja_leave(parser->work);
    return node;
}

static jinja_node *parse_and(jinja_parser *parser) {
    jinja_node *left = parse_not(parser);
    while (jinja_take_name(parser, "and"))
        left = make(parser, JINJA_AND, left, parse_not(parser));
    return left;
}

static jinja_node *parse_or(jinja_parser *parser) {
    jinja_node *left = parse_and(parser);
    while (jinja_take_name(parser, "or"))
        left = make(parser, JINJA_OR, left, parse_and(parser));
    return left;
}

jinja_node *jinja_parse_expression(jinja_parser *parser, bool with_condition) {
    jinja_enter(parser->work);
    jinja_node *node = parse_or(parser);
    while (with_condition && jinja_take_name(parser, "if")) {
        node = make(parser, JINJA_CONDITION, node, parse_or(parser));
        if (jinja_take_name(parser, "else"))
            node->third = jinja_parse_expression(parser, true);
    }
    jinja_leave(parser->work);
    return node;
}
