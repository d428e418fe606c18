/* Looks ahead only where the template asks for it: the condition of the loop may depend on what the
 * passes before have done. */
#include "gateway/text/jinja/loop.h"

#include "gateway/text/jinja/arguments.h"
#include "gateway/text/jinja/iteration.h"

static bool is_there(jinja_value value) {
    return value.kind != JINJA_MISSING;
}

static bool find_next(jinja_loop *loop, jinja_value *item) {
    jinja_run *run = loop->run;
    while (jinja_next(run->work, loop->items, item)) {
        if (!loop->node->third)
            return true;
        jinja_scope *scope = jinja_scope_new(run->work, loop->around);
        jinja_assign(run, scope, loop->node->first, *item);
        if (jinja_is_true(jinja_evaluate(run, scope, loop->node->third)))
            return true;
    }
    return false;
}

bool jinja_loop_next(jinja_loop *loop) {
    jinja_value item = loop->after;
    if (!is_there(item) && !find_next(loop, &item))
        return false;
    loop->index += is_there(loop->item);
    loop->before = loop->item;
    loop->item = item;
    loop->after = (jinja_value){.kind = JINJA_MISSING};
    return true;
}

/* Is there another item? */
static bool peek(jinja_loop *loop) {
    jinja_value item; /* also written where the last ones do not suit */
    if (!is_there(loop->after) && find_next(loop, &item))
        loop->after = item;
    return is_there(loop->after);
}

/* Of all items; those that are still to come are collected where nothing else tells. */
static size_t length_of(jinja_loop *loop) {
    jinja_work *work = loop->run->work;
    if (!loop->node->third && jinja_has_length(loop->source))
        return jinja_length(work, loop->source);
    jinja_sequence *rest = jinja_sequence_new(work, 0);
    jinja_value item;
    while (find_next(loop, &item))
        jinja_sequence_push(work, rest, item);
    size_t length = rest->count + loop->index + 1 + is_there(loop->after);
    loop->items = jinja_iterate(work, jinja_list(rest));
    /* They have been through the condition. */
    jinja_node *node = jinja_allocate(work, sizeof *node);
    *node = *loop->node;
    node->third = NULL;
    loop->node = node;
    loop->source = jinja_list(rest);
    jinja_sequence *all = jinja_sequence_new(work, length);
    for (size_t i = 0; i < length; i++)
        jinja_sequence_push(work, all, jinja_none());
    loop->source = jinja_list(all);
    return length;
}

typedef struct loop_method {
    jinja_object object;
    jinja_loop *of;
} loop_method;

static jinja_value call_cycle(jinja_work *work, jinja_object *object,
                              const jinja_arguments *arguments) {
    const jinja_loop *loop = ((loop_method *)object)->of;
    if (arguments->count == 0 || arguments->named_count)
        jinja_fail(work, LH_ERR_INVALID, "no items for cycling given");
    return arguments->items[loop->index % arguments->count];
}

static jinja_value call_changed(jinja_work *work, jinja_object *object,
                                const jinja_arguments *arguments) {
    jinja_loop *loop = ((loop_method *)object)->of;
    jinja_sequence *given = jinja_sequence_new(work, arguments->count);
    if (arguments->named_count)
        jinja_fail(work, LH_ERR_INVALID, "loop.changed takes values by place");
    for (size_t i = 0; i < arguments->count; i++)
        jinja_sequence_push(work, given, arguments->items[i]);
    jinja_value now = jinja_tuple(given);
    bool is_same = is_there(loop->changed) && jinja_equal(work, loop->changed, now);
    loop->changed = now;
    return jinja_bool(!is_same);
}

static const jinja_class cycle_class = {.name = "method", .call = call_cycle};
static const jinja_class changed_class = {.name = "method", .call = call_changed};

static jinja_value method(jinja_loop *loop, const jinja_class *class) {
    loop_method *made = jinja_allocate(loop->run->work, sizeof *made);
    *made = (loop_method){{class}, loop};
    return jinja_object_value(&made->object);
}

static bool loop_attribute(jinja_work *work, jinja_object *object, jinja_text name,
                           jinja_value *value) {
    jinja_loop *loop = (jinja_loop *)object;
    int64_t index = (int64_t)loop->index;
    (void)work;
    if (jinja_text_is(name, "index"))
        *value = jinja_int(index + 1);
    else if (jinja_text_is(name, "index0"))
        *value = jinja_int(index);
    else if (jinja_text_is(name, "first"))
        *value = jinja_bool(index == 0);
    else if (jinja_text_is(name, "last"))
        *value = jinja_bool(!peek(loop));
    else if (jinja_text_is(name, "length"))
        *value = jinja_int((int64_t)length_of(loop));
    else if (jinja_text_is(name, "revindex"))
        *value = jinja_int((int64_t)length_of(loop) - index);
    else if (jinja_text_is(name, "revindex0"))
        *value = jinja_int((int64_t)length_of(loop) - index - 1);
    else if (jinja_text_is(name, "previtem"))
        *value =
            is_there(loop->before) ? loop->before : jinja_undefined("there is no previous item");
    else if (jinja_text_is(name, "nextitem"))
        *value = peek(loop) ? loop->after : jinja_undefined("there is no next item");
    else if (jinja_text_is(name, "depth"))
        *value = jinja_int((int64_t)loop->depth + 1);
    else if (jinja_text_is(name, "depth0"))
        *value = jinja_int((int64_t)loop->depth);
    else if (jinja_text_is(name, "cycle"))
        *value = method(loop, &cycle_class);
    else if (jinja_text_is(name, "changed"))
        *value = method(loop, &changed_class);
    else
        return false;
    return true;
}

static jinja_value call_loop(jinja_work *work, jinja_object *object,
                             const jinja_arguments *arguments) {
    jinja_loop *loop = (jinja_loop *)object;
    if (!loop->node->is_recursive)
        jinja_fail(work, LH_ERR_INVALID, "a loop that is called needs the word \"recursive\"");
    if (arguments->count != 1 || arguments->named_count)
        jinja_fail(work, LH_ERR_INVALID, "a loop is called with what it goes over");
    return jinja_string(work, loop->recurse(loop, arguments->items[0]));
}

static const jinja_class loop_class = {
    .name = "LoopContext", .call = call_loop, .attribute = loop_attribute};

jinja_loop *jinja_loop_new(jinja_run *run, const jinja_node *node, jinja_scope *around,
                           jinja_value source) {
    jinja_loop *made = jinja_allocate(run->work, sizeof *made);
    jinja_value missing = {.kind = JINJA_MISSING};
    *made = (jinja_loop){.object = {&loop_class},
                         .run = run,
                         .node = node,
                         .around = around,
                         .source = source,
                         .items = jinja_iterate(run->work, source),
                         .before = missing,
                         .item = missing,
                         .after = missing,
                         .changed = missing};
    return made;
}
