/* A loop's pass, a macro's call and a block each have a scope of their own; an `if` has none. */
#include "gateway/text/jinja/execute.h"

#include "gateway/text/jinja/attributes.h"
#include "gateway/text/jinja/loop.h"
#include "gateway/text/jinja/print.h"

#include <assert.h>

typedef enum ending { GO_ON, BREAK, CONTINUE } ending;

/* Where statements run. */
typedef struct place {
    jinja_run *run;
    jinja_scope *scope;
    jinja_builder *out;
} place;

static ending execute_all(place at, const jinja_nodes *statements);

/* ---- Macros. ---- */

typedef struct macro {
    jinja_object object;
    jinja_run *run;
    const jinja_node *node;
    jinja_scope *around;
} macro;

static bool is_parameter(const jinja_node *node, const char *name) {
    for (size_t i = 0; i < node->parameters.count; i++)
        if (jinja_text_is(node->parameters.items[i]->name, name))
            return true;
    return false;
}

/* Takes a named argument out of those that are left; NULL: it is not among them. */
static const jinja_value *take_named(jinja_work *work, const jinja_arguments *arguments,
                                     bool *taken, jinja_text name) {
    jinja_step(work, arguments->named_count / JINJA_NAMES_PER_STEP);
    for (size_t i = 0; i < arguments->named_count; i++)
        if (!taken[i] && jinja_text_equal(arguments->named[i].name, name)) {
            taken[i] = true;
            return &arguments->named[i].value;
        }
    return NULL;
}

static jinja_value missing_parameter(jinja_work *work, jinja_text name) {
    return jinja_undefined_of(work, "parameter '%.*s' was not provided",
                              (int)(name.length < 60 ? name.length : 60), name.bytes);
}

/* The parameters' values, in their order: defaults see those before. */
static void bind_parameters(macro *self, jinja_scope *scope, const jinja_arguments *arguments,
                            bool *taken) {
    jinja_work *work = self->run->work;
    for (size_t i = 0; i < self->node->parameters.count; i++) {
        const jinja_node *parameter = self->node->parameters.items[i];
        const jinja_value *given = NULL;
        if (i < arguments->count)
            given = &arguments->items[i];
        else
            given = take_named(work, arguments, taken, parameter->name);
        jinja_value value = given              ? *given
                            : parameter->first ? jinja_evaluate(self->run, scope, parameter->first)
                                               : missing_parameter(work, parameter->name);
        jinja_scope_set(work, scope, parameter->name, value);
    }
}

static void bind_special(macro *self, jinja_scope *scope, const char *name, jinja_value value) {
    jinja_scope_set(self->run->work, scope, jinja_text_literal(name), value);
}

static void bind_rest(macro *self, const jinja_arguments *arguments, bool *taken,
                      jinja_scope *scope) {
    jinja_work *work = self->run->work;
    const jinja_node *node = self->node;
    if (node->uses_caller && !is_parameter(node, "caller")) {
        const jinja_value *given = take_named(work, arguments, taken, jinja_text_literal("caller"));
        bind_special(self, scope, jinja_caller_name,
                     given ? *given : jinja_undefined("No caller defined"));
    }
    jinja_dict *named = jinja_dict_new(work);
    for (size_t i = 0; i < arguments->named_count; i++)
        if (!taken[i])
            jinja_dict_set(work, named, jinja_string(work, arguments->named[i].name),
                           arguments->named[i].value);
    bool has_kwargs = node->uses_kwargs && !is_parameter(node, "kwargs");
    bool has_varargs = node->uses_varargs && !is_parameter(node, "varargs");
    if (named->count && !has_kwargs)
        jinja_fail(work, LH_ERR_INVALID, "macro '%.*s' takes no argument of such a name",
                   (int)node->name.length, node->name.bytes ? node->name.bytes : "");
    if (has_kwargs)
        bind_special(self, scope, jinja_kwargs_name, jinja_dict_value(named));
    jinja_sequence *more = jinja_sequence_new(work, 0);
    for (size_t i = node->parameters.count; i < arguments->count; i++)
        jinja_sequence_push(work, more, arguments->items[i]);
    if (more->count && !has_varargs)
        jinja_fail(work, LH_ERR_INVALID, "macro '%.*s' takes at most %zu arguments",
                   (int)node->name.length, node->name.bytes ? node->name.bytes : "",
                   node->parameters.count);
    if (has_varargs)
        bind_special(self, scope, jinja_varargs_name, jinja_tuple(more));
}

static jinja_value call_macro(jinja_work *work, jinja_object *object,
                              const jinja_arguments *arguments) {
    macro *self = (macro *)object;
    jinja_scope *scope = jinja_scope_new(work, self->around);
    bool *taken = jinja_allocate_array(work, arguments->named_count + 1, sizeof *taken);
    for (size_t i = 0; i < arguments->named_count; i++)
        taken[i] = false;
    jinja_enter(work);
    bind_parameters(self, scope, arguments, taken);
    bind_rest(self, arguments, taken, scope);
    jinja_builder out = {.work = work};
    execute_all((place){self->run, scope, &out}, &self->node->body);
    jinja_leave(work);
    return jinja_string(work, jinja_builder_text(&out));
}

static bool macro_attribute(jinja_work *work, jinja_object *object, jinja_text name,
                            jinja_value *value) {
    const jinja_node *node = ((macro *)object)->node;
    if (!jinja_text_is(name, "name"))
        return false;
    *value = node->name.length ? jinja_string(work, node->name) : jinja_none();
    return true;
}

static const jinja_class macro_class = {
    .name = "Macro", .call = call_macro, .attribute = macro_attribute};

static jinja_value make_macro(place at, const jinja_node *node) {
    macro *made = jinja_allocate(at.run->work, sizeof *made);
    *made = (macro){{&macro_class}, at.run, node, at.scope};
    return jinja_object_value(&made->object);
}

/* ---- Blocks. ---- */

static place inner(place at) {
    at.scope = jinja_scope_new(at.run->work, at.scope);
    return at;
}

/* The body's text; *end: how it ended. */
static jinja_value render(place at, const jinja_nodes *body, ending *end) {
    jinja_builder out = {.work = at.run->work};
    at = inner(at);
    at.out = &out;
    *end = execute_all(at, body);
    return jinja_string(at.run->work, jinja_builder_text(&out));
}

static jinja_value evaluate_with_input(place at, const jinja_node *node, jinja_value input) {
    jinja_value before = at.run->input;
    at.run->input = input;
    jinja_value value = jinja_evaluate(at.run, at.scope, node);
    at.run->input = before;
    return value;
}

static ending set_block(place at, const jinja_node *node) {
    ending end;
    jinja_value value = render(at, &node->body, &end);
    if (end != GO_ON)
        return end;
    if (node->second)
        value = evaluate_with_input(at, node->second, value);
    jinja_assign(at.run, at.scope, node->first, value);
    return GO_ON;
}

static ending filter_block(place at, const jinja_node *node) {
    ending end;
    jinja_value value = render(at, &node->body, &end);
    if (end != GO_ON)
        return end;
    value = evaluate_with_input(at, node->first, value);
    if (value.kind != JINJA_STRING)
        jinja_fail(at.run->work, LH_ERR_INVALID, "a filter block must give text, not '%s'",
                   jinja_type_name(value));
    jinja_print_into(at.out, value);
    return GO_ON;
}

static ending with_block(place at, const jinja_node *node) {
    place within = inner(at);
    for (size_t i = 0; i + 1 < node->items.count; i += 2)
        jinja_assign(at.run, within.scope, node->items.items[i],
                     jinja_evaluate(at.run, at.scope, node->items.items[i + 1]));
    return execute_all(within, &node->body);
}

static void call_block(place at, const jinja_node *node) {
    jinja_named caller = {jinja_text_literal("caller"), make_macro(at, node)};
    jinja_print_into(at.out, jinja_evaluate_call(at.run, at.scope, node->first, &caller));
}

/* ---- Loops. ---- */

static ending run_loop(place at, jinja_loop *loop);

static jinja_text recurse(jinja_loop *loop, jinja_value items) {
    jinja_builder out = {.work = loop->run->work};
    jinja_loop *deeper = jinja_loop_new(loop->run, loop->node, loop->around, items);
    deeper->depth = loop->depth + 1;
    deeper->recurse = recurse;
    run_loop((place){loop->run, loop->around, &out}, deeper);
    return jinja_builder_text(&out);
}

/* As in jinja2, "else" is for a loop none of whose passes came to its end. */
static ending run_loop(place at, jinja_loop *loop) {
    const jinja_node *node = loop->node;
    bool has_passed = false;
    while (jinja_loop_next(loop)) {
        place pass = inner(at);
        jinja_scope_set(at.run->work, pass.scope, jinja_text_literal(jinja_loop_name),
                        jinja_object_value(&loop->object));
        jinja_assign(at.run, pass.scope, node->first, loop->item);
        ending end = execute_all(pass, &node->body);
        has_passed = has_passed || end == GO_ON;
        if (end == BREAK)
            break;
    }
    return has_passed ? GO_ON : execute_all(inner(at), &node->otherwise);
}

static ending for_loop(place at, const jinja_node *node) {
    jinja_value items = jinja_evaluate(at.run, at.scope, node->second);
    jinja_loop *loop = jinja_loop_new(at.run, node, at.scope, items);
    loop->recurse = recurse;
    return run_loop(at, loop);
}

static ending choose(place at, const jinja_node *node) {
    bool is_true = jinja_is_true(jinja_evaluate(at.run, at.scope, node->first));
    return execute_all(at, is_true ? &node->body : &node->otherwise);
}

static ending execute(place at, const jinja_node *node) {
    jinja_run *run = at.run;
    switch (node->kind) {
    case JINJA_TEXT:
        jinja_print_into(at.out, node->constant);
        return GO_ON;
    case JINJA_PRINT:
        jinja_print_into(at.out, jinja_evaluate(run, at.scope, node->first));
        return GO_ON;
    case JINJA_IF:
        return choose(at, node);
    case JINJA_FOR:
        return for_loop(at, node);
    case JINJA_SET:
        jinja_assign(run, at.scope, node->first, jinja_evaluate(run, at.scope, node->second));
        return GO_ON;
    case JINJA_SET_BLOCK:
        return set_block(at, node);
    case JINJA_MACRO:
        jinja_scope_set(run->work, at.scope, node->name, make_macro(at, node));
        return GO_ON;
    case JINJA_CALL_BLOCK:
        call_block(at, node);
        return GO_ON;
    case JINJA_FILTER_BLOCK:
        return filter_block(at, node);
    case JINJA_WITH:
        return with_block(at, node);
    case JINJA_SCOPE:
        return execute_all(inner(at), &node->body);
    case JINJA_BREAK:
        return BREAK;
    default:
        assert(node->kind == JINJA_CONTINUE);
        return CONTINUE;
    }
}

static ending execute_all(place at, const jinja_nodes *statements) {
    ending end = GO_ON;
    jinja_enter(at.run->work);
    for (size_t i = 0; i < statements->count && end == GO_ON; i++) {
        jinja_step(at.run->work, 1);
        at.run->work->line = statements->items[i]->line;
        end = execute(at, statements->items[i]);
    }
    jinja_leave(at.run->work);
    return end;
}

void jinja_execute(jinja_run *run, const jinja_nodes *statements, jinja_builder *out) {
    place at = {run, jinja_scope_new(run->work, NULL), out};
    execute_all(at, statements);
}
