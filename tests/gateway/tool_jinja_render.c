/* Renders Jinja templates for a test in another language: each line of standard input is a JSON
 * object {"template": ..., "context": {...}, "trusted": {...}}, each line of output one with "text"
 * and "spans" ([length, of_template] pairs), or "error"; "parse_us" and "render_us" of CPU; and
 * "tool_format", in which a model with this template is taken to call tools. */
#include "gateway/text/jinja/template.h"
#include "gateway/text/tools/tool_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define VARIABLES_MAX 64

static double cpu_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static size_t add_variables(json_t *object, bool is_of_template, lh_jinja_variable *variables,
                            size_t count) {
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) if (count < VARIABLES_MAX) variables[count++] =
        (lh_jinja_variable){name, value, is_of_template};
    return count;
}

static json_t *shown(const lh_jinja_rendering *rendering) {
    json_t *spans = json_array();
    for (size_t i = 0; i < rendering->span_count; i++)
        json_array_append_new(spans, json_pack("[I,b]", (json_int_t)rendering->spans[i].length,
                                               rendering->spans[i].is_of_template));
    return json_pack("{s:s%,s:o}", "text", rendering->text, rendering->length, "spans", spans);
}

static json_t *render(json_t *request) {
    json_t *text = json_object_get(request, "template");
    lh_jinja_template *jinja = NULL;
    lh_jinja_rendering rendering = {0};
    lh_jinja_variable variables[VARIABLES_MAX];
    size_t count = add_variables(json_object_get(request, "context"), false, variables, 0);
    count = add_variables(json_object_get(request, "trusted"), true, variables, count);
    struct tm day = {.tm_year = 124, .tm_mon = 6, .tm_mday = 26, .tm_wday = 5, .tm_yday = 207};
    lh_error error = {0};
    double begin = cpu_us(), parsed;
    lh_status status =
        lh_jinja_template_parse(json_string_value(text), json_string_length(text), &jinja, &error);
    parsed = cpu_us();
    if (!status)
        status = lh_jinja_template_render(jinja, variables, count, &day, &rendering, &error);
    double rendered = cpu_us();
    json_t *answer =
        status ? json_pack("{s:s,s:s}", "error", error.message, "status", lh_status_name(status))
               : shown(&rendering);
    json_object_set_new(answer, "parse_us", json_real(parsed - begin));
    json_object_set_new(answer, "render_us", json_real(rendered - parsed));
    const lh_tool_format *format =
        lh_tool_format_find(json_string_value(text), json_string_length(text));
    json_object_set_new(answer, "tool_format", json_string(format->name));
    lh_jinja_rendering_reset(&rendering);
    lh_jinja_template_destroy(jinja);
    return answer;
}

int main(void) {
    char *line = NULL;
    size_t capacity = 0;
    for (ssize_t length; (length = getline(&line, &capacity, stdin)) > 0;) {
        json_t *request = json_loadb(line, (size_t)length, JSON_ALLOW_NUL, NULL);
        if (!request) {
            fprintf(stderr, "a line is not JSON\n");
            return 1;
        }
        json_t *answer = render(request);
        json_dumpf(answer, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(answer);
        json_decref(request);
    }
    free(line);
    return 0;
}
