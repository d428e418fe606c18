/* The input of a response, a text or a list of items, as a conversation. Thread: any. */
#pragma once

#include "gateway/openai/conversation.h"

/* Reads `input`. The first item that is wrong fills the error. */
void lh_responses_input_read(const lh_body_reader *body, lh_openai_conversation *conversation);
