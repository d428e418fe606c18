/* What the template wrote and what it was given become segments for the tokenizer, which looks for
 * special tokens in the former only. */
#include "gateway/text/chat_template.h"

#include "common/base/utf8.h"
#include "gateway/text/folded_messages.h"
#include "gateway/text/jinja/template.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define VARIABLES_MAX   64
#define SECONDS_PER_DAY 86400

struct lh_chat_template {
    lh_jinja_template *jinja;
    lh_text_buffer text;
    lh_jinja_template *tool_use; /* where there are tools; NULL: the same */
    bool knows_tools;            /* the one that is run there does */
    const lh_tool_format *tool_format;
    json_t *arguments; /* the operator's; NULL: none */
    int64_t day_s;     /* -1: today */
    const lh_thinking_marks *thinking;
};

static lh_status refuse_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a conversation");
}

/* What the template's text says of tools. */
static void look_for_tools(lh_chat_template *made, const char *text, size_t length) {
    made->knows_tools = length > 0 && memmem(text, length, "tools", 5) != NULL;
    made->tool_format =
        made->knows_tools ? lh_tool_format_find(text, length) : lh_tool_format_generic();
}

lh_status lh_chat_template_parse(const char *text, size_t length, lh_chat_template **chat_template,
                                 lh_error *error) {
    lh_chat_template *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a chat template");
    made->day_s = -1;
    made->thinking = lh_thinking_marks_find(text, length);
    look_for_tools(made, text, length);
    lh_status status = lh_text_buffer_append(&made->text, text, length, error);
    if (!status)
        status = lh_jinja_template_parse(text, length, &made->jinja, error);
    if (status) {
        lh_text_buffer_reset(&made->text);
        free(made);
        return status;
    }
    *chat_template = made;
    return LH_OK;
}

static lh_status read_file(FILE *file, lh_text_buffer *text, lh_error *error) {
    char part[4096];
    lh_status status = LH_OK;
    while (!status && text->length <= LH_JINJA_TEMPLATE_BYTES_MAX) {
        size_t length = fread(part, 1, sizeof part, file);
        if (length == 0)
            return ferror(file) ? lh_fail(error, LH_ERR_IO, "cannot be read") : LH_OK;
        status = lh_text_buffer_append(text, part, length, error);
    }
    return status; /* too long: the parser says so */
}

lh_status lh_chat_template_load(const char *path, lh_chat_template **chat_template,
                                lh_error *error) {
    lh_text_buffer text = {0};
    FILE *file = fopen(path, "rb");
    if (!file)
        return lh_fail(error, LH_ERR_IO, "%.200s: %s", path, strerror(errno));
    lh_status status = read_file(file, &text, error);
    fclose(file);
    if (!status)
        status =
            lh_chat_template_parse(text.bytes ? text.bytes : "", text.length, chat_template, error);
    lh_text_buffer_reset(&text);
    return status;
}

lh_status lh_chat_template_create(const lh_gguf *gguf, lh_chat_template **chat_template,
                                  lh_error *error) {
    lh_text text;
    lh_chat_template *made;
    lh_status status = lh_gguf_get_text(gguf, "tokenizer.chat_template", &text, error);
    if (status == LH_OK)
        status = lh_chat_template_parse(text.bytes, text.length, &made, error);
    if (status != LH_OK)
        return status;
    if (lh_gguf_get_text(gguf, "tokenizer.chat_template.tool_use", &text, NULL) == LH_OK) {
        look_for_tools(made, text.bytes, text.length);
        status = lh_jinja_template_parse(text.bytes, text.length, &made->tool_use, error);
    }
    if (status == LH_OK)
        *chat_template = made;
    else
        lh_chat_template_destroy(made);
    return status;
}

void lh_chat_template_destroy(lh_chat_template *chat_template) {
    if (!chat_template)
        return;
    json_decref(chat_template->arguments);
    lh_text_buffer_reset(&chat_template->text);
    lh_jinja_template_destroy(chat_template->jinja);
    lh_jinja_template_destroy(chat_template->tool_use);
    free(chat_template);
}

lh_text lh_chat_template_text(const lh_chat_template *chat_template) {
    const lh_text_buffer *text = &chat_template->text;
    return (lh_text){text->length ? text->bytes : "", text->length};
}

const lh_thinking_marks *lh_chat_template_thinking(const lh_chat_template *chat_template) {
    return chat_template->thinking;
}

const lh_tool_format *lh_chat_template_tool_format(const lh_chat_template *chat_template) {
    return chat_template->tool_format;
}

lh_status lh_chat_template_set_arguments(lh_chat_template *chat_template, const char *json,
                                         lh_error *error) {
    json_error_t cause;
    json_t *arguments = json_loads(json, JSON_REJECT_DUPLICATES, &cause);
    if (!json_is_object(arguments) || json_object_size(arguments) > VARIABLES_MAX / 2) {
        json_decref(arguments);
        return lh_fail(error, LH_ERR_INVALID, "a JSON object of at most %d names is expected%s%s",
                       VARIABLES_MAX / 2, arguments ? "" : ": ", arguments ? "" : cause.text);
    }
    json_decref(chat_template->arguments);
    chat_template->arguments = arguments;
    return LH_OK;
}

lh_status lh_chat_template_set_day(lh_chat_template *chat_template, const char *day,
                                   lh_error *error) {
    struct tm parsed = {0}, normal;
    const char *end = strptime(day, "%Y-%m-%d", &parsed);
    normal = parsed;
    time_t seconds = end && !*end ? timegm(&normal) : -1;
    if (seconds < 0 || normal.tm_mday != parsed.tm_mday)
        return lh_fail(error, LH_ERR_INVALID, "\"%.40s\" is no day, such as 2026-11-23", day);
    chat_template->day_s = (int64_t)seconds;
    return LH_OK;
}

/* ---- One rendering. ---- */

typedef struct variables {
    lh_jinja_variable list[VARIABLES_MAX];
    size_t count;
} variables;

/* The first one of a name counts. */
static void add(variables *all, const char *name, const json_t *value, bool is_of_template) {
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->list[i].name, name) == 0)
            return;
    assert(all->count < VARIABLES_MAX);
    all->list[all->count++] = (lh_jinja_variable){name, value, is_of_template};
}

static void add_all(variables *all, const json_t *object) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value) add(all, name, value, false);
}

static bool is_utf8(const char *text, size_t length) {
    return length == 0 || lh_utf8_valid_prefix(text, length) == length;
}

static lh_status check(const lh_chat_conversation *conversation, lh_error *error) {
    if (conversation->count == 0)
        return lh_fail(error, LH_ERR_INVALID, "there is no message");
    if (json_object_size(conversation->arguments) > VARIABLES_MAX / 2 - 8)
        return lh_fail(error, LH_ERR_LIMIT, "chat_template_kwargs: more than %d names",
                       VARIABLES_MAX / 2 - 8);
    for (size_t i = 0; i < conversation->count; i++) {
        const lh_chat_message *message = &conversation->messages[i];
        if (!is_utf8(message->content, message->content_length) ||
            !is_utf8(message->thought, message->thought_length))
            return lh_fail(error, LH_ERR_MALFORMED, "messages[%zu]: the content is not UTF-8", i);
    }
    if (conversation->goes_on &&
        strcmp(conversation->messages[conversation->count - 1].role, "assistant") != 0)
        return lh_fail(error, LH_ERR_INVALID,
                       "messages[%zu]: only an assistant's message can be gone on with",
                       conversation->count - 1);
    return LH_OK;
}

static struct tm day_of(const lh_chat_template *chat_template, int64_t now_s) {
    int64_t seconds = chat_template->day_s >= 0 ? chat_template->day_s : now_s;
    time_t midnight = (time_t)(seconds - seconds % SECONDS_PER_DAY);
    struct tm day = {0};
    gmtime_r(&midnight, &day);
    return day;
}

static void reverse(char *to, const char *from, size_t length) {
    for (size_t i = 0; i < length; i++)
        to[i] = from[length - 1 - i];
}

/* The last place where the part is; SIZE_MAX: nowhere. The part is of the user's making, and
 * memmem takes linear time whatever it is; but it finds first places, so both are turned round. */
static lh_status find_last(const lh_jinja_rendering *made, lh_text part, size_t *at,
                           lh_error *error) {
    char *turned = malloc(made->length + part.length);
    if (!turned)
        return refuse_memory(error);
    reverse(turned, made->text, made->length);
    reverse(turned + made->length, part.bytes, part.length);
    const char *found = memmem(turned, made->length, turned + made->length, part.length);
    *at = found ? made->length - part.length - (size_t)(found - turned) : SIZE_MAX;
    free(turned);
    return LH_OK;
}

static bool is_blank(char byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Ends the text where the last message's does: as transformers, with the white space behind it only
 * where the template has kept it. */
static lh_status end_with_last_message(const lh_chat_conversation *conversation,
                                       lh_jinja_rendering *made, lh_error *error) {
    const lh_chat_message *message = &conversation->messages[conversation->count - 1];
    lh_text said = {message->content ? message->content : "",
                    message->content ? message->content_length : 0};
    while (said.length > 0 && is_blank(*said.bytes)) {
        said.bytes++;
        said.length--;
    }
    lh_text whole = said;
    while (said.length > 0 && is_blank(said.bytes[said.length - 1]))
        said.length--;
    size_t at = SIZE_MAX;
    lh_status status = said.length ? find_last(made, said, &at, error) : LH_OK;
    if (status)
        return status;
    if (at == SIZE_MAX)
        return lh_fail(error, LH_ERR_INVALID,
                       "messages[%zu]: its text is %s, so that it cannot be gone on with",
                       conversation->count - 1,
                       said.length ? "changed or left out by the chat template" : "empty");
    bool keeps_space = whole.length <= made->length - at &&
                       memcmp(made->text + at, whole.bytes, whole.length) == 0;
    made->length = at + (keeps_space ? whole.length : said.length);
    return LH_OK;
}

/* Where the template knows one of the two names. */
static void add_effort(variables *all, const json_t *effort) {
    if (!effort)
        return;
    add(all, "reasoning_effort", effort, false);
    if (strcmp(json_string_value(effort), "none") == 0)
        add(all, "enable_thinking", json_false(), false);
}

/* With tools in this form. */
static lh_status render_form(const lh_chat_template *chat_template, lh_text bos, lh_text eos,
                             const lh_chat_conversation *conversation, lh_chat_tools_form form,
                             lh_jinja_rendering *made, lh_error *error) {
    const json_t *tools = conversation->tools;
    json_t *messages = NULL, *bos_text = json_stringn_nocheck(bos.bytes, bos.length),
           *eos_text = json_stringn_nocheck(eos.bytes, eos.length);
    bool has_head = !conversation->without_answer_head && !conversation->goes_on;
    lh_status status = lh_chat_messages_json(conversation->messages, conversation->count, tools,
                                             form, &messages, error);
    variables all = {.count = 0};
    if (status == LH_OK && bos_text && eos_text) {
        struct tm day = day_of(chat_template, conversation->now_s);
        add(&all, "messages", messages, false);
        add(&all, "add_generation_prompt", json_boolean(has_head), false);
        add(&all, "bos_token", bos_text, true);
        add(&all, "eos_token", eos_text, true);
        if (tools && form < LH_CHAT_TOOLS_WORDS)
            add(&all, "tools", tools, false);
        add_all(&all, conversation->arguments);
        add_effort(&all, conversation->reasoning_effort);
        add_all(&all, chat_template->arguments);
        add(&all, "tools", json_null(), false); /* as transformers: there, but none */
        add(&all, "documents", json_null(), false);
        status = lh_jinja_template_render(tools && chat_template->tool_use ? chat_template->tool_use
                                                                           : chat_template->jinja,
                                          all.list, all.count, &day, made, error);
    } else if (status == LH_OK) {
        status = refuse_memory(error);
    }
    json_decref(messages);
    json_decref(bos_text);
    json_decref(eos_text);
    return status;
}

/* Whether what it says of tools is to be told in words. */
static bool is_in_words(const lh_chat_template *chat_template,
                        const lh_chat_conversation *conversation) {
    return !chat_template->knows_tools &&
           (conversation->tools ||
            lh_chat_messages_call_tools(conversation->messages, conversation->count));
}

static lh_chat_tools_form form_of_words(lh_system_fold fold) {
    return fold == LH_SYSTEM_FOLD_ALL     ? LH_CHAT_TOOLS_WORDS_OF_USER
           : fold == LH_SYSTEM_FOLD_TURNS ? LH_CHAT_TOOLS_WORDS_IN_TURNS
                                          : LH_CHAT_TOOLS_WORDS;
}

/* With tools in the form that the template takes. */
static lh_status render_told(const lh_chat_template *chat_template, lh_text bos, lh_text eos,
                             const lh_chat_conversation *conversation, lh_system_fold fold,
                             lh_jinja_rendering *made, lh_error *error) {
    bool is_worded = is_in_words(chat_template, conversation);
    lh_chat_tools_form form = is_worded ? form_of_words(fold) : LH_CHAT_TOOLS_OBJECTS;
    lh_status status = render_form(chat_template, bos, eos, conversation, form, made, error);
    /* Some put the arguments together with text, which a value is not. */
    if (status == LH_ERR_INVALID && !is_worded &&
        (conversation->tools ||
         lh_chat_messages_call_tools(conversation->messages, conversation->count))) {
        lh_error second;
        lh_jinja_rendering_reset(made);
        if (render_form(chat_template, bos, eos, conversation, LH_CHAT_TOOLS_TEXTS, made,
                        &second) == LH_OK)
            status = LH_OK;
    }
    return status;
}

/* With other roles. LH_ERR_INVALID: the template does not take it so either. */
static lh_status render_folded(const lh_chat_template *chat_template, lh_text bos, lh_text eos,
                               const lh_chat_conversation *conversation, lh_system_fold fold,
                               lh_jinja_rendering *made, lh_error *error) {
    lh_folded_messages folded;
    lh_chat_conversation told = *conversation;
    lh_status status =
        lh_folded_messages_make(&folded, conversation->messages, conversation->count, fold, error);
    told.messages = folded.messages;
    told.count = folded.count;
    if (!status) {
        lh_jinja_rendering_reset(made);
        status = render_told(chat_template, bos, eos, &told, fold, made, error);
    }
    lh_folded_messages_reset(&folded);
    return status;
}

/* As it was given, where the template takes that; else with the system's messages folded, where
 * that makes another conversation of it. */
static lh_status render(const lh_chat_template *chat_template, lh_text bos, lh_text eos,
                        const lh_chat_conversation *conversation, lh_jinja_rendering *made,
                        lh_error *error) {
    lh_status status = check(conversation, error);
    if (status)
        return status;
    status = render_told(chat_template, bos, eos, conversation, LH_SYSTEM_FOLD_NONE, made, error);
    for (lh_system_fold fold = LH_SYSTEM_FOLD_LATER; fold <= LH_SYSTEM_FOLD_ALL; fold++) {
        lh_error second;
        if (status != LH_ERR_INVALID ||
            (!lh_folded_messages_differ(conversation->messages, conversation->count, fold) &&
             !(fold >= LH_SYSTEM_FOLD_TURNS && is_in_words(chat_template, conversation))))
            continue;
        lh_status again = render_folded(chat_template, bos, eos, conversation, fold, made, &second);
        if (again == LH_ERR_NO_MEMORY)
            *error = second;
        if (again == LH_OK || again == LH_ERR_NO_MEMORY)
            status = again;
    }
    if (!status && conversation->goes_on)
        status = end_with_last_message(conversation, made, error);
    return status;
}

static lh_status append_text(const lh_chat_template *chat_template, lh_text bos, lh_text eos,
                             const lh_chat_conversation *conversation, lh_text_buffer *text,
                             lh_error *error) {
    lh_jinja_rendering made = {0};
    lh_status status = render(chat_template, bos, eos, conversation, &made, error);
    if (!status)
        status = lh_text_buffer_append(text, made.text, made.length, error);
    lh_jinja_rendering_reset(&made);
    return status;
}

lh_status lh_chat_template_render_text(const lh_chat_template *chat_template, const char *bos,
                                       const char *eos, const lh_chat_conversation *conversation,
                                       lh_text_buffer *text, lh_error *error) {
    return append_text(chat_template, (lh_text){bos, strlen(bos)}, (lh_text){eos, strlen(eos)},
                       conversation, text, error);
}

/* The text of a token that may be absent. */
static lh_text name_of(const lh_tokenizer *tokenizer, int64_t token) {
    lh_text name = {"", 0};
    if (token >= 0)
        (void)lh_tokenizer_token_name(tokenizer, (uint32_t)token, &name.bytes, &name.length);
    return name;
}

lh_status lh_chat_template_show(const lh_chat_template *chat_template,
                                const lh_tokenizer *tokenizer,
                                const lh_chat_conversation *conversation, lh_text_buffer *text,
                                lh_error *error) {
    lh_text bos = name_of(tokenizer, lh_tokenizer_bos(tokenizer));
    lh_text eos = name_of(tokenizer, lh_tokenizer_eos(tokenizer));
    return append_text(chat_template, bos, eos, conversation, text, error);
}

/* Does the conversation begin with the text of bos? */
static bool begins_with_bos(const lh_jinja_rendering *made, lh_text bos) {
    return bos.length > 0 && made->length >= bos.length && made->span_count > 0 &&
           made->spans[0].is_of_template && made->spans[0].length >= bos.length &&
           memcmp(made->text, bos.bytes, bos.length) == 0;
}

static lh_status tokenize(const lh_tokenizer *tokenizer, const lh_jinja_rendering *made,
                          lh_tokens *tokens, lh_error *error) {
    lh_text_segment *segments = calloc(made->span_count + 1, sizeof *segments);
    size_t at = 0, count = 0;
    if (!segments)
        return refuse_memory(error);
    for (size_t i = 0; i < made->span_count && at < made->length; i++) {
        size_t room = made->length - at;
        size_t length = made->spans[i].length < room ? made->spans[i].length : room;
        segments[count++] =
            (lh_text_segment){made->text + at, length, made->spans[i].is_of_template};
        at += length;
    }
    lh_status status = lh_tokenizer_encode_segments(tokenizer, segments, count, tokens, error);
    free(segments);
    return status;
}

/* What the answer goes on is of the model's own making: there the mark may be far back. */
static bool begins_in_thought(const lh_chat_template *chat_template,
                              const lh_chat_conversation *conversation,
                              const lh_jinja_rendering *made) {
    const lh_chat_message *last = &conversation->messages[conversation->count - 1];
    return lh_thinking_is_opened(chat_template->thinking, made->text, made->length) ||
           (conversation->goes_on &&
            lh_thinking_is_open(chat_template->thinking, last->content, last->content_length));
}

lh_status lh_chat_template_render(const lh_chat_template *chat_template,
                                  const lh_tokenizer *tokenizer,
                                  const lh_chat_conversation *conversation, lh_tokens *tokens,
                                  bool *is_thinking, lh_error *error) {
    lh_text bos = name_of(tokenizer, lh_tokenizer_bos(tokenizer));
    lh_text eos = name_of(tokenizer, lh_tokenizer_eos(tokenizer));
    lh_jinja_rendering made = {0};
    lh_status status = render(chat_template, bos, eos, conversation, &made, error);
    if (!status && lh_tokenizer_adds_bos(tokenizer) && !begins_with_bos(&made, bos))
        status = lh_tokens_push(tokens, (uint32_t)lh_tokenizer_bos(tokenizer), error);
    if (!status)
        status = tokenize(tokenizer, &made, tokens, error);
    *is_thinking = !status && begins_in_thought(chat_template, conversation, &made);
    lh_jinja_rendering_reset(&made);
    return status;
}
