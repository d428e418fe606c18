/* Ollama's messages as a conversation: calls of tools have no ids there, and their arguments are
 * objects. Thread: any. */
#pragma once

#include "gateway/openai/conversation.h"

/* Reads `messages`, which is a list. The first message that is wrong fills the error. */
void lh_ollama_messages_read(const lh_body_reader *body, lh_openai_conversation *conversation);
