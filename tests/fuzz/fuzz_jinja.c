/* A template of any bytes, rendered with a small conversation: it gives text whose spans cover it,
 * or an error, and neither reads beyond its end nor goes on for long. */
#include "gateway/text/jinja/template.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *conversation(void) {
    return json_pack("[{s:s,s:s},{s:s,s:s,s:[{s:s,s:{s:i,s:f}}]},{s:s,s:n}]", "role", "system",
                     "content", "Be \xC3\xA9.", "role", "assistant", "content", "", "tool_calls",
                     "name", "f", "arguments", "a", 1, "b", 1.5, "role", "user", "content");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct tm day = {.tm_year = 126, .tm_mday = 1};
    lh_jinja_template *jinja = NULL;
    if (lh_jinja_template_parse((const char *)data, size, &jinja, NULL))
        return 0;
    json_t *messages = conversation(), *bos = json_string("<s>");
    const lh_jinja_variable variables[] = {{"messages", messages, false}, {"bos_token", bos, true}};
    lh_jinja_rendering made = {0};
    if (lh_jinja_template_render(jinja, variables, 2, &day, &made, NULL) == LH_OK) {
        size_t covered = 0;
        for (size_t i = 0; i < made.span_count; i++)
            covered += made.spans[i].length;
        if (covered != made.length)
            abort();
    }
    lh_jinja_rendering_reset(&made);
    json_decref(messages);
    json_decref(bos);
    lh_jinja_template_destroy(jinja);
    return 0;
}
