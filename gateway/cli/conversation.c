/* Questions, answers, and a few commands between them. */
#include "gateway/cli/conversation.h"

#include "common/base/terminal.h"
#include "gateway/cli/answer_events_json.h"
#include "gateway/cli/api_transfer.h"
#include "gateway/cli/interrupt.h"
#include "gateway/cli/message_reader.h"
#include "gateway/cli/running_api.h"
#include "gateway/cli/transcript_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_TIMEOUT_MS 3600000L

static const char help_text[] =
    "  /clear          forgets what was said\n"
    "  /system TEXT    what the model is told first, from now on\n"
    "  /bye            leaves, as Ctrl-D does\n"
    "  \"\"\"             begins a message of several lines, and ends it\n"
    "Ctrl-C stops an answer.\n";

typedef struct conversation {
    const lh_conversation_options *options;
    lh_transcript *transcript;
    bool is_plain; /* the model knows no conversations: it goes on from what was said last */
    bool is_terminal, has_colours; /* standard output */
    bool is_thinking;              /* its thoughts are being shown */
    lh_text_buffer answer;         /* so far */
} conversation;

/* ---- What is shown ---- */

/* Prints a part of the answer. A terminal gets its text without any control sequence. */
static void show(const conversation *c, const char *bytes, size_t length) {
    if (!c->is_terminal) {
        fwrite(bytes, 1, length, stdout);
        return;
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        bool is_c1 = byte == 0xc2 && i + 1 < length && (unsigned char)bytes[i + 1] < 0xa0;
        if (is_c1)
            i++;
        else if (byte >= ' ' ? byte != 0x7f : byte == '\n' || byte == '\t')
            putchar(byte);
    }
}

static void set_thinking(conversation *c, bool is_thinking) {
    if (c->is_thinking == is_thinking)
        return;
    c->is_thinking = is_thinking;
    if (c->has_colours)
        fputs(is_thinking ? "\033[2m" : "\033[0m", stdout);
    if (!is_thinking)
        fputs("\n\n", stdout);
}

/* Thoughts are for those who watch. */
static void on_text(void *context, const char *bytes, size_t length, bool is_thought) {
    conversation *c = context;
    if (is_thought && !c->is_terminal)
        return;
    set_thinking(c, is_thought);
    show(c, bytes, length);
    fflush(stdout);
    if (!is_thought)
        lh_text_buffer_append(&c->answer, bytes, length, NULL);
}

/* ---- One answer ---- */

typedef struct reception {
    lh_answer_events events;
    lh_status status;
    lh_error error;
} reception;

static bool on_bytes(void *context, const char *bytes, size_t length) {
    reception *r = context;
    r->status = lh_answer_events_feed(&r->events, bytes, length, &r->error);
    return r->status == LH_OK;
}

static bool goes_on(void *context) {
    (void)context;
    return !lh_interrupt_is_pending();
}

static lh_status judge(const conversation *c, reception *r, long http_status, lh_error *error) {
    if (http_status == 401)
        return lh_fail(error, LH_ERR_INVALID,
                       "%.120s wants a key: set LONGHAUL_API_KEY or OPENAI_API_KEY, or give "
                       "--api-key-file",
                       c->options->url);
    if (r->events.fault[0])
        return lh_fail(error, LH_ERR_INVALID, "the gateway answers: %s", r->events.fault);
    if (http_status != 200)
        return lh_fail(error, LH_ERR_INVALID, "%.120s answers HTTP %ld; is this the gateway's API?",
                       c->options->url, http_status);
    return r->events.is_whole ? LH_OK : lh_fail(error, LH_ERR_CLOSED, "the answer was cut off");
}

static lh_status receive(conversation *c, const char *body, bool *has_no_template,
                         lh_error *error) {
    reception r = {.events = {.on_text = on_text, .context = c}};
    const lh_api_request request = {.url = c->options->url,
                                    .path =
                                        c->is_plain ? "/v1/completions" : "/v1/chat/completions",
                                    .word = "",
                                    .key = c->options->key,
                                    .json = body,
                                    .timeout_ms = ANSWER_TIMEOUT_MS,
                                    .on_bytes = on_bytes,
                                    .goes_on = goes_on,
                                    .context = &r};
    long http_status = 0;
    lh_error cause;
    lh_status status = lh_api_transfer(&request, &http_status, &cause);
    if (status == LH_OK)
        r.status = lh_answer_events_end(&r.events, &r.error);
    if (r.status != LH_OK)
        status = lh_fail(error, r.status, "%s", r.error.message);
    else if (status != LH_OK)
        status = lh_running_api_explain(c->options->url, &cause, error);
    else
        status = judge(c, &r, http_status, error);
    *has_no_template = r.events.has_no_template;
    lh_answer_events_reset(&r.events);
    return status;
}

/* To what was said last. The answer so far is in c->answer, whatever comes of it. */
static lh_status answer(conversation *c, lh_error *error) {
    bool has_no_template = false;
    c->answer.length = 0;
    char *body = c->is_plain ? lh_transcript_render_completion(c->transcript)
                             : lh_transcript_render_chat(c->transcript);
    if (!body)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a request");
    lh_status status = receive(c, body, &has_no_template, error);
    free(body);
    if (c->is_thinking)
        set_thinking(c, false);
    if (status != LH_OK && has_no_template && !c->is_plain) {
        fputs("(The model has no chat template, so it goes on from the text.)\n", stderr);
        c->is_plain = true;
        return answer(c, error);
    }
    return status;
}

/* A question without an answer is as if it had not been asked. */
static lh_status ask(conversation *c, const char *text, size_t length, lh_error *error) {
    lh_status status = lh_transcript_add(c->transcript, "user", text, length, error);
    if (status != LH_OK)
        return status;
    lh_interrupt_take();
    status = answer(c, error);
    if (c->answer.length > 0) {
        putchar('\n');
        fflush(stdout);
    }
    if (status != LH_OK && c->answer.length == 0)
        lh_transcript_take_back(c->transcript);
    else if (lh_transcript_add(c->transcript, "assistant", c->answer.bytes ? c->answer.bytes : "",
                               c->answer.length, NULL) != LH_OK)
        lh_transcript_take_back(c->transcript);
    return status;
}

/* ---- At a terminal ---- */

/* The text behind a command's word; NULL: it is another command. */
static const char *behind(const char *text, const char *word) {
    size_t length = strlen(word);
    if (strncmp(text, word, length) != 0 || (text[length] && text[length] != ' '))
        return NULL;
    return text + length + strspn(text + length, " ");
}

/* False: it was /bye. */
static bool obey(conversation *c, const char *text) {
    const char *system = behind(text, "/system");
    lh_error error;
    system = system ? system : behind(text, "/set system"); /* as Ollama has it */
    if (behind(text, "/bye") || behind(text, "/exit"))
        return false;
    if (behind(text, "/clear"))
        lh_transcript_clear(c->transcript);
    else if (system && lh_transcript_set_system(c->transcript, system, &error) != LH_OK)
        fprintf(stderr, "%s\n", error.message);
    else if (behind(text, "/help") || behind(text, "/?"))
        fputs(help_text, stderr);
    else if (!system)
        fprintf(stderr, "There is no command %.*s; /help lists those that there are.\n",
                (int)strcspn(text, " \n"), text);
    return true;
}

/* False: it is over. */
static bool take_message(conversation *c, lh_text_buffer *message) {
    lh_error error;
    if (message->length == 0)
        return true;
    if (lh_text_buffer_append(message, "", 1, NULL) != LH_OK)
        return false;
    if (message->bytes[0] == '/')
        return obey(c, message->bytes);
    lh_status status = ask(c, message->bytes, message->length - 1, &error);
    if (status == LH_ERR_CANCELLED)
        fputs("\n", stderr);
    else if (status != LH_OK)
        fprintf(stderr, "%s\n", error.message);
    lh_interrupt_take();
    return true;
}

static lh_status talk(conversation *c, lh_error *error) {
    lh_text_buffer message = {0};
    lh_status status = LH_OK;
    for (bool is_over = false; !is_over && status != LH_ERR_CLOSED && status != LH_ERR_NO_MEMORY;) {
        status = lh_message_read(&message, error);
        if (status == LH_OK)
            is_over = !take_message(c, &message);
        else if (status == LH_AGAIN && lh_interrupt_take())
            fputs("\n(Ctrl-D or /bye leaves.)\n", stderr);
        else if (status == LH_ERR_LIMIT)
            fprintf(stderr, "%s\n", error->message);
    }
    lh_text_buffer_reset(&message);
    if (status == LH_ERR_CLOSED)
        fputs("\n", stderr);
    return status == LH_ERR_NO_MEMORY ? status : LH_OK;
}

/* ---- The whole ---- */

static lh_status ask_once(conversation *c, lh_error *error) {
    lh_text_buffer message = {0};
    const char *prompt = c->options->prompt;
    if (prompt)
        return ask(c, prompt, strlen(prompt), error);
    lh_status status = lh_message_read_all(&message, error);
    if (status == LH_OK && message.length == 0)
        status = lh_fail(error, LH_ERR_INVALID, "nothing is asked: standard input is empty");
    if (status == LH_OK)
        status = ask(c, message.bytes, message.length, error);
    lh_text_buffer_reset(&message);
    return status;
}

lh_status lh_conversation_run(const lh_conversation_options *options, lh_error *error) {
    conversation c = {.options = options,
                      .is_terminal = isatty(STDOUT_FILENO),
                      .has_colours = lh_terminal_wants_colours()};
    lh_status status = lh_answer_style_check(options->style, error);
    if (status == LH_OK)
        status = lh_transcript_create(options->style, &c.transcript, error);
    if (status != LH_OK)
        return status;
    lh_interrupt_catch();
    status = options->prompt || !isatty(STDIN_FILENO) ? ask_once(&c, error) : talk(&c, error);
    lh_text_buffer_reset(&c.answer);
    lh_transcript_destroy(c.transcript);
    if (status == LH_OK && fflush(stdout) != 0)
        status = lh_fail(error, LH_ERR_IO, "the answer could not be written");
    return status;
}
