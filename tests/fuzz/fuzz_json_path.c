/* Any bytes as a JSON text: the path of any of its places stays within its room, is terminated and
 * holds no control character; and what JSON allows but is not taken is named by a path. */
#include "common/json/json_object.h"
#include "common/json/json_path.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool condition) {
    if (!condition)
        abort();
}

/* In memory of exactly its capacity, so that a byte too many is seen. */
static void check_path(const char *bytes, size_t length, size_t position, size_t capacity) {
    char *path = malloc(capacity);
    need(path);
    lh_json_path_at(bytes, length, position, path, capacity);
    size_t used = strnlen(path, capacity);
    need(used < capacity);
    for (size_t i = 0; i < used; i++)
        need((unsigned char)path[i] >= ' ');
    free(path);
}

static void check_fault(const char *bytes, size_t length) {
    char field[LH_JSON_FIELD_BYTES];
    lh_error error = {0};
    json_t *body = lh_json_object_parse_named(bytes, length, field, &error);
    need(body || (error.status != LH_OK && error.message[0]));
    need(strnlen(field, sizeof field) < sizeof field);
    need(!body || !field[0]);
    need(!field[0] ||
         (error.message[0] == '\'' && strncmp(error.message + 1, field, strlen(field)) == 0));
    json_decref(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *bytes = (const char *)data;
    if (size < 2)
        return 0;
    size_t capacity = 1 + data[0] % LH_JSON_FIELD_BYTES;
    size_t position = ((size_t)data[1] << 3) % size;
    check_path(bytes + 2, size - 2, position, capacity);
    check_path(bytes + 2, size - 2, size - 2, LH_JSON_FIELD_BYTES);
    check_fault(bytes + 2, size - 2);
    return 0;
}
