/* Conversations that a template does not take as they are: folded where they stand, so that what
 * comes before stays what it was. */
#include "gateway/text/chat_template.h"
#include "gateway/text/folded_messages.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Qwen's rule, Gemma's two, and one that takes everything. */
#define QWEN                                                                                       \
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"                        \
    "{{ raise_exception('System message must be at the beginning.') }}{% endif %}"                 \
    "<{{ m.role }}>{{ m.content }}{% endfor %}"
#define TURNS                                                                                      \
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"                 \
    "{{ raise_exception('must alternate') }}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}"
#define ANY "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"

#define MESSAGES_MAX 8

/* "su" is a system message "a" and a user's "b": letters by their place. */
static size_t read(const char *roles, lh_chat_message messages[MESSAGES_MAX]) {
    static const char *const texts[MESSAGES_MAX] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    size_t count = strlen(roles);
    for (size_t i = 0; i < count; i++)
        messages[i] = (lh_chat_message){.role = roles[i] == 's'   ? "system"
                                                : roles[i] == 'u' ? "user"
                                                : roles[i] == 't' ? "tool"
                                                                  : "assistant",
                                        .content = texts[i],
                                        .content_length = 1};
    return count;
}

#define MARKED(text) "<system>\n" text "\n</system>"

static const struct {
    const char *chat_template, *roles, *text; /* NULL: refused */
} rows[] = {
    {ANY, "ssusa", "<system>a<system>b<user>c<system>d<assistant>e"},
    {QWEN, "su", "<system>a<user>b"},
    {QWEN, "ssu", "<system>a\n\nb<user>c"},
    {QWEN, "sssuau", "<system>a\n\nb\n\nc<user>d<assistant>e<user>f"},
    {QWEN, "suas", "<system>a<user>b<assistant>c<user>" MARKED("d")},
    {QWEN, "suasu", "<system>a<user>b<assistant>c<user>" MARKED("d") "\n\ne"},
    {QWEN, "susa", "<system>a<user>b\n\n" MARKED("c") "<assistant>d"},
    {QWEN, "us", "<user>a\n\n" MARKED("b")},
    {QWEN, "suats", "<system>a<user>b<assistant>c<tool>d<user>" MARKED("e")},
    /* What the template takes stays as it was, beside what is folded. */
    {QWEN, "suuas", "<system>a<user>b<user>c<assistant>d<user>" MARKED("e")},
    {TURNS, "uu", "<user>a\n\nb"},
    {TURNS, "uau", "<user>a<assistant>b<user>c"},
    {TURNS, "su", "<user>" MARKED("a") "\n\nb"},
    {TURNS, "suasu", "<user>" MARKED("a") "\n\nb<assistant>c<user>" MARKED("d") "\n\ne"},
    {TURNS, "uaa", NULL},
    {TURNS, "aua", NULL},
};

static lh_status render(const char *chat_template, const char *roles, lh_text_buffer *text,
                        lh_error *error) {
    lh_chat_message messages[MESSAGES_MAX];
    lh_chat_template *parsed;
    const lh_chat_conversation said = {.messages = messages, .count = read(roles, messages)};
    assert_int_equal(lh_chat_template_parse(chat_template, strlen(chat_template), &parsed, error),
                     LH_OK);
    lh_status status = lh_chat_template_render_text(parsed, "", "", &said, text, error);
    lh_chat_template_destroy(parsed);
    return status;
}

static void a_template_gets_what_it_takes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lh_text_buffer text = {0};
        lh_error error;
        lh_status status = render(rows[i].chat_template, rows[i].roles, &text, &error);
        if (status != (rows[i].text ? LH_OK : LH_ERR_INVALID) ||
            (rows[i].text && (text.length != strlen(rows[i].text) ||
                              memcmp(text.bytes, rows[i].text, text.length) != 0)))
            fail_msg("%s: %s, \"%.*s\"", rows[i].roles, lh_status_name(status), (int)text.length,
                     text.bytes ? text.bytes : "");
        lh_text_buffer_reset(&text);
    }
}

/* Tools that the template does not know are told by whom it lets speak. */
static void tools_are_told_by_the_user_where_there_is_no_system(void **state) {
    (void)state;
    json_t *tools = json_pack("[{s:s, s:{s:s}}]", "type", "function", "function", "name", "look"),
           *calls = json_pack("[{s:{s:s, s:s}}]", "function", "name", "look", "arguments", "{}");
    const lh_chat_message messages[] = {{.role = "user", .content = "a", .content_length = 1},
                                        {.role = "assistant", .tool_calls = calls},
                                        {.role = "tool", .content = "given", .content_length = 5},
                                        {.role = "user", .content = "and?", .content_length = 4}};
    for (size_t count = 1; count <= 4; count++) {
        const lh_chat_conversation said = {.messages = messages, .count = count, .tools = tools};
        lh_chat_template *parsed;
        lh_text_buffer text = {0};
        lh_error error;
        assert_int_equal(lh_chat_template_parse(TURNS, strlen(TURNS), &parsed, &error), LH_OK);
        if (lh_chat_template_render_text(parsed, "", "", &said, &text, &error))
            fail_msg("%zu: %s", count, error.message);
        assert_int_equal(lh_text_buffer_append(&text, "", 1, NULL), LH_OK);
        assert_memory_equal(text.bytes, "<user>a\n\n", 9);
        assert_non_null(strstr(text.bytes, "look"));
        assert_int_equal(count > 2, strstr(text.bytes, "given") != NULL);
        assert_int_equal(count > 3, strstr(text.bytes, "\n\nand?") != NULL);
        lh_text_buffer_reset(&text);
        lh_chat_template_destroy(parsed);
    }
    json_decref(tools);
    json_decref(calls);
}

/* The words are those of the conversation as it was given. */
static void a_refusal_has_the_first_words(void **state) {
    (void)state;
    lh_text_buffer text = {0};
    lh_error error;
    assert_int_equal(render(TURNS, "saa", &text, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "must alternate"));
    lh_text_buffer_reset(&text);
}

/* With each further turn the text grows at its end alone: that is what caches live on. */
static void what_was_said_stays_where_it_was(void **state) {
    (void)state;
    static const char *const turns[] = {"su", "sua", "suas", "suasa", "suasau", "suasaus"};
    lh_text_buffer before = {0};
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        lh_text_buffer text = {0};
        lh_error error;
        assert_int_equal(render(QWEN, turns[i], &text, &error), LH_OK);
        assert_true(text.length > before.length);
        if (before.length)
            assert_memory_equal(text.bytes, before.bytes, before.length);
        lh_text_buffer_reset(&before);
        before = text;
    }
    lh_text_buffer_reset(&before);
}

static void without_memory_it_is_an_error(void **state) {
    (void)state;
    lh_chat_message messages[MESSAGES_MAX];
    size_t count = read("ssusuau", messages);
    for (size_t n = 1;; n++) {
        lh_folded_messages folded;
        lh_error error;
        failing_malloc_arm(n);
        lh_status status =
            lh_folded_messages_make(&folded, messages, count, LH_SYSTEM_FOLD_LATER, &error);
        bool failed = failing_malloc_disarm();
        lh_folded_messages_reset(&folded);
        assert_int_equal(status, failed ? LH_ERR_NO_MEMORY : LH_OK);
        if (!failed)
            break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_template_gets_what_it_takes),
        cmocka_unit_test(tools_are_told_by_the_user_where_there_is_no_system),
        cmocka_unit_test(a_refusal_has_the_first_words),
        cmocka_unit_test(what_was_said_stays_where_it_was),
        cmocka_unit_test(without_memory_it_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
