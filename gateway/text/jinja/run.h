/* One rendering in progress: variables by scope, and expressions evaluated. Thread: the owner's. */
#pragma once

#include "gateway/text/jinja/syntax.h"

typedef struct jinja_run {
    jinja_work *work;
    const jinja_dict *context; /* what the template is given */
    jinja_dict *globals;       /* Jinja's functions */
    jinja_value input;         /* of the filter block in progress */
} jinja_run;

typedef struct jinja_binding {
    const char *name; /* as the tree has it, compared by its address */
    jinja_value value;
} jinja_binding;

/* Variables of a loop's pass, a macro's call, a block. Never freed before the rendering: a macro
 * may have kept it. */
typedef struct jinja_scope {
    struct jinja_scope *outer;
    jinja_binding *bindings; /* [count] */
    size_t count, capacity;
} jinja_scope;

jinja_scope *jinja_scope_new(jinja_work *work, jinja_scope *outer);
void jinja_scope_set(jinja_work *work, jinja_scope *scope, jinja_text name, jinja_value value);
/* As `for` and `set` do it: to a name, a tuple of targets, or an attribute of a namespace. Fails
 * where the value has not as many items as there are targets. */
void jinja_assign(jinja_run *run, jinja_scope *scope, const jinja_node *target, jinja_value value);

jinja_value jinja_evaluate(jinja_run *run, jinja_scope *scope, const jinja_node *node);
/* Of a JINJA_CALL, with one more named argument, or NULL. */
jinja_value jinja_evaluate_call(jinja_run *run, jinja_scope *scope, const jinja_node *node,
                                const jinja_named *more);
