/* What a template knows as `loop`: where in its items a for loop is. Thread: the owner's. */
#pragma once

#include "gateway/text/jinja/run.h"

typedef struct jinja_loop {
    jinja_object object;
    jinja_run *run;
    const jinja_node *node;
    jinja_scope *around; /* the loop's */
    jinja_value source;  /* what it goes over */
    jinja_iterator *items;
    jinja_value before, item, after; /* JINJA_MISSING: not there, or not looked at yet */
    size_t index;                    /* from 0 */
    uint32_t depth;                  /* of recursion, from 0 */
    jinja_value changed;             /* what loop.changed was given last */
    /* renders the loop over other items, for a recursive one */
    jinja_text (*recurse)(struct jinja_loop *loop, jinja_value items);
} jinja_loop;

jinja_loop *jinja_loop_new(jinja_run *run, const jinja_node *node, jinja_scope *around,
                           jinja_value source);
/* Moves to the next item that the loop's condition takes. False: there is none. */
bool jinja_loop_next(jinja_loop *loop);
