/* Tools in a conversation: as the template wants them, as text where it puts them together with
 * text, and in words where it knows none; and a model's second template for them. */
#include "gateway/text/chat_template.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/gguf_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static json_t *parse_json(const char *text) {
    json_t *value = json_loads(text, 0, NULL);
    assert_non_null(value);
    return value;
}

static lh_chat_template *parse_template(const char *text) {
    lh_chat_template *chat_template;
    lh_error error;
    if (lh_chat_template_parse(text, strlen(text), &chat_template, &error))
        fail_msg("%s: %s", text, error.message);
    return chat_template;
}

static lh_chat_message say(const char *role, const char *content) {
    return (lh_chat_message){
        .role = role, .content = content, .content_length = content ? strlen(content) : 0};
}

/* A question, a call, its result; the tool that was called. */
typedef struct scene {
    json_t *tools, *calls;
    lh_chat_message messages[3];
    lh_chat_conversation said;
} scene;

static scene *open_scene(void) {
    scene *s = calloc(1, sizeof *s);
    s->tools = parse_json("[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]");
    s->calls = parse_json("[{\"id\": \"c1\", \"function\": {\"name\": \"f\", \"arguments\": "
                          "\"{\\\"a\\\": 1}\"}}]");
    s->messages[0] = say("user", "Why?");
    s->messages[1] = say("assistant", NULL);
    s->messages[1].tool_calls = s->calls;
    s->messages[2] = say("tool", "12");
    s->messages[2].tool_call_id = "c1";
    s->messages[2].name = "f";
    s->said = (lh_chat_conversation){.messages = s->messages, .count = 3, .tools = s->tools};
    return s;
}

static void close_scene(scene *s) {
    json_decref(s->tools);
    json_decref(s->calls);
    free(s);
}

static void expect(const lh_chat_template *chat_template, const scene *s, const char *wanted) {
    lh_text_buffer text = {0};
    lh_error error;
    if (lh_chat_template_render_text(chat_template, "", "", &s->said, &text, &error))
        fail_msg("%s", error.message);
    if (text.length != strlen(wanted) || memcmp(text.bytes, wanted, text.length))
        fail_msg("\"%.*s\" is not \"%s\"", (int)text.length, text.bytes, wanted);
    lh_text_buffer_reset(&text);
}

static void a_template_gets_what_transformers_gives(void **state) {
    (void)state;
    scene *s = open_scene();
    lh_chat_template *chat_template = parse_template(
        "{{ tools[0].function.name }}{% for m in messages %}|{{ m.role }} {{ m.content is none }} "
        "{% for c in m.tool_calls %}{{ c.id }} {{ c.type }} {{ c.function.name }} "
        "{{ c.function.arguments.a + 1 }}{% endfor %}{{ m.tool_call_id }} {{ m.name }}"
        "{% endfor %}");
    expect(chat_template, s, "f|user False  |assistant True c1 function f 2 |tool False c1 f");
    close_scene(s);
    lh_chat_template_destroy(chat_template);
}

static void without_tools_they_are_none(void **state) {
    (void)state;
    scene *s = open_scene();
    s->said.tools = NULL;
    s->said.count = 1;
    lh_chat_template *chat_template =
        parse_template("{{ tools is none }} {{ documents is defined }}");
    expect(chat_template, s, "True True");
    close_scene(s);
    lh_chat_template_destroy(chat_template);
}

static void arguments_are_text_where_they_meet_text(void **state) {
    (void)state;
    scene *s = open_scene();
    lh_chat_template *chat_template =
        parse_template("{% for t in tools %}{% endfor %}{% for m in messages %}{% for c in "
                       "m.tool_calls %}{{ '<' + c.function.arguments + '>' }}{% endfor %}"
                       "{% endfor %}");
    expect(chat_template, s, "<{\"a\": 1}>");
    close_scene(s);
    lh_chat_template_destroy(chat_template);
    /* What is no object stays the text that it is. */
    s = open_scene();
    json_decref(s->calls);
    s->calls = parse_json("[{\"function\": {\"name\": \"f\", \"arguments\": \"nothing\"}}]");
    s->messages[1].tool_calls = s->calls;
    chat_template = parse_template(
        "{% for t in tools %}{{ messages[1].tool_calls[0].function.arguments }}{% endfor %}");
    expect(chat_template, s, "nothing");
    close_scene(s);
    lh_chat_template_destroy(chat_template);
}

static void a_refusal_is_the_first_one(void **state) {
    (void)state;
    scene *s = open_scene();
    lh_text_buffer text = {0};
    lh_error error;
    lh_chat_template *chat_template =
        parse_template("{{ raise_exception('no tools, ' ~ messages[1].tool_calls[0].function"
                       ".arguments) }}");
    assert_int_equal(lh_chat_template_render_text(chat_template, "", "", &s->said, &text, &error),
                     LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "no tools, {'a': 1}"));
    lh_text_buffer_reset(&text);
    close_scene(s);
    lh_chat_template_destroy(chat_template);
}

#define PLAIN                                                                                      \
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}"                           \
    "{% if add_generation_prompt %}[assistant]{% endif %}"

static void a_template_without_tools_is_told_in_words(void **state) {
    (void)state;
    scene *s = open_scene();
    lh_chat_template *chat_template = parse_template(PLAIN);
    expect(chat_template, s,
           "[system]You can call these functions:\n<tools>\n{\"type\": \"function\", \"function\": "
           "{\"name\": \"f\"}}\n</tools>\nTo call one, write its name and arguments as JSON "
           "between these marks, and nothing else; a pair of marks for each call:\n<tool_call>\n"
           "{\"name\": \"NAME\", \"arguments\": {...}}\n</tool_call>\nWhat it gives then comes "
           "between <tool_response> and </tool_response>.\n[user]Why?\n[assistant]<tool_call>\n"
           "{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n[user]<tool_response>\n12\n"
           "</tool_response>\n[assistant]");
    assert_ptr_equal(lh_chat_template_tool_format(chat_template), lh_tool_format_generic());
    /* Calls of an earlier turn, and nothing to call now; a system message of its own. */
    s->messages[0] = say("system", "Be brief.");
    s->said.tools = NULL;
    expect(chat_template, s,
           "[system]Be brief.\n[assistant]<tool_call>\n{\"name\": \"f\", \"arguments\": "
           "{\"a\": 1}}\n</tool_call>\n[user]<tool_response>\n12\n</tool_response>\n[assistant]");
    close_scene(s);
    lh_chat_template_destroy(chat_template);
}

static void a_second_template_is_run_where_there_are_tools(void **state) {
    (void)state;
    scene *s = open_scene();
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_text(writer, "tokenizer.chat_template", "plain");
    gguf_writer_text(writer, "tokenizer.chat_template.tool_use",
                     "{{ tools[0].type }} [TOOL_CALLS] tool_calls");
    size_t length;
    uint8_t *bytes = gguf_writer_finish(writer, &length);
    gguf_writer_destroy(writer);
    lh_gguf *gguf;
    lh_chat_template *chat_template;
    assert_int_equal(lh_gguf_parse(bytes, length, length, &gguf, NULL), LH_OK);
    assert_int_equal(lh_chat_template_create(gguf, &chat_template, NULL), LH_OK);
    expect(chat_template, s, "function [TOOL_CALLS] tool_calls");
    assert_string_equal(lh_chat_template_tool_format(chat_template)->name, "mistral");
    s->said.tools = NULL;
    s->said.count = 1;
    expect(chat_template, s, "plain");
    lh_chat_template_destroy(chat_template);
    lh_gguf_destroy(gguf);
    free(bytes);
    close_scene(s);
}

static void without_memory_it_says_so(void **state) {
    (void)state;
    static const char *const templates[] = {
        PLAIN, "{% for t in tools %}{{ messages[1].tool_calls[0].function.name }}{% endfor %}"};
    for (size_t i = 0; i < 2; i++) {
        scene *s = open_scene();
        lh_chat_template *chat_template = parse_template(templates[i]);
        lh_status status = LH_ERR_NO_MEMORY;
        for (size_t n = 1; status == LH_ERR_NO_MEMORY; n++) {
            lh_text_buffer text = {0};
            failing_malloc_arm(n);
            status = lh_chat_template_render_text(chat_template, "", "", &s->said, &text, NULL);
            assert_int_equal(failing_malloc_disarm(), status != LH_OK);
            lh_text_buffer_reset(&text);
        }
        assert_int_equal(status, LH_OK);
        lh_chat_template_destroy(chat_template);
        close_scene(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_template_gets_what_transformers_gives),
        cmocka_unit_test(without_tools_they_are_none),
        cmocka_unit_test(arguments_are_text_where_they_meet_text),
        cmocka_unit_test(a_refusal_is_the_first_one),
        cmocka_unit_test(a_template_without_tools_is_told_in_words),
        cmocka_unit_test(a_second_template_is_run_where_there_are_tools),
        cmocka_unit_test(without_memory_it_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
