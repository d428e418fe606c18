/* A conversation as a model's chat template has it. The template is Jinja, out of the model's file
 * or the operator's, and is run within bounds (jinja/template.h). Read-only once it is served: any
 * thread. */
#pragma once

#include "common/base/status.h"
#include "common/base/text_buffer.h"
#include "common/gguf/gguf.h"
#include "gateway/text/chat_messages.h"
#include "gateway/text/thinking.h"
#include "gateway/text/tokenizer.h"
#include "gateway/text/tools/tool_format.h"

#include <jansson.h>

typedef struct lh_chat_template lh_chat_template;

typedef struct lh_chat_conversation {
    const lh_chat_message *messages; /* [count] */
    size_t count;
    /* the API's list of them, or NULL: none may be called. A template that knows none is told in
     * words */
    const json_t *tools;
    /* an object, or NULL: more of the template's variables (chat_template_kwargs), before those of
     * lh_chat_template_set_arguments; what is in it is data, as messages are */
    const json_t *arguments;
    const json_t *reasoning_effort; /* a text, or NULL; "none": enable_thinking is false */
    bool without_answer_head;       /* add_generation_prompt is false */
    bool goes_on;  /* the text ends with that of the last message, which the answer goes on */
    int64_t now_s; /* Unix time: the day that the template sees, in UTC */
} lh_chat_conversation;

/* Keeps nothing of `gguf`. A file may have one more template, "tool_use", which is run where there
 * are tools. LH_ERR_NOT_FOUND: the file has none; else as _parse. */
lh_status lh_chat_template_create(const lh_gguf *gguf, lh_chat_template **chat_template,
                                  lh_error *error);
/* From the template's text. LH_ERR_UNSUPPORTED: it is no template, the message names the line and
 * what is expected there; LH_ERR_LIMIT; LH_ERR_NO_MEMORY. */
lh_status lh_chat_template_parse(const char *text, size_t length, lh_chat_template **chat_template,
                                 lh_error *error);
/* From a file of at most a MiB. LH_ERR_IO: it cannot be read; else as _parse. */
lh_status lh_chat_template_load(const char *path, lh_chat_template **chat_template,
                                lh_error *error);
void lh_chat_template_destroy(lh_chat_template *chat_template);
/* As it was given; lives as long as it does. */
lh_text lh_chat_template_text(const lh_chat_template *chat_template);
/* How its model marks what it thinks; NULL: it does not. Static storage. */
const lh_thinking_marks *lh_chat_template_thinking(const lh_chat_template *chat_template);

/* How its model calls tools. Static storage. */
const lh_tool_format *lh_chat_template_tool_format(const lh_chat_template *chat_template);

/* Before it is served. Variables of every conversation: an object as JSON. LH_ERR_INVALID: it is
 * none. */
lh_status lh_chat_template_set_arguments(lh_chat_template *chat_template, const char *json,
                                         lh_error *error);
/* Before it is served. The day that the template sees, in place of today: "2026-11-23".
 * LH_ERR_INVALID: it is none. */
lh_status lh_chat_template_set_day(lh_chat_template *chat_template, const char *day,
                                   lh_error *error);

/* Appends the token ids of the conversation, ready for the assistant's answer: the template's own
 * text with special tokens parsed, what it was given without. A template that does not take the
 * conversation as it was given gets it with the system's messages folded (folded_messages.h). If
 * the tokenizer adds bos and the template has not, it is put in front. *is_thinking: the answer
 * begins inside of a thought. LH_ERR_INVALID: the template does not take this conversation (the
 * message has its words); LH_ERR_LIMIT: it goes beyond its bounds; LH_ERR_MALFORMED: content that
 * is not UTF-8. LH_ERR_NO_MEMORY. */
lh_status lh_chat_template_render(const lh_chat_template *chat_template,
                                  const lh_tokenizer *tokenizer,
                                  const lh_chat_conversation *conversation, lh_tokens *tokens,
                                  bool *is_thinking, lh_error *error);

/* Appends the text that _render tokenizes, special tokens by their names. Fails as _render. */
lh_status lh_chat_template_show(const lh_chat_template *chat_template,
                                const lh_tokenizer *tokenizer,
                                const lh_chat_conversation *conversation, lh_text_buffer *text,
                                lh_error *error);

/* Appends the text of the conversation, with these texts for bos_token and eos_token. Fails as
 * _render. */
lh_status lh_chat_template_render_text(const lh_chat_template *chat_template, const char *bos,
                                       const char *eos, const lh_chat_conversation *conversation,
                                       lh_text_buffer *text, lh_error *error);
