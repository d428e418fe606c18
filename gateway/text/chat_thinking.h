/* The thoughts in a thinking model's earlier answers ("<think>...</think>answer"), as Qwen3's
 * template sees them. Thread: any. */
#pragma once

#include "gateway/text/chat_template.h"

typedef struct lh_chat_thinking {
    lh_text thought,
        /* in the content, without line feeds around the thought and before the answer; no
         * "</think>": all of it is the answer, as it is */
        answer;
} lh_chat_thinking;

lh_chat_thinking lh_chat_thinking_split(lh_text content);
/* Without the line feeds in front. */
lh_text lh_chat_thinking_strip(lh_text text);

/* The index of the user's last question, a tool's response not counted as one; of the last message
 * where there is none. Thoughts before it are left out. count > 0. */
size_t lh_chat_thinking_last_query(const lh_chat_message *messages, size_t count);
