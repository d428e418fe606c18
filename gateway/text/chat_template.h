/* Renders a conversation as a model's chat template does. The families (ChatML, Llama 3, Mistral,
 * Gemma ...) are recognised from tokenizer.chat_template, never guessed: an unknown one is refused.
 * Read-only after creation: any thread. */
#pragma once

#include "common/base/status.h"
#include "common/base/text_buffer.h"
#include "common/gguf/gguf.h"
#include "gateway/text/chat_signature.h"
#include "gateway/text/tokenizer.h"

typedef struct lh_chat_template lh_chat_template;

typedef struct lh_chat_message {
    const char *role; /* "system", "user", "assistant", "tool" */
    const char *content;
    size_t content_length;
} lh_chat_message;

/* Keeps nothing of `gguf`. LH_ERR_UNSUPPORTED: not a family that we know, the message says so and
 * which we do; LH_ERR_NOT_FOUND: the file has none; LH_ERR_NO_MEMORY. */
lh_status lh_chat_template_create(const lh_gguf *gguf, lh_chat_template **chat_template,
                                  lh_error *error);
/* The same from the template's text. */
lh_status lh_chat_template_parse(const char *text, size_t length, lh_chat_template **chat_template,
                                 lh_error *error);
/* The same from a signature that was read before; the default system message is copied. */
lh_status lh_chat_template_of_signature(const lh_chat_signature *signature,
                                        lh_chat_template **chat_template, lh_error *error);
void lh_chat_template_destroy(lh_chat_template *chat_template);
const char *lh_chat_template_family(const lh_chat_template *chat_template);

/* Appends the token ids of the conversation, ready for the assistant's answer: the template's own
 * text with special tokens parsed, the messages' content without. If the tokenizer adds bos and the
 * template has not, it is put in front. LH_ERR_INVALID: the template does not take this sequence of
 * roles (the message says why, in the template's words where it has some), or would leave a message
 * out. LH_ERR_MALFORMED: content that is not UTF-8. LH_ERR_NO_MEMORY. */
lh_status lh_chat_template_render(const lh_chat_template *chat_template,
                                  const lh_tokenizer *tokenizer, const lh_chat_message *messages,
                                  size_t count, lh_tokens *tokens, lh_error *error);

/* Appends the text of the conversation, with these texts for bos_token and eos_token. Fails as
 * _render. */
lh_status lh_chat_template_render_text(const lh_chat_template *chat_template, const char *bos,
                                       const char *eos, const lh_chat_message *messages,
                                       size_t count, lh_text_buffer *text, lh_error *error);
