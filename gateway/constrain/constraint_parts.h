/* What a constraint is made of, for its states. */
#pragma once

#include "gateway/constrain/closure.h"
#include "gateway/constrain/constraint.h"
#include "gateway/constrain/constraint_vocabulary.h"
#include "gateway/constrain/mask_finder.h"
#include "gateway/constrain/stack_copier.h"

#include <pthread.h>
#include <stdatomic.h>

struct lh_constraint {
    atomic_uint holders;
    const lh_constraint_vocabulary *vocabulary;
    lh_automaton *automaton;
    pthread_mutex_t lock; /* over all below: what is found for one sequence is there for others */
    lh_closure *closure;
    lh_byte_walk *walk;
    lh_mask_finder *finder;
    lh_stack_copier copier;
};
