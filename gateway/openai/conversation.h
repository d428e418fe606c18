/* A request's messages put together bit by bit, for dialects that do not list them as templates
 * want them: what an assistant thought, said and called in one go is one message here. The first
 * thing that is wrong fills the error; what is told after it changes nothing.
 *
 * Texts are the body's, or are kept by the request. Thread: any. */
#pragma once

#include "gateway/openai/request.h"
#include "gateway/openai/text_parts.h"

typedef struct lh_openai_conversation {
    lh_openai_request *request; /* without messages at first; `made` is a list */
    lh_openai_error *error;
    size_t capacity;
    bool in_turn;      /* the last message is the assistant's, who may go on */
    bool was_answered; /* what is read has been answered before: the reader's own note */
} lh_openai_conversation;

/* Makes the request's list `made`. */
void lh_openai_conversation_begin(lh_openai_conversation *conversation, lh_openai_request *request,
                                  lh_openai_error *error);

/* The text under `key`, which may be a list of parts (text_parts.h); NULL: there is none, or it is
 * refused. *length: its bytes. */
const char *lh_openai_conversation_text(lh_openai_conversation *conversation,
                                        const lh_body_reader *item, const char *key,
                                        const lh_openai_part_rules *rules, size_t *length);
/* A copy of a text that will not stay. NULL: no memory. */
const char *lh_openai_conversation_keep(lh_openai_conversation *conversation, const char *text,
                                        size_t length);

/* Of a system, or of a user. Several of the system in a row are one, with an empty line between. */
void lh_openai_conversation_say(lh_openai_conversation *conversation, const char *role,
                                const char *text, size_t length);
/* Of the assistant: a thought, a text, a call of a tool; arguments: a JSON text. */
void lh_openai_conversation_think(lh_openai_conversation *conversation, const char *text,
                                  size_t length);
void lh_openai_conversation_answer(lh_openai_conversation *conversation, const char *text,
                                   size_t length);
void lh_openai_conversation_call(lh_openai_conversation *conversation, const char *id,
                                 const char *name, const char *arguments);
/* Of a tool: what the call of this id has given. */
void lh_openai_conversation_result(lh_openai_conversation *conversation, const char *call_id,
                                   const char *text, size_t length);
