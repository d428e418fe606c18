/* jansson, one object. */
#include "gateway/models/pull_report_json.h"

#include "common/json/json_text.h"

#include <stdio.h>
#include <string.h>

static json_t *add_number(json_t *object, const char *key, uint64_t number) {
    return number == UINT64_MAX ? object
                                : lh_json_set(object, key, json_integer((json_int_t)number));
}

void lh_pull_report_json_write(const char *event, const char *field, const char *text,
                               uint64_t bytes, uint64_t total_bytes) {
    lh_text_buffer line = {0};
    json_t *object = json_pack("{s:s}", "event", event);
    if (field)
        object = lh_json_set(object, field, lh_json_text(text, strlen(text)));
    object = add_number(object, "bytes", bytes);
    object = add_number(object, "total_bytes", total_bytes);
    if (lh_json_render(object, &line) == 0)
        printf("%.*s\n", (int)line.length, line.bytes);
    fflush(stdout);
    lh_text_buffer_reset(&line);
}
