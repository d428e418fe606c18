/* Expressions. The tree is walked; what a node gives is a value. */
#include "gateway/text/jinja/run.h"

#include "gateway/text/jinja/attributes.h"
#include "gateway/text/jinja/filters.h"
#include "gateway/text/jinja/format.h"
#include "gateway/text/jinja/globals.h"
#include "gateway/text/jinja/iteration.h"
#include "gateway/text/jinja/operators.h"
#include "gateway/text/jinja/print.h"
#include "gateway/text/jinja/tests.h"

#include <assert.h>

/* A scope has few: they are looked through. */
#define BINDINGS_PER_STEP 16

jinja_scope *jinja_scope_new(jinja_work *work, jinja_scope *outer) {
    jinja_scope *made = jinja_allocate(work, sizeof *made);
    *made = (jinja_scope){.outer = outer};
    return made;
}

void jinja_scope_set(jinja_work *work, jinja_scope *scope, jinja_text name, jinja_value value) {
    jinja_step(work, scope->count / BINDINGS_PER_STEP);
    for (size_t i = 0; i < scope->count; i++)
        if (scope->bindings[i].name == name.bytes) {
            scope->bindings[i].value = value;
            return;
        }
    if (scope->count == scope->capacity)
        scope->bindings = jinja_grow(work, scope->bindings, scope->count, &scope->capacity, 4,
                                     sizeof *scope->bindings);
    scope->bindings[scope->count++] = (jinja_binding){name.bytes, value};
}

static void assign_many(jinja_run *run, jinja_scope *scope, const jinja_node *target,
                        jinja_value value) {
    jinja_need_defined(run->work, value);
    jinja_iterator *iterator = jinja_iterate(run->work, value);
    jinja_value item;
    size_t count = 0;
    for (; count < target->items.count; count++) {
        if (!jinja_next(run->work, iterator, &item))
            jinja_fail(run->work, LH_ERR_INVALID, "%zu values are expected, there are %zu",
                       target->items.count, count);
        jinja_assign(run, scope, target->items.items[count], item);
    }
    if (jinja_next(run->work, iterator, &item))
        jinja_fail(run->work, LH_ERR_INVALID, "%zu values are expected, there are more", count);
}

void jinja_assign(jinja_run *run, jinja_scope *scope, const jinja_node *target, jinja_value value) {
    if (target->kind == JINJA_MAKE_TUPLE) {
        assign_many(run, scope, target, value);
    } else if (target->kind == JINJA_NAME) {
        jinja_scope_set(run->work, scope, target->name, value);
    } else {
        assert(target->kind == JINJA_NAMESPACE_TARGET);
        jinja_value space = jinja_evaluate(run, scope, target->first);
        if (!jinja_namespace_set(run->work, space, target->name, value))
            jinja_fail(run->work, LH_ERR_INVALID,
                       "a namespace is expected in front of \".\", not '%s'",
                       jinja_type_name(space));
    }
}

static jinja_value look_up(jinja_run *run, const jinja_scope *scope, jinja_text name) {
    for (; scope; scope = scope->outer) {
        jinja_step(run->work, scope->count / BINDINGS_PER_STEP);
        for (size_t i = 0; i < scope->count; i++)
            if (scope->bindings[i].name == name.bytes)
                return scope->bindings[i].value;
    }
    const jinja_value *found = jinja_dict_get_text(run->work, run->context, name);
    if (!found)
        found = jinja_dict_get_text(run->work, run->globals, name);
    return found ? *found
                 : jinja_undefined_of(run->work, "'%.*s' is undefined",
                                      (int)(name.length < 60 ? name.length : 60), name.bytes);
}

static jinja_sequence *evaluate_all(jinja_run *run, jinja_scope *scope, const jinja_nodes *nodes) {
    jinja_sequence *values = jinja_sequence_new(run->work, nodes->count);
    for (size_t i = 0; i < nodes->count; i++)
        jinja_sequence_push(run->work, values, jinja_evaluate(run, scope, nodes->items[i]));
    return values;
}

static jinja_value make_dict(jinja_run *run, jinja_scope *scope, const jinja_node *node) {
    jinja_dict *dict = jinja_dict_new(run->work);
    for (size_t i = 0; i + 1 < node->items.count; i += 2) {
        jinja_value key = jinja_evaluate(run, scope, node->items.items[i]);
        jinja_dict_set(run->work, dict, key, jinja_evaluate(run, scope, node->items.items[i + 1]));
    }
    return jinja_dict_value(dict);
}

static jinja_value choose(jinja_run *run, jinja_scope *scope, const jinja_node *node) {
    if (jinja_is_true(jinja_evaluate(run, scope, node->second)))
        return jinja_evaluate(run, scope, node->first);
    if (node->third)
        return jinja_evaluate(run, scope, node->third);
    return jinja_undefined("an \"if\" within an expression was false and had no \"else\"");
}

static bool holds(jinja_run *run, jinja_comparison comparison, jinja_value a, jinja_value b) {
    int order = 0;
    if (comparison >= JINJA_IS_BELOW && comparison <= JINJA_IS_AT_LEAST)
        order = jinja_compare(run->work, a, b);
    switch (comparison) {
    case JINJA_IS_EQUAL:
        return jinja_equal(run->work, a, b);
    case JINJA_IS_NOT_EQUAL:
        return !jinja_equal(run->work, a, b);
    case JINJA_IS_BELOW:
        return order == -1;
    case JINJA_IS_AT_MOST:
        return order == -1 || order == 0;
    case JINJA_IS_ABOVE:
        return order == 1;
    case JINJA_IS_AT_LEAST:
        return order == 1 || order == 0;
    case JINJA_IS_IN:
        return jinja_contains(run->work, b, a);
    case JINJA_IS_NOT_IN:
        break;
    }
    return !jinja_contains(run->work, b, a);
}

/* a < b < c: each pair, until one does not hold. */
static jinja_value compare(jinja_run *run, jinja_scope *scope, const jinja_node *node) {
    jinja_value left = jinja_evaluate(run, scope, node->first);
    for (size_t i = 0; i < node->items.count; i++) {
        const jinja_node *operand = node->items.items[i];
        jinja_value right = jinja_evaluate(run, scope, operand->first);
        if (!holds(run, (jinja_comparison)operand->sign, left, right))
            return jinja_bool(false);
        left = right;
    }
    return jinja_bool(true);
}

static jinja_value operate(jinja_run *run, jinja_scope *scope, const jinja_node *node) {
    jinja_value left = jinja_evaluate(run, scope, node->first);
    jinja_value right = jinja_evaluate(run, scope, node->second);
    if (node->sign == JINJA_MODULO && left.kind == JINJA_STRING)
        return jinja_string(run->work, jinja_format_percent(run->work, *left.text, right));
    return jinja_operate(run->work, (jinja_operator)node->sign, left, right);
}

static jinja_value concatenate(jinja_run *run, jinja_scope *scope, const jinja_node *node) {
    jinja_builder out = {.work = run->work};
    for (size_t i = 0; i < node->items.count; i++) {
        jinja_value value = jinja_evaluate(run, scope, node->items.items[i]);
        if (i == 0 && value.kind == JINJA_STRING)
            out = jinja_builder_after(run->work, *value.text);
        else
            jinja_print_into(&out, value);
    }
    return jinja_string(run->work, jinja_builder_close(&out));
}

static jinja_value bound(jinja_run *run, jinja_scope *scope, const jinja_node *node) {
    return node ? jinja_evaluate(run, scope, node) : jinja_none();
}

static jinja_value slice(jinja_run *run, jinja_scope *scope, const jinja_node *node) {
    jinja_value of = jinja_evaluate(run, scope, node->first);
    jinja_value start = bound(run, scope, node->items.items[0]);
    jinja_value stop = bound(run, scope, node->items.items[1]);
    return jinja_slice(run->work, of, start, stop, bound(run, scope, node->items.items[2]));
}

/* ---- Calls. ---- */

static void spread_dict(jinja_run *run, jinja_value dict, jinja_named *named, size_t *count) {
    for (size_t i = 0; i < dict.dict->count; i++) {
        jinja_text name =
            jinja_text_given(run->work, dict.dict->entries[i].key, "a name of an argument");
        jinja_step(run->work, *count / JINJA_NAMES_PER_STEP);
        for (size_t k = 0; k < *count; k++)
            if (jinja_text_equal(named[k].name, name))
                jinja_fail(run->work, LH_ERR_INVALID, "an argument is given twice");
        named[(*count)++] = (jinja_named){name, dict.dict->entries[i].value};
    }
}

static jinja_arguments read_arguments(jinja_run *run, jinja_scope *scope,
                                      const jinja_written_arguments *written,
                                      const jinja_named *more) {
    jinja_sequence *items = evaluate_all(run, scope, &written->items);
    jinja_value dict = {.kind = JINJA_MISSING};
    jinja_named *named = NULL;
    size_t count = 0, room = written->named.count + (more != NULL);
    if (written->spread_list) {
        jinja_value list = jinja_evaluate(run, scope, written->spread_list), item;
        jinja_iterator *iterator = jinja_iterate(run->work, list);
        while (jinja_next(run->work, iterator, &item))
            jinja_sequence_push(run->work, items, item);
    }
    if (room)
        named = jinja_allocate_array(run->work, room, sizeof *named);
    for (size_t i = 0; i < written->named.count; i++) {
        const jinja_node *node = written->named.items[i];
        named[count++] = (jinja_named){node->name, jinja_evaluate(run, scope, node->first)};
    }
    if (more)
        named[count++] = *more;
    if (written->spread_dict) {
        dict = jinja_evaluate(run, scope, written->spread_dict);
        if (dict.kind != JINJA_DICT)
            jinja_fail(run->work, LH_ERR_INVALID, "a mapping is expected behind \"**\", not '%s'",
                       jinja_type_name(dict));
        named =
            jinja_grow(run->work, named, count, &room, room + dict.dict->count + 1, sizeof *named);
        spread_dict(run, dict, named, &count);
    }
    return (jinja_arguments){items->items, items->count, named, count};
}

jinja_value jinja_evaluate_call(jinja_run *run, jinja_scope *scope, const jinja_node *node,
                                const jinja_named *more) {
    jinja_value called = jinja_evaluate(run, scope, node->first);
    jinja_arguments arguments = read_arguments(run, scope, node->arguments, more);
    run->work->line = node->line;
    return jinja_call_value(run->work, called, &arguments);
}

static jinja_value filter(jinja_run *run, jinja_scope *scope, const jinja_node *node) {
    jinja_value value = jinja_evaluate(run, scope, node->first);
    jinja_arguments arguments = read_arguments(run, scope, node->arguments, NULL);
    const jinja_entry_point *found = jinja_filter_find(node->name);
    run->work->line = node->line;
    if (!found)
        jinja_fail(run->work, LH_ERR_INVALID, "there is no filter '%.*s'",
                   (int)(node->name.length < 40 ? node->name.length : 40), node->name.bytes);
    return jinja_entry_point_call(run->work, found, value, &arguments);
}

static jinja_value test(jinja_run *run, jinja_scope *scope, const jinja_node *node) {
    jinja_value value = jinja_evaluate(run, scope, node->first);
    jinja_arguments arguments = read_arguments(run, scope, node->arguments, NULL);
    run->work->line = node->line;
    return jinja_test(run->work, node->name, value, &arguments);
}

static jinja_value positive(jinja_run *run, jinja_value value) {
    jinja_need_defined(run->work, value);
    if (!jinja_is_number(value))
        jinja_fail(run->work, LH_ERR_INVALID, "a number is expected behind \"+\", not '%s'",
                   jinja_type_name(value));
    return value.kind == JINJA_BOOL ? jinja_int(value.boolean) : value;
}

static jinja_value evaluate_logic(jinja_run *run, jinja_scope *scope, const jinja_node *node) {
    jinja_value first = jinja_evaluate(run, scope, node->first);
    if (node->kind == JINJA_NOT)
        return jinja_bool(!jinja_is_true(first));
    bool is_decided = jinja_is_true(first) == (node->kind == JINJA_OR);
    return is_decided ? first : jinja_evaluate(run, scope, node->second);
}

static jinja_value evaluate(jinja_run *run, jinja_scope *scope, const jinja_node *node) {
    jinja_work *work = run->work;
    switch (node->kind) {
    case JINJA_CONSTANT:
        return node->constant;
    case JINJA_NAME:
        return look_up(run, scope, node->name);
    case JINJA_INPUT:
        return run->input;
    case JINJA_MAKE_LIST:
        return jinja_list(evaluate_all(run, scope, &node->items));
    case JINJA_MAKE_TUPLE:
        return jinja_tuple(evaluate_all(run, scope, &node->items));
    case JINJA_MAKE_DICT:
        return make_dict(run, scope, node);
    case JINJA_CONDITION:
        return choose(run, scope, node);
    case JINJA_OR:
    case JINJA_AND:
    case JINJA_NOT:
        return evaluate_logic(run, scope, node);
    case JINJA_COMPARE:
        return compare(run, scope, node);
    case JINJA_BINARY:
        return operate(run, scope, node);
    case JINJA_NEGATE:
        return jinja_negate(work, jinja_evaluate(run, scope, node->first));
    case JINJA_POSITIVE:
        return positive(run, jinja_evaluate(run, scope, node->first));
    case JINJA_CONCAT:
        return concatenate(run, scope, node);
    case JINJA_ATTRIBUTE:
        return jinja_get_attribute(work, jinja_evaluate(run, scope, node->first), node->name);
    case JINJA_ITEM: {
        jinja_value of = jinja_evaluate(run, scope, node->first);
        return jinja_get_item(work, of, jinja_evaluate(run, scope, node->second));
    }
    case JINJA_SLICE:
        return slice(run, scope, node);
    case JINJA_CALL:
        return jinja_evaluate_call(run, scope, node, NULL);
    case JINJA_FILTER:
        return filter(run, scope, node);
    case JINJA_TEST:
        return test(run, scope, node);
    default:
        break;
    }
    jinja_fail(work, LH_ERR_INTERNAL, "a statement stands where an expression should");
}

jinja_value jinja_evaluate(jinja_run *run, jinja_scope *scope, const jinja_node *node) {
    jinja_step(run->work, 1);
    jinja_enter(run->work);
    run->work->line = node->line;
    jinja_value value = evaluate(run, scope, node);
    jinja_leave(run->work);
    return value;
}
