/* Blocks double in size, so that a small template costs one of them and a large one few. */
#include "gateway/text/jinja/work.h"

#include "common/base/utf8.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES_MIN (16u << 10)
#define BLOCK_BYTES_MAX (4u << 20)
#define ALIGNMENT       16u

struct jinja_block {
    jinja_block *next;
    size_t bytes; /* with this head */
};

lh_status jinja_work_run(jinja_work *work, void (*body)(jinja_work *, void *), void *argument,
                         lh_error *error) {
    work->error = error;
    work->status = LH_OK;
    work->depth = 0;
    if (setjmp(work->landing) == 0)
        body(work, argument);
    return work->status;
}

void jinja_work_reset(jinja_work *work) {
    while (work->blocks) {
        jinja_block *next = work->blocks->next;
        free(work->blocks);
        work->blocks = next;
    }
    work->at = work->end = NULL;
}

/* What was cut to fit a message may have been cut within a character. */
static void leave_out_broken(char *text) {
    size_t kept = 0, length = strlen(text), size;
    for (size_t at = 0; at < length; at += size)
        if (lh_utf8_next(text + at, length - at, &size) == LH_UTF8_WHOLE) {
            memmove(text + kept, text + at, size);
            kept += size;
        }
    text[kept] = 0;
}

void jinja_fail(jinja_work *work, lh_status status, const char *format, ...) {
    char message[LH_ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (work->line)
        work->status =
            lh_fail(work->error, status, "line %u of the chat template: %s", work->line, message);
    else
        work->status = lh_fail(work->error, status, "the chat template: %s", message);
    if (work->error)
        leave_out_broken(work->error->message);
    longjmp(work->landing, 1);
}

static void add_block(jinja_work *work, size_t wanted) {
    size_t bytes = work->blocks ? work->blocks->bytes * 2 : BLOCK_BYTES_MIN;
    if (bytes > BLOCK_BYTES_MAX)
        bytes = BLOCK_BYTES_MAX;
    if (bytes < wanted + sizeof(jinja_block) + ALIGNMENT)
        bytes = wanted + sizeof(jinja_block) + ALIGNMENT;
    if (bytes > work->memory_left)
        jinja_fail(work, LH_ERR_LIMIT, "it wants more memory than is allowed here");
    jinja_block *block = malloc(bytes);
    if (!block)
        jinja_fail(work, LH_ERR_NO_MEMORY, "no memory to render it");
    *block = (jinja_block){work->blocks, bytes};
    work->blocks = block;
    work->memory_left -= bytes;
    work->at = (char *)block + ALIGNMENT;
    work->end = (char *)block + bytes;
}

void *jinja_allocate(jinja_work *work, size_t bytes) {
    static_assert(sizeof(jinja_block) <= ALIGNMENT, "a block's head fits before its first piece");
    if (bytes > SIZE_MAX / 4)
        jinja_fail(work, LH_ERR_LIMIT, "it wants more memory than is allowed here");
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (bytes > (size_t)(work->end - work->at))
        add_block(work, bytes);
    void *piece = work->at;
    work->at += bytes;
    return piece;
}

void *jinja_allocate_array(jinja_work *work, size_t count, size_t bytes_each) {
    if (count > SIZE_MAX / 4 / bytes_each)
        jinja_fail(work, LH_ERR_LIMIT, "it wants more memory than is allowed here");
    jinja_step_bytes(work, count * bytes_each);
    return jinja_allocate(work, count * bytes_each);
}

void *jinja_grow(jinja_work *work, const void *array, size_t count, size_t *capacity, size_t wanted,
                 size_t bytes_each) {
    assert(count <= *capacity);
    size_t grown = *capacity ? *capacity * 2 : 8;
    if (grown < wanted)
        grown = wanted;
    void *moved = jinja_allocate_array(work, grown, bytes_each);
    if (count)
        memcpy(moved, array, count * bytes_each);
    *capacity = grown;
    return moved;
}

void jinja_step(jinja_work *work, uint64_t steps) {
    if (steps > work->steps_left)
        jinja_fail(work, LH_ERR_LIMIT, "it takes more steps than are allowed here");
    work->steps_left -= steps;
}

void jinja_step_bytes(jinja_work *work, size_t bytes) {
    jinja_step(work, bytes / JINJA_BYTES_PER_STEP);
}

void jinja_enter(jinja_work *work) {
    if (work->depth == JINJA_DEPTH_MAX)
        jinja_fail(work, LH_ERR_LIMIT, "it is nested deeper than %u levels", JINJA_DEPTH_MAX);
    work->depth++;
}

void jinja_leave(jinja_work *work) {
    assert(work->depth > 0);
    work->depth--;
}
