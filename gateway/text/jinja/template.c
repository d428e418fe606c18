/* Two arenas: the tree's, which lives with the template, and one for each rendering. */
#include "gateway/text/jinja/template.h"

#include "gateway/text/jinja/execute.h"
#include "gateway/text/jinja/globals.h"
#include "gateway/text/jinja/parser.h"
#include "gateway/text/jinja/value_json.h"

#include <stdlib.h>
#include <string.h>

/* A hostile template is to end within 50 ms, on a slow core. Its tree takes some hundred bytes for
 * each token: real templates have 17 KB at most, and half a megabyte of those fits. */
#define PARSE_MEMORY_BYTES (32u << 20)
#define PARSE_STEPS        2000000u
/* Here, too; but a long conversation may take more, in proportion. */
#define RENDER_MEMORY_BYTES          (24u << 20)
#define RENDER_STEPS                 800000u
#define RENDER_MEMORY_PER_INPUT_BYTE 64u
#define RENDER_STEPS_PER_INPUT_BYTE  8u
#define OUTPUT_BYTES                 (8u << 20)
#define OUTPUT_PER_INPUT_BYTE        8u

struct lh_jinja_template {
    jinja_work work;
    jinja_nodes statements;
};

/* ---- Parsing. ---- */

typedef struct parsing {
    lh_jinja_template *made;
    const char *text;
    size_t length;
} parsing;

static void parse(jinja_work *work, void *argument) {
    parsing *p = argument;
    p->made->statements = jinja_parse(work, p->text, p->length);
}

lh_status lh_jinja_template_parse(const char *text, size_t length, lh_jinja_template **jinja,
                                  lh_error *error) {
    if (length > LH_JINJA_TEMPLATE_BYTES_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "the chat template has %zu bytes, at most %u are read",
                       length, LH_JINJA_TEMPLATE_BYTES_MAX);
    lh_jinja_template *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a chat template");
    made->work.memory_left = PARSE_MEMORY_BYTES;
    made->work.steps_left = PARSE_STEPS;
    parsing p = {made, text, length};
    lh_status status = jinja_work_run(&made->work, parse, &p, error);
    made->work.error = NULL;
    if (status) {
        lh_jinja_template_destroy(made);
        return status;
    }
    *jinja = made;
    return LH_OK;
}

void lh_jinja_template_destroy(lh_jinja_template *jinja) {
    if (!jinja)
        return;
    jinja_work_reset(&jinja->work);
    free(jinja);
}

/* ---- Rendering. ---- */

typedef struct rendering_work {
    const lh_jinja_template *jinja;
    const lh_jinja_variable *variables;
    size_t count, input_bytes;
    const struct tm *now;
    lh_jinja_rendering *made;
} rendering_work;

/* What the value takes as text, roughly: bounds are by it. */
static size_t size_of(const json_t *value) {
    size_t size = 16 + json_string_length(value), index;
    const char *key;
    json_t *item;
    json_array_foreach((json_t *)value, index, item) size += size_of(item);
    json_object_foreach((json_t *)value, key, item) size += strlen(key) + size_of(item);
    return size;
}

static size_t count_spans(jinja_text text) {
    size_t spans = text.length > 0;
    for (size_t i = 1; text.origins && i < text.length; i++)
        spans += text.origins[i] != text.origins[i - 1];
    return spans;
}

static void fill_spans(jinja_text text, lh_jinja_span *spans) {
    size_t at = 0;
    while (at < text.length) {
        size_t begin = at;
        uint8_t origin = text.origins ? text.origins[at] : text.origin;
        if (!text.origins)
            at = text.length;
        while (at < text.length && text.origins[at] == origin)
            at++;
        *spans++ = (lh_jinja_span){at - begin, origin == JINJA_OF_TEMPLATE};
    }
}

static void hand_over(jinja_work *work, jinja_text text, lh_jinja_rendering *made) {
    made->span_count = count_spans(text);
    made->text = malloc(text.length ? text.length : 1);
    made->spans = calloc(made->span_count ? made->span_count : 1, sizeof *made->spans);
    if (!made->text || !made->spans)
        jinja_fail(work, LH_ERR_NO_MEMORY, "no memory for a conversation");
    if (text.length)
        memcpy(made->text, text.bytes, text.length);
    made->length = text.length;
    fill_spans(text, made->spans);
}

static void render(jinja_work *work, void *argument) {
    rendering_work *r = argument;
    jinja_dict *context = jinja_dict_new(work);
    for (size_t i = 0; i < r->count; i++) {
        const lh_jinja_variable *variable = &r->variables[i];
        jinja_origin origin = variable->is_of_template ? JINJA_OF_TEMPLATE : JINJA_OF_DATA;
        jinja_dict_set(work, context, jinja_string_literal(work, variable->name),
                       jinja_from_json(work, variable->value, origin));
    }
    jinja_run run = {.work = work, .context = context};
    run.globals = jinja_globals_new(work, r->now);
    jinja_builder out = {.work = work,
                         .limit = OUTPUT_BYTES + r->input_bytes * OUTPUT_PER_INPUT_BYTE};
    jinja_execute(&run, &r->jinja->statements, &out);
    work->line = 0;
    hand_over(work, jinja_builder_text(&out), r->made);
}

lh_status lh_jinja_template_render(const lh_jinja_template *jinja,
                                   const lh_jinja_variable *variables, size_t count,
                                   const struct tm *now, lh_jinja_rendering *rendering,
                                   lh_error *error) {
    rendering_work r = {jinja, variables, count, 0, now, rendering};
    for (size_t i = 0; i < count; i++)
        r.input_bytes += size_of(variables[i].value);
    jinja_work work = {.memory_left =
                           RENDER_MEMORY_BYTES + r.input_bytes * RENDER_MEMORY_PER_INPUT_BYTE,
                       .steps_left = RENDER_STEPS + r.input_bytes * RENDER_STEPS_PER_INPUT_BYTE};
    lh_status status = jinja_work_run(&work, render, &r, error);
    jinja_work_reset(&work);
    return status;
}

void lh_jinja_rendering_reset(lh_jinja_rendering *rendering) {
    free(rendering->text);
    free(rendering->spans);
    *rendering = (lh_jinja_rendering){0};
}
