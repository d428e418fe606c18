/* What a JSON text is expected to cost before it is parsed: no text may nest deeper or take more
 * memory of jansson than that, whether it is well-formed or not. And what clients may write beside
 * it changes nothing of what is JSON. */
#include "common/json/json_object.h"
#include "common/json/json_outline.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static size_t held, most;

static void need(bool condition) {
    if (!condition)
        abort();
}

/* As malloc counts: the block and the size in front of it. */
static size_t size_of(void *block) {
    return block ? malloc_usable_size(block) + sizeof(size_t) : 0;
}

static void *counted_malloc(size_t size) {
    void *block = malloc(size);
    held += size_of(block);
    most = held > most ? held : most;
    return block;
}

static void counted_free(void *block) {
    held -= size_of(block);
    free(block);
}

static size_t depth_of(const json_t *value) {
    size_t deepest = 0, index, depth;
    const char *name;
    json_t *inner;
    if (json_is_array(value))
        json_array_foreach(value, index, inner) {
            depth = depth_of(inner);
            deepest = depth > deepest ? depth : deepest;
        }
    if (json_is_object(value))
        json_object_foreach((json_t *)value, name, inner) {
            depth = depth_of(inner);
            deepest = depth > deepest ? depth : deepest;
        }
    return deepest + (json_is_array(value) || json_is_object(value));
}

/* What is taken as it is, is the same where more is taken. */
static void check_freely(const uint8_t *data, size_t size, const json_t *body) {
    size_t replaced = 0;
    lh_error error = {0};
    json_t *more = lh_json_object_parse_freely((const char *)data, size, &replaced, &error);
    need(!body || (more && replaced == 0 && json_equal(body, more)));
    need(more || (error.status != LH_OK && error.message[0]));
    json_decref(more);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lh_json_outline outline = lh_json_outline_of((const char *)data, size);
    json_set_alloc_funcs(counted_malloc, counted_free);
    held = most = 0;
    json_t *body = lh_json_object_parse((const char *)data, size, NULL);
    need(most <= outline.memory_bytes);
    need(!body || (outline.depth <= LH_JSON_DEPTH_MAX && depth_of(body) == outline.depth));
    check_freely(data, size, body);
    json_decref(body);
    need(held == 0);
    return 0;
}
