/* Messages whose content is a list of blocks, as a conversation. Thread: any. */
#pragma once

#include "gateway/openai/conversation.h"

/* Reads `system` and `messages`. The first block that is wrong fills the error. */
void lh_anthropic_messages_read(const lh_body_reader *body, lh_openai_conversation *conversation);
