/* Names and values lie in one growing block, as offsets until all have come, because the block
 * moves as it grows. */
#include "common/http2/request.h"

#include "common/base/growing_array.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES_FIRST = 512 };

typedef struct field {
    size_t name, value; /* offsets in the block; both are terminated */
} field;

struct lh_h2_request_builder {
    char *block;
    size_t used, capacity;
    field *fields;
    size_t field_count, field_capacity;
    lh_h2_header *headers;
};

lh_h2_request_builder *lh_h2_request_builder_create(void) {
    return calloc(1, sizeof(lh_h2_request_builder));
}

void lh_h2_request_builder_destroy(lh_h2_request_builder *builder) {
    if (!builder)
        return;
    free(builder->block);
    free(builder->fields);
    free(builder->headers);
    free(builder);
}

static bool reserve(lh_h2_request_builder *builder, size_t bytes) {
    size_t block_bytes = builder->used + bytes;
    if (block_bytes < BLOCK_BYTES_FIRST)
        block_bytes = BLOCK_BYTES_FIRST;
    return lh_growing_array_reserve(&builder->block, &builder->capacity, block_bytes, 1) &&
           lh_growing_array_reserve(&builder->fields, &builder->field_capacity,
                                    builder->field_count + 1, sizeof *builder->fields);
}

static size_t block_append(lh_h2_request_builder *builder, const void *bytes, size_t length) {
    size_t offset = builder->used;
    memcpy(builder->block + offset, bytes, length);
    builder->block[offset + length] = '\0';
    builder->used += length + 1;
    return offset;
}

lh_status lh_h2_request_builder_add(lh_h2_request_builder *builder, const void *name,
                                    size_t name_length, const void *value, size_t value_length) {
    if (!reserve(builder, name_length + value_length + 2))
        return LH_ERR_NO_MEMORY;
    field *added = &builder->fields[builder->field_count++];
    added->name = block_append(builder, name, name_length);
    added->value = block_append(builder, value, value_length);
    return LH_OK;
}

static void split_query(char *target, lh_h2_request *request) {
    char *mark = strchr(target, '?');
    request->path = target;
    request->query = mark ? mark + 1 : "";
    if (mark)
        *mark = '\0';
}

lh_status lh_h2_request_builder_finish(lh_h2_request_builder *builder, lh_h2_request *request) {
    *request = (lh_h2_request){.query = "", .peer = ""};
    builder->headers = malloc((builder->field_count + 1) * sizeof *builder->headers);
    if (!builder->headers)
        return LH_ERR_NO_MEMORY;
    for (size_t i = 0; i < builder->field_count; i++) {
        const char *name = builder->block + builder->fields[i].name;
        char *value = builder->block + builder->fields[i].value;
        if (strcmp(name, ":method") == 0)
            request->method = value;
        else if (strcmp(name, ":path") == 0)
            split_query(value, request);
        else if (name[0] != ':')
            builder->headers[request->header_count++] = (lh_h2_header){name, value};
    }
    request->headers = builder->headers;
    return request->method && request->path && request->path[0] == '/' ? LH_OK : LH_ERR_INVALID;
}

const char *lh_h2_request_header(const lh_h2_request *request, const char *name) {
    for (size_t i = 0; i < request->header_count; i++)
        if (strcmp(request->headers[i].name, name) == 0)
            return request->headers[i].value;
    return NULL;
}
