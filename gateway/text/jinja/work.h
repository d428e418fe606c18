/* What one parse or one rendering may use up: memory from an arena, steps, depth. All of it ends at
 * once, so nothing is freed singly; a failure leaves for the one place that began the work, from
 * however deep inside (C's longjmp: whatever is in the arena needs no clean-up, and there is
 * nothing else). Thread: the owner's. */
#pragma once

#include "common/base/status.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One level is an expression or a statement within another, which takes some hundred bytes of
 * stack in each of a few functions. */
#define JINJA_DEPTH_MAX 300u
/* A step is what a node of the template costs, some 12 ns; 40 where the work is of the worst kind
 * (tests/gateway/text/jinja/test_work.c). */
#define JINJA_BYTES_PER_STEP 32u

typedef struct jinja_block jinja_block;

/* Where a text ends that was put together, and has room behind it (text.h). */
typedef struct jinja_tail {
    char *end; /* NULL: none */
    uint8_t *origins_end;
    size_t room; /* bytes, of origins too */
} jinja_tail;

/* Few texts grow at the same time. */
#define JINJA_TAILS 4

typedef struct jinja_work {
    jinja_block *blocks;
    char *at, *end;     /* what is free of the newest block */
    size_t memory_left; /* bytes */
    jinja_tail tails[JINJA_TAILS];
    uint32_t oldest_tail;
    uint64_t steps_left;
    uint32_t depth;
    uint32_t line; /* of the template, for errors; from 1 */
    lh_error *error;
    lh_status status;
    jmp_buf landing;
} jinja_work;

/* Calls body(work, argument); the budgets are set before. Gives LH_OK, or what a failure within
 * said; *error is filled then. The memory stays until jinja_work_reset. */
lh_status jinja_work_run(jinja_work *work, void (*body)(jinja_work *, void *), void *argument,
                         lh_error *error);
void jinja_work_reset(jinja_work *work);

/* Ends the work. The message is given the template's line in front. */
_Noreturn void jinja_fail(jinja_work *work, lh_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Not zeroed; aligned for any type. Fails with LH_ERR_LIMIT or LH_ERR_NO_MEMORY. */
void *jinja_allocate(jinja_work *work, size_t bytes);
void *jinja_allocate_array(jinja_work *work, size_t count, size_t bytes_each);
/* An array of `count` elements in room for `capacity`, moved to where `wanted` have room. */
void *jinja_grow(jinja_work *work, const void *array, size_t count, size_t *capacity, size_t wanted,
                 size_t bytes_each);

/* LH_ERR_LIMIT: the steps are used up. */
void jinja_step(jinja_work *work, uint64_t steps);
void jinja_step_bytes(jinja_work *work, size_t bytes);
/* LH_ERR_LIMIT: too deep. */
void jinja_enter(jinja_work *work);
void jinja_leave(jinja_work *work);
