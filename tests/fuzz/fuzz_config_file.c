/* Configuration files: hostile text through the reader. What is taken lies within the documented
 * bounds, each name once; what is refused is told on lines of its own, with the file's name. */
#include "common/config/config_file.h"

#include <stdlib.h>
#include <string.h>

static void need(bool condition) {
    if (!condition)
        abort();
}

static void check_values(const lh_config_file *file, size_t size) {
    need(file->count <= LH_CONFIG_FILE_VALUES_MAX);
    for (size_t i = 0; i < file->count; i++) {
        const lh_config_value *value = &file->values[i];
        need(strlen(value->text) <= LH_CONFIG_VALUE_BYTES_MAX);
        need(value->line >= 1 && value->line <= size + 1);
        for (size_t j = 0; j < i; j++)
            need(strcmp(file->values[j].name, value->name) != 0);
    }
}

static void check_lines(const lh_config_problems *problems) {
    const char *at = problems->lines.bytes;
    size_t lines = 0;
    for (size_t left = problems->lines.length; left > 0; lines++) {
        const char *end = memchr(at, '\n', left);
        need(end && end - at > 7 && memcmp(at, "g.yaml:", 7) == 0);
        for (; at < end; at++)
            need((unsigned char)*at >= ' ');
        left = problems->lines.length - (size_t)(++at - problems->lines.bytes);
    }
    need(lines ==
         (problems->count < LH_CONFIG_PROBLEMS_TOLD ? problems->count : LH_CONFIG_PROBLEMS_TOLD));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lh_config_file file = {0};
    lh_config_problems problems = {.path = "g.yaml"};
    lh_error error;
    need(lh_config_file_parse((const char *)data, size, &file, &problems, &error) == LH_OK);
    check_values(&file, size);
    check_lines(&problems);
    lh_config_file_reset(&file);
    lh_config_problems_reset(&problems);
    return 0;
}
